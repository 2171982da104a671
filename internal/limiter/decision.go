// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Reason is why a check was allowed or denied.
type Reason string

// The reasons of decisions.
const (
	// ReasonAllowed means that no enforcing policy denies the check.
	ReasonAllowed Reason = "Allowed"
	// ReasonNoPolicy means that no policy applies.
	ReasonNoPolicy Reason = "NoPolicy"
	// ReasonDisabled means that only policies with mode Disabled were named.
	ReasonDisabled Reason = "Disabled"
	// ReasonExempt means that an override with action Allow exempts the key from the
	// policies that would apply.
	ReasonExempt Reason = "Exempt"
	// ReasonDeniedByOverride means that an override with action Deny selects the key.
	// Retrying does not help.
	ReasonDeniedByOverride Reason = "DeniedByOverride"
	// ReasonMissingKey means that a key part is missing and the policy has onMissingKey:
	// Deny. Retrying does not help.
	ReasonMissingKey Reason = "MissingKey"
	// ReasonLimitExceeded means that a limit has no room for the cost.
	ReasonLimitExceeded Reason = "LimitExceeded"
	// ReasonSuppressed means that a Suppressed limit shed the check at random, because it
	// observes more checks than its threshold.
	ReasonSuppressed Reason = "Suppressed"
	// ReasonBlocked means that the key is blocked: by an earlier denial of the named
	// limit or, without a limit, by an operator.
	ReasonBlocked Reason = "Blocked"
	// ReasonCostExceedsThreshold means that the cost exceeds the quota of a limit, so
	// that it can never be admitted. Nothing was spent, counted or blocked.
	ReasonCostExceedsThreshold Reason = "CostExceedsThreshold"
	// ReasonTooManyReservations means that the key has as many open reservations as the policy
	// allows.
	ReasonTooManyReservations Reason = "TooManyReservations"
	// ReasonReservationOpen means that a reservation with the ID that Envoy sent is open. Nothing
	// was spent or held.
	ReasonReservationOpen Reason = "ReservationOpen"
	// ReasonStoreUnavailable means that Redis did not answer in time and the failure
	// modes of the policies decided.
	ReasonStoreUnavailable Reason = "StoreUnavailable"
	// ReasonExpressionsOverBudget means that the failure modes of policies decided whose expressions
	// do not fit into the time that one check may take.
	ReasonExpressionsOverBudget Reason = "ExpressionsOverBudget"
	// ReasonTooManyPolicies means that more policies match than are evaluated. Only an explained policy
	// has it: its failureMode decides, so the decision has ReasonStoreUnavailable.
	ReasonTooManyPolicies Reason = "TooManyPolicies"
)

// Decision is the answer to a Check.
type Decision struct {
	Allowed bool
	Reason  Reason
	// Policy and Limit name the policy and the limit that denied; empty when allowed.
	// Limit is also empty if the reason has no limit, as in ReasonMissingKey.
	Policy string
	Limit  string
	// Override names the override behind ReasonDeniedByOverride.
	Override string
	// Denial is the code and the message that the policy sends with a denial.
	Denial plan.Denial
	// Limits holds every limit that took part, in the order of the chain.
	Limits []LimitState
	// Descriptors holds the outcome of each descriptor of a check with Hits.
	Descriptors []DescriptorState
	// RetryAfter is the time until the same check is admitted, if no other check uses
	// the same keys. 0 when allowed or when waiting does not help.
	RetryAfter time.Duration
	// WaitsFor is set if only reservations or slices leave no room: a commit can make room at any time, and
	// RetryAfter is a second.
	WaitsFor WaitsFor
	// FromSlice is true if this replica decided by itself, from slices. The numbers of Limits are then from the last
	// exchange with Redis, with what this replica has spent since.
	FromSlice bool
	// Reservation is what an allowed Reserve holds; nil for other checks.
	Reservation *Reservation
	// Unsent are the charges of the check that Redis did not answer. To count, they must be
	// committed later; each counts once in ten minutes.
	Unsent []Commit
	// Degraded is the failure mode that decided because Redis did not answer; else
	// empty.
	Degraded plan.FailureMode
	// Revision is the registry revision of the plans that decided.
	Revision int64
}

