// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// MaxUnready is the largest number of policies in Unready.
const MaxUnready = 100

// Unready are the policies that are not Ready.
type Unready struct {
	// Count is their number, Policies the first MaxUnready of them by ID.
	Count    int             `json:"count"`
	Policies []UnreadyPolicy `json:"policies,omitempty"`
}

// UnreadyPolicy is a policy that is not Ready.
type UnreadyPolicy struct {
	// ID is "<namespace>/<name>".
	ID string `json:"name"`
	// Reason is the reason of the first condition that is not True.
	Reason string `json:"reason"`
}
