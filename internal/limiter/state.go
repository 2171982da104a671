// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// KeyState is what a policy knows of one key.
type KeyState struct {
	Policy string
	// Override names the override that selects the key, and Action what it does;
	// both are empty if none does.
	Override string
	Action   plan.Action
	// Limits are as a check of cost 1 finds them that is not shed by chance. With
	// ActionAllow and ActionDeny they are the policy's own, which take no part.
	Limits []LimitState
	// Blocked says that a block is live, for so long; BlockedBy names the limit
	// that started it and is empty if it was set by hand.
	Blocked   bool
	BlockedBy string
	BlockLeft time.Duration
	// Revision is the revision of the registry the plan is of.
	Revision int64
}