// DecisionMemory is memory for a decision with the limits and descriptors of most checks.
type DecisionMemory struct {
	decision    Decision
	limits      [2]LimitState
	descriptors [1]DescriptorState
}

// NewDecision returns an empty decision and empty lists for it, with room for some elements, in the memory of the check
// or, if it has none, in new memory.
func (c *Check) NewDecision() (d *Decision, limits []LimitState, descriptors []DescriptorState) {
	m := c.Memory
	if m == nil {
		m = new(DecisionMemory)
	} else {
		*m = DecisionMemory{}
	}
	return &m.decision, m.limits[:0], m.descriptors[:0]
}

// WaitsFor is what a denied caller waits for, other than the time.
type WaitsFor string

// The values of WaitsFor.
const (
	// WaitsForReservations means that commits and ends of reservations make room.
	WaitsForReservations WaitsFor = "Reservations"
	// WaitsForSlices means that replicas hold the rest of the quota in slices, and may return it.
	WaitsForSlices WaitsFor = "Slices"
)

// LimitState is the state of one limit after a decision.
type LimitState struct {
	Policy string
	Limit  string
	// Override names the override that set the numbers of the limit; empty for the
	// policy's own numbers.
	Override string
	// Group is the group by which this override selects the key; empty if it selects by others.
	Group string
	// Exception names the exception whose numbers replace the override's; empty without one.
	Exception string
	Algorithm plan.Algorithm
	// Allowed is true if this limit admits the cost. It is false for every limit of a
	// blocked key.
	Allowed bool
	// Blocked is true if the key was blocked before the check.
	Blocked bool
	// Shadow is true for a policy in mode Shadow, which never denies.
	Shadow bool
	// Overflow is true if the key is unknown and shares a budget with all unknown keys of the
	// policy, because of a flood of new keys.
	Overflow bool
	// Near is true if the used units are at least the share of the quota that the limit warns at.
	Near bool
	// Used is the number of units that are spent or held now, Remaining the number left of
	// Quota. Used can exceed Quota after a commit or a charge.
	Used      int64
	Remaining int64
	// Held is the number of units of Used that open reservations or slices hold.
	Held int64
	// SuppressionFactor is the share of checks, 0..1, that a Suppressed limit sheds.
	SuppressionFactor float64
	// Quota is the number of units that the limit admits: the threshold, one less with
	// ThresholdReached, or the burst of a TokenBucket or GCRA.
	Quota int64
	// Threshold is the threshold in force, from the limit, the override, or the
	// requested limit.
	Threshold int64
	// Window is the length of the window; 0 with a Calendar.
	Window time.Duration
	// Calendar divides time in place of a window; nil for a limit with a window.
	Calendar *plan.Calendar
	// RetryAfter is the time until this limit would admit the same check, including a
	// block. It is 0 if the limit has room now, and negative if the limit can never admit
	// the check. In an allowed check only limits in mode Shadow have one.
	RetryAfter time.Duration
	// RemainingAfterWaiting is the number of units that will be left after RetryAfter.
	RemainingAfterWaiting int64
	// ResetAfter is the time until Used is 0 if no further check comes.
	ResetAfter time.Duration
}

// DescriptorState is the outcome of one descriptor of a check.
type DescriptorState struct {
	// Allowed is true if no policy that matches the descriptor denied.
	Allowed bool
	// Tightest is the tightest limit of the descriptor (see TighterThan), without those in
	// mode Shadow; nil if none took part.
	Tightest *LimitState
	// RetryAfter is the time until every limit of the descriptor admits the check; 0 when
	// allowed or when waiting does not help.
	RetryAfter time.Duration
}

// TighterThan reports whether the limit should be shown instead of the other where there
// is room for only one: a denying limit first, then fewer units remaining, then the longer
// ResetAfter.
func (l *LimitState) TighterThan(other *LimitState) bool {
	switch {
	case l.Allowed != other.Allowed:
		return other.Allowed
	case l.Remaining != other.Remaining:
		return l.Remaining < other.Remaining
	default:
		return l.ResetAfter > other.ResetAfter
	}
}
