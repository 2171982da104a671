// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestSelectorsDependOnWhatSelects(t *testing.T) {
	build := func(edit func(*plan.Plan)) string {
		p := &plan.Plan{
			Namespace: "a", Name: "x", UID: "1", Generation: 1, Mode: plan.ModeEnforce,
			Matches: []plan.Match{{Hosts: []string{"a.example"}}, {Domain: "edge", When: "true"}},
			Limits:  []plan.Limit{{Name: "l", Threshold: 1}},
		}
		edit(p)
		return p.Selectors()
	}
	original := build(func(*plan.Plan) {})
	for name, tc := range map[string]struct {
		edit  func(*plan.Plan)
		equal bool
	}{
		"generation": {func(p *plan.Plan) { p.Generation = 2 }, true},
		"mode":       {func(p *plan.Plan) { p.Mode = plan.ModeShadow }, true},
		"limit":      {func(p *plan.Plan) { p.Limits[0].Threshold = 2 }, true},
		"key":        {func(p *plan.Plan) { p.Key = []plan.KeyPart{{Type: plan.KeyRemoteAddress}} }, true},
		"uid":        {func(p *plan.Plan) { p.UID = "2" }, false},
		"host":       {func(p *plan.Plan) { p.Matches[0].Hosts[0] = "b.example" }, false},
		"order":      {func(p *plan.Plan) { p.Matches[0], p.Matches[1] = p.Matches[1], p.Matches[0] }, false},
		"condition":  {func(p *plan.Plan) { p.Matches[1].When = "false" }, false},
		"no match":   {func(p *plan.Plan) { p.Matches = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			want := Equal(original)
			if !tc.equal {
				want = Not(want)
			}
			g.Expect(build(tc.edit)).To(want)
			g.Expect(build(tc.edit)).To(MatchRegexp("^[0-9a-f]{24}$"))
		})
	}
}
