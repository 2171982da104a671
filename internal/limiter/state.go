// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// MaxListedHolds is the largest number of open holds in a KeyState.
const MaxListedHolds = 100

// OpenHold is what an open reservation, or the slice of a replica, holds of a key.
type OpenHold struct {
	// ID is the ID of the reservation, Units the estimate. The ID of a slice is not listed: a caller with it could commit the slice.
	ID     string
	Units  int64
	EndsIn time.Duration
}

// Exception is an exception in force for a key: until a time it replaces limits of the policy, or exempts the key.
type Exception struct {
	Name string `json:"name"`
	// Action is ActionLimit or ActionAllow.
	Action plan.Action `json:"action"`
	// Until is when the exception ends, in UTC.
	Until time.Time `json:"until"`
	// Reason is why, for people; empty if none was given.
	Reason string `json:"reason,omitempty"`
}

// KeyState is the state of one key of one policy.
type KeyState struct {
	Policy string
	// Override and Action are the name and the action of the override that selects the
	// key; both are empty if none does.
	Override string
	// Group is the group by which this override selects the key; empty if it selects by others.
	Group  string
	Action plan.Action
	// Exception is the exception in force for the key; nil without one.
	Exception *Exception
	// Limits are the states that a check of cost 1 would find. With ActionAllow and
	// ActionDeny they are the policy's own limits, which such a check does not use.
	Limits []LimitState
	// Blocked is true while the key is blocked, for another BlockLeft. BlockedBy names
	// the limit that started the block; empty if an operator did.
	Blocked   bool
	BlockedBy string
	BlockLeft time.Duration
	// Open is the number of open reservations of the key, and Holds are those that end first, at
	// most MaxListedHolds.
	Open  int64
	Holds []OpenHold
	// OpenSlices is the number of slices of the key, and Slices are those that end first, at most MaxListedHolds.
	OpenSlices int64
	Slices     []OpenHold
	// Revision is the registry revision of the plan.
	Revision int64
}
