// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// descriptorStates says of each of n descriptors what its policies said.
func (ev *evaluation) descriptorStates(d *limiter.Decision, n int) []limiter.DescriptorState {
	states := make([]limiter.DescriptorState, n)
	for i := range states {
		states[i].Allowed = true
		for _, r := range ev.outrightDenials {
			if r.enforces() && r.descriptors.has(i) {
				states[i].Allowed = false
			}
		}
	}
	limits := d.Limits
	for i, a := range ev.participants {
		denies := ev.denies(i, d)
		of := limits[:min(len(a.limits), len(limits))] // none if Redis did not answer
		limits = limits[len(of):]
		for j := range states {
			if a.descriptors.has(j) {
				addOutcome(&states[j], of, denies)
			}
		}
	}
	return states
}

// take adds what one policy said.
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

// refuses reports whether the i-th policy asked is one that refused the check.
func (ev *evaluation) denies(i int, d *limiter.Decision) bool {
	a, entry := ev.participants[i], &ev.call.Entries[i]
	switch {
	case !a.enforces():
		return false
	case entry.Cost > a.smallestQuota:
		return true
	case ev.reply != nil:
		return ev.reply.Entries[i].Verdict != script.Admitted
	default:
		return d.Degraded == plan.FailClosed && a.plan.FailureMode == plan.FailClosed
	}
}
