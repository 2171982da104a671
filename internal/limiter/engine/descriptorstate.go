// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// descriptorStates says of each of n descriptors what its policies said.
func (v *evaluation) descriptorStates(d *limiter.Decision, n int) []limiter.DescriptorState {
	states := make([]limiter.DescriptorState, n)
	for i := range states {
		states[i].Allowed = true
		for _, r := range v.refusals {
			if r.enforces() && r.descriptors.have(i) {
				states[i].Allowed = false
			}
		}
	}
	limits := d.Limits
	for i, a := range v.asked {
		refuses := v.refuses(i, d)
		of := limits[:min(len(a.limits), len(limits))] // none if Redis did not answer
		limits = limits[len(of):]
		for j := range states {
			if a.descriptors.have(j) {
				take(&states[j], of, refuses)
			}
		}
	}
	return states
}

// take adds what one policy said.
func take(s *limiter.DescriptorState, limits []limiter.LimitState, refuses bool) {
	s.Allowed = s.Allowed && !refuses
	for i := range limits {
		l := &limits[i]
		if l.Shadow {
			continue
		}
		if s.Tightest == nil || l.TighterThan(s.Tightest) {
			s.Tightest = l
		}
		if refuses {
			s.RetryAfter = max(s.RetryAfter, l.RetryAfter)
		}
	}
}

// refuses reports whether the i-th policy asked is one that refused the check.
func (v *evaluation) refuses(i int, d *limiter.Decision) bool {
	a, entry := v.asked[i], &v.call.Entries[i]
	switch {
	case !a.enforces():
		return false
	case entry.Cost > a.smallestQuota:
		return true
	case v.reply != nil:
		return v.reply.Entries[i].Verdict != script.Admitted
	default:
		return d.Degraded == plan.FailClosed && a.plan.FailureMode == plan.FailClosed
	}
}
