// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Reason says why a decision is what it is.
type Reason string

// The reasons.
const (
	// ReasonAllowed means that every limit fits.
	ReasonAllowed Reason = "Allowed"
	// ReasonNoPolicy means that no policy applies.
	ReasonNoPolicy Reason = "NoPolicy"
	// ReasonDisabled means that only policies with mode Disabled apply.
	ReasonDisabled Reason = "Disabled"
	// ReasonExempt means that the policies that would apply let the caller
	// pass, by an override with action Allow.
	ReasonExempt Reason = "Exempt"
	// ReasonDeniedByOverride means that an override with action Deny selects the
	// caller. Asking again does not help.
	ReasonDeniedByOverride Reason = "DeniedByOverride"
	// ReasonMissingKey means that a key part is missing and the policy says
	// onMissingKey: Deny. Asking again does not help.
	ReasonMissingKey Reason = "MissingKey"
	// ReasonLimitExceeded means that a limit does not fit.
	ReasonLimitExceeded Reason = "LimitExceeded"
	// ReasonSuppressed means that chance chose the check to be shed, by a limit
	// that has room for some checks but not for all that come.
	ReasonSuppressed Reason = "Suppressed"
	// ReasonBlocked means that a block is live, from an earlier refusal by the
	// limit that is named or, if none is, set by hand.
	ReasonBlocked Reason = "Blocked"
	// ReasonCostExceedsThreshold means that the cost can never fit; nothing was
	// spent, counted or blocked.
	ReasonCostExceedsThreshold Reason = "CostExceedsThreshold"
	// ReasonStoreUnavailable means that Redis could not answer in time and the
	// failure mode of the policies decided.
	ReasonStoreUnavailable Reason = "StoreUnavailable"
)

// Decision is the answer to a Check.
type Decision struct {
	Allowed bool
	Reason  Reason
	// Policy and Limit name who refused; empty when allowed. Limit is also
	// empty when the refusal is not a limit's.
	Policy string
	Limit  string
	// Override names the override behind ReasonDeniedByOverride.
	Override string
	// Denial is what the refusing policy wants the caller to be told.
	Denial plan.Denial
	// Limits are the limits that took part, in the order of the chain.
	Limits []LimitState
	// Descriptors say what became of each descriptor of a check with Charges.
	Descriptors []DescriptorState
	// RetryAfter is how long until the same check is admitted, if the caller is
	// alone on its keys. 0 when allowed or when waiting does not help.
	RetryAfter time.Duration
	// Degraded is the failure mode that decided in place of Redis; empty when
	// Redis answered or was not needed.
	Degraded plan.FailureMode
	// Revision is the revision of the registry the decision was made with.
	Revision int64
}

// LimitState is one limit after a decision.
type LimitState struct {
	Policy string
	Limit  string
	// Override names the override whose numbers the limit has; empty for the
	// policy's own.
	Override  string
	Algorithm plan.Algorithm
	// Allowed says whether this limit had no objection. It is false for every
	// limit of a blocked policy.
	Allowed bool
	// Blocked says that the policy was blocked before the check.
	Blocked bool
	// Shadow says that the policy is in mode Shadow: it never refuses.
	Shadow bool
	// Used is the units held now, Remaining what is left of the quota, which is
	// the burst where the limit has one.
	Used      int64
	Remaining int64
	// SuppressionFactor is the share of checks that a Suppressed limit sheds,
	// 0..1.
	SuppressionFactor float64
	// Quota is the units that may pass: the threshold or one less, or the burst of
	// a TokenBucket or GCRA.
	Quota int64
	// Threshold is the threshold in force, as in the policy.
	Threshold int64
	// Window is the length of the window.
	Window time.Duration
	// RetryAfter is how long until this limit would admit the same check, its
	// policy's block included; 0 when the check was allowed or this limit fits
	// at once, script.Never (-1) when it never does.
	RetryAfter time.Duration
	// RemainingAfterWaiting is what will be left of the quota at RetryAfter.
	RemainingAfterWaiting int64
	// ResetAfter is how long until Used is 0 if nothing more comes.
	ResetAfter time.Duration
}

// DescriptorState is one descriptor after a decision.
type DescriptorState struct {
	// Allowed says whether no policy refused that applies by this descriptor.
	Allowed bool
	// Tightest is the limit that says most of the descriptor, nil where none took
	// part. Limits in mode Shadow say nothing.
	Tightest *LimitState
	// RetryAfter is how long until no limit of the descriptor refuses; 0 when it is
	// allowed or when waiting does not help.
	RetryAfter time.Duration
}

// TighterThan reports whether the limit says more than the other to somebody who
// hears of one limit only: one that refuses before one that does not, then less
// that is left, then the longer time.
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
