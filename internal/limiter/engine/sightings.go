// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/weir-dev/weir/internal/limiter/plan"

// markSightings records the policies that apply to the check, whatever they decided, and the targets that
// selected it. Peeks do not count.
func (ev *evaluation) markSightings() {
	for i := range ev.found {
		p := &ev.found[i]
		switch {
		case p.hits.Peek || p.plan.Mode == plan.ModeDisabled:
		case p.match >= 0 && len(p.plan.Matches[p.match].Targets) > 0:
			p.sightings.MarkTargets(ev.check.Attributes.Targets)
		default:
			p.sightings.Mark()
		}
	}
}
