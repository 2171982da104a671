// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/quota"
)

// appendDescriptorStates appends the outcome of each of n descriptors to an empty list.
func (ev *evaluation) appendDescriptorStates(states []limiter.DescriptorState, d *limiter.Decision, n int) []limiter.DescriptorState {
	states = slices.Grow(states, n)[:n]
	for i := range states {
		states[i].Allowed = true
		for _, r := range ev.outrightDenials {
			if r.enforces() && r.descriptors.has(i) {
				states[i].Allowed = false
			}
		}
		for _, u := range ev.unchecked {
			if u.denies() && u.descriptors.has(i) {
				states[i].Allowed = false
			}
		}
	}
	limits := d.Limits
	for _, op := range ev.decided().all() {
		denies := ev.denies(op, d)
		var own []limiter.LimitState
		if op.reply != nil {
			own, limits = limits[:len(op.limits)], limits[len(op.limits):]
		}
		for j := range states {
			if op.descriptors.has(j) {
				addOutcome(&states[j], own, denies)
			}
		}
	}
	return states
}

// addOutcome adds the outcome of one policy to the state of a descriptor.
func addOutcome(s *limiter.DescriptorState, limits []limiter.LimitState, denies bool) {
	s.Allowed = s.Allowed && !denies
	for i := range limits {
		l := &limits[i]
		if l.Shadow {
			continue
		}
		if s.Tightest == nil || l.TighterThan(s.Tightest) {
			s.Tightest = l
		}
		if denies {
			s.RetryAfter = max(s.RetryAfter, l.RetryAfter)
		}
	}
}

// denies reports whether the policy of the operation denied the check.
func (ev *evaluation) denies(op operation, d *limiter.Decision) bool {
	switch {
	case d.Reason == limiter.ReasonReservationOpen:
		return op.hasCopiedID()
	case !op.enforces():
		return false
	case op.entry.Cost > op.smallestQuota:
		return true
	case op.reply != nil:
		return op.reply.Verdict != quota.Admitted
	default:
		return d.Degraded == plan.FailClosed && op.plan.FailureMode == plan.FailClosed
	}
}
