// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
)

// CandidateLimits returns all limits of the plan, with the numbers of the override unless it is nil,
// and with the numbers of the candidates. replaced are the indexes of the limits that have a candidate. A
// limit that the override changes has none: the candidate replaces the numbers of the policy.
func (p *Plan) CandidateLimits(o *Override) (limits []Limit, replaced []int) {
	o = cmp.Or(o, &Override{})
	limits = p.LimitsOf(o)
	for i := range p.Candidates {
		candidate := &p.Candidates[i]
		if slices.ContainsFunc(o.Limits, func(l LimitOverride) bool { return l.Name == candidate.Name }) {
			continue
		}
		at := slices.IndexFunc(limits, func(l Limit) bool { return l.Name == candidate.Name })
		limits[at] = candidate.apply(limits[at])
		replaced = append(replaced, at)
	}
	return limits, replaced
}
