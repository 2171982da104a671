// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testplan"
)

// slicedPlan returns a valid plan with slices.
func slicedPlan() *plan.Plan {
	p := testplan.Valid()
	p.Counting, p.DenyWhen, p.Overrides, p.Candidates = plan.CountAdmitted, plan.ThresholdExceeded, nil, nil
	p.Slices = plan.Slices{MaxPercent: 10, MaxAgeMillis: 1000}
	p.Limits = []plan.Limit{
		{Name: "minute", Algorithm: plan.FixedWindow, Threshold: 100, WindowMillis: 60_000},
		{Name: "rate", Algorithm: plan.GCRA, Threshold: 10, WindowMillis: 1000, Burst: 200},
	}
	return p
}

func TestSliceProblems(t *testing.T) {
	override := func(o plan.LimitOverride) func(*plan.Plan) {
		return func(p *plan.Plan) {
			p.Key = []plan.KeyPart{{Type: plan.KeyPrincipal}}
			p.Overrides = []plan.Override{{Name: "gold", Keys: []string{"a"}, Action: plan.ActionLimit, Limits: []plan.LimitOverride{o}}}
		}
	}
	for name, tc := range map[string]struct {
		edit           func(*plan.Plan)
		field, problem string
	}{
		"none":                {func(*plan.Plan) {}, "", ""},
		"none at all":         {func(p *plan.Plan) { p.Slices = plan.Slices{} }, "", ""},
		"half":                {func(p *plan.Plan) { p.Slices.MaxPercent = 50 }, "", ""},
		"more than half":      {func(p *plan.Plan) { p.Slices.MaxPercent = 51 }, "slices.maxPercent", "51 is not within 1..50"},
		"no percent":          {func(p *plan.Plan) { p.Slices.MaxPercent = 0 }, "slices.maxPercent", "0 is not within"},
		"a short age":         {func(p *plan.Plan) { p.Slices.MaxAgeMillis = 499 }, "slices.maxAge", "499ms is not within 500ms..10s"},
		"attempts":            {func(p *plan.Plan) { p.Counting, p.Limits = plan.CountAttempts, p.Limits[:1] }, "slices", "needs counting Admitted"},
		"reservations":        {func(p *plan.Plan) { p.Reservations = plan.Reservations{MaxTTLMillis: 1000, MaxOpen: 1} }, "slices", "together with reservations"},
		"candidates":          {func(p *plan.Plan) { p.Candidates = []plan.LimitOverride{{Name: "minute", Threshold: 200}} }, "slices", "together with a candidate"},
		"a block":             {func(p *plan.Plan) { p.Limits[1].BlockMillis = 1 }, "limits[1]", "must start no blocks"},
		"blocks":              {func(p *plan.Plan) { p.Limits[0].BlocksMillis, p.Limits[0].EscalationMillis = []int64{1}, 5 }, "limits[0]", "must start no blocks"},
		"a small threshold":   {func(p *plan.Plan) { p.Limits[0].Threshold = 99 }, "limits[0].threshold", "at least 100 units"},
		"the last is denied":  {func(p *plan.Plan) { p.DenyWhen, p.Limits = plan.ThresholdReached, p.Limits[:1] }, "limits[0].threshold", "at least 100 units"},
		"a small burst":       {func(p *plan.Plan) { p.Limits[1].Burst = 99 }, "limits[1].burst", "at least 100 units"},
		"a window of 20 ages": {func(p *plan.Plan) { p.Slices.MaxAgeMillis, p.Limits = 3000, p.Limits[:1] }, "", ""},
		"a short window":      {func(p *plan.Plan) { p.Slices.MaxAgeMillis, p.Limits = 3001, p.Limits[:1] }, "slices.maxAge", "must be at most 3s, a twentieth of the time in which the quota of limits[0] is renewed"},
		"a fast refill":       {func(p *plan.Plan) { p.Limits[1].Burst = 199 }, "slices.maxAge", "at most 995ms"},
		"Suppressed": {func(p *plan.Plan) {
			p.Limits[0] = plan.Limit{Name: "minute", Algorithm: plan.Suppressed, Threshold: 100, WindowMillis: 60_000, BucketMicros: 1_000_000, HardLimitPercent: 150}
		}, "limits[0].algorithm", "must not be Suppressed"},
		"a larger override":      {override(plan.LimitOverride{Name: "minute", Threshold: 500}), "", ""},
		"a small override":       {override(plan.LimitOverride{Name: "minute", Threshold: 5}), "overrides[0].limits[0].threshold", "at least 100 units"},
		"an override's window":   {override(plan.LimitOverride{Name: "minute", WindowMillis: 120_000}), "overrides[0].limits[0].window", "a state of its own"},
		"an override's rate":     {override(plan.LimitOverride{Name: "rate", Threshold: 9}), "overrides[0].limits[0].threshold", "another rate has a state of its own"},
		"an override's burst":    {override(plan.LimitOverride{Name: "rate", Burst: 400}), "", ""},
		"a block of an override": {override(plan.LimitOverride{Name: "minute", BlockMillis: 5}), "overrides[0].limits[0]", "must start no blocks"},
	} {
		g := NewWithT(t)
		p := slicedPlan()
		tc.edit(p)
		if tc.problem == "" {
			g.Expect(p.SliceProblems()).To(BeEmpty(), name)
			g.Expect(p.Validate()).To(Succeed(), name)
			continue
		}
		g.Expect(p.SliceProblems()).To(ContainElement(And(
			HaveField("Field", tc.field), HaveField("Problem", ContainSubstring(tc.problem)))), name)
		g.Expect(p.Validate()).To(MatchError(ContainSubstring(tc.field+": ")), name)
	}
	NewWithT(t).Expect(slicedPlan().Slices.MaxAge()).To(Equal(time.Second))
}
