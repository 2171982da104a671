// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"errors"
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// ErrExplaining is returned while another check is being explained.
var ErrExplaining = errors.New("another check is being explained")

// Named as an ExplainedPolicy.Match means that the check names the policy.
const Named = -1

// Explanation is why a check is decided as it is. Nothing was spent.
type Explanation struct {
	// Decision is the decision of the check as a peek.
	Decision Decision
	// Policies are those that apply, in the order of the chain: once for each key.
	Policies []ExplainedPolicy
	// NearMisses are policies that do not apply for one reason, the most likely to be meant
	// first.
	NearMisses []NearMiss
}

// ExplainedPolicy is what one policy contributes to a decision.
type ExplainedPolicy struct {
	Policy string
	Mode   plan.Mode
	// Match is the index of the first match that holds, or Named.
	Match int
	// Descriptor is the index of the descriptor that the match holds for, or
	// plan.AllDescriptors.
	Descriptor int
	// Key are the parts of the key, KeyHash the hash that stands for it in logs. A part of the
	// key that the check gives has no Type and no Name.
	Key     []ExplainedKeyPart
	KeyHash string
	// Override and Action are the name and the action of the override that selects the key;
	// empty if none does.
	Override string
	// Group is the group by which this override selects the key; empty if it selects by others.
	Group  string
	Action plan.Action
	// Exception is the exception in force for the key; nil without one.
	Exception *Exception
	// Allowed is whether the policy, if its mode were Enforce, would admit the check, and Reason
	// why. MissingKey with Allowed means that the policy is skipped, by onMissingKey.
	Allowed bool
	Reason  Reason
	// Limit is the limit that denies; empty if the reason has none.
	Limit string
	// Limits are empty if the reason needs none, or if Redis did not answer.
	Limits []LimitState
	// Blocked is true while the key is blocked, for another BlockLeft. BlockedBy names the
	// limit that started the block; empty if an operator did.
	Blocked   bool
	BlockedBy string
	BlockLeft time.Duration
}

// ExplainedKeyPart is one part of a key.
type ExplainedKeyPart struct {
	Type plan.KeyPartType `json:"type,omitempty"`
	// Name is the name of the header or descriptor entry, or the expression.
	Name  string `json:"name,omitempty"`
	Value string `json:"value"`
}

// NearReason is why a policy does not apply.
type NearReason string

// The reasons of near misses.
const (
	// NearDisabled means that a match holds and the mode is Disabled.
	NearDisabled NearReason = "Disabled"
	// NearMismatch means that a match holds except for one field.
	NearMismatch NearReason = "Mismatch"
	// NearNotLoaded means that this replica cannot read the plan of the policy, or that the
	// policy is not published.
	NearNotLoaded NearReason = "NotLoaded"
	// NearByName means that the policy has no matches: it applies to checks that name it.
	NearByName NearReason = "ByNameOnly"
)

// NearMiss is a policy that does not apply for one reason.
type NearMiss struct {
	Policy string
	Reason NearReason
	// Match is the index of the match, with NearMismatch and NearDisabled.
	Match int
	// Field is the field of the match that does not hold, with NearMismatch. Wants are the
	// values that it wants, and Got the values of the request. A descriptor is written as its
	// entries, such as "key=value, other=value". The value of an expression is "false".
	Field plan.Field
	Wants []string
	Got   []string
	// Unverified is true if the expression of the match was not evaluated, for lack of time: it
	// may not hold either.
	Unverified bool
	// Detail is why the plan is not loaded, with NearNotLoaded.
	Detail string
}

// NearRanks is the number of ranks.
const NearRanks = 10

// Rank returns the place in a list of near misses, 0 for the policies most likely to be meant. Many
// policies differ only in the host or the domain that they are for.
func (m *NearMiss) Rank() int {
	switch {
	case m.Unverified:
		return NearRanks - 1
	case m.Reason == NearDisabled:
		return 0
	case m.Reason == NearNotLoaded:
		return 5
	case m.Reason == NearByName:
		return 8
	}
	return rankOf(m.Field)
}

func rankOf(field plan.Field) int {
	switch field {
	case plan.FieldWhen:
		return 1
	case plan.FieldMethods:
		return 2
	case plan.FieldPaths:
		return 3
	case plan.FieldDescriptors, plan.FieldHeaders, plan.FieldQueryParameters:
		return 4
	case plan.FieldHosts:
		return 6
	default:
		return 7
	}
}
