// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testplan"
)

func TestCandidateLimits(t *testing.T) {
	g := NewWithT(t)
	p := withOverrides()
	changed, kept := p.Overrides[0].Limits[0].Name, p.Limits[0].Name
	p.Candidates = []plan.LimitOverride{{Name: kept, Threshold: 2}, {Name: changed, Threshold: 77}}
	g.Expect(p.Validate()).To(Succeed())

	limits, replaced := p.CandidateLimits(nil)
	g.Expect(limits).To(HaveLen(len(p.Limits)))
	for i, l := range p.Limits {
		switch l.Name {
		case kept:
			l.Threshold = 2
			g.Expect(replaced).To(ContainElement(i))
		case changed:
			l.Threshold = 77
			g.Expect(replaced).To(ContainElement(i))
		}
		g.Expect(limits[i]).To(Equal(l))
	}
	g.Expect(replaced).To(HaveLen(2))

	limits, replaced = p.CandidateLimits(&p.Overrides[0])
	want := p.LimitsOf(&p.Overrides[0])
	want[0].Threshold = 2
	g.Expect(limits).To(Equal(want), "the override keeps the limits that it changes")
	g.Expect(replaced).To(Equal([]int{0}))
}

func TestInvalidCandidates(t *testing.T) {
	for name, candidate := range map[string]plan.LimitOverride{
		`candidates[0].name "unknown" must be a limit of the plan`: {Name: "unknown", Threshold: 2},
		"candidates[0].threshold -1 is out of bounds":              {Name: testplan.Valid().Limits[0].Name, Threshold: -1},
		"candidates[0]: a window of -5 ms is out of bounds":        {Name: testplan.Valid().Limits[0].Name, WindowMillis: -5},
	} {
		p := testplan.Valid()
		p.Candidates = []plan.LimitOverride{candidate}
		NewWithT(t).Expect(p.Validate()).To(MatchError(ContainSubstring(name)))
	}
}
