// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/weir-dev/weir/internal/limiter/plan"

// markSightings records the policies that apply to the check, whatever they decided. Peeks do not count.
func (ev *evaluation) markSightings() {
	for i := range ev.found {
		if p := &ev.found[i]; !p.hits.Peek && p.plan.Mode != plan.ModeDisabled {
			p.sightings.Mark()
		}
	}
}
