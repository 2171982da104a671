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
	for i := range ev.participants {
		pt, denies := &ev.participants[i], ev.denies(i, d)
		var own []limiter.LimitState
		if ev.isKnown(i) {
			own, limits = limits[:len(pt.limits)], limits[len(pt.limits):]
		}
		for j := range states {
			if pt.descriptors.has(j) {
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

// denies reports whether the i-th participant denied the check.
func (ev *evaluation) denies(i int, d *limiter.Decision) bool {
	pt, entry := &ev.participants[i], &ev.call.Entries[i]
	switch {
	case ev.isOpen:
		return ev.reply.Entries[i].Hold == quota.HoldFound
	case !pt.enforces():
		return false
	case entry.Cost > pt.smallestQuota:
		return true
	case ev.reply != nil:
		return ev.reply.Entries[i].Verdict != quota.Admitted
	default:
		return d.Degraded == plan.FailClosed && pt.plan.FailureMode == plan.FailClosed
	}
}
