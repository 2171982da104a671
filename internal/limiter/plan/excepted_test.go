// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestLimitsUnderAnException(t *testing.T) {
	g := NewWithT(t)
	limits := []plan.Limit{
		{Name: "burst", Algorithm: plan.FixedWindow, Threshold: 3, WindowMillis: 60_000},
		{Name: "rate", Algorithm: plan.TokenBucket, Threshold: 60, WindowMillis: 60_000, Burst: 10, StateSuffix: "gold"},
		{Name: "other", Algorithm: plan.GCRA, Threshold: 60, WindowMillis: 60_000, Burst: 1},
	}
	e := &plan.Exception{Limits: []plan.ExceptionLimit{{Name: "burst", Threshold: 5}, {Name: "rate", Burst: 20}, {Name: "other", Threshold: 9, Burst: 2}}}
	got := e.Apply(limits)
	g.Expect(got).To(Equal([]plan.Limit{
		{Name: "burst", Algorithm: plan.FixedWindow, Threshold: 5, WindowMillis: 60_000},
		{Name: "rate", Algorithm: plan.TokenBucket, Threshold: 60, WindowMillis: 60_000, Burst: 20, StateSuffix: "gold"},
		{Name: "other", Algorithm: plan.GCRA, Threshold: 9, WindowMillis: 60_000, Burst: 2, StateSuffix: "+exception"},
	}))
	g.Expect(limits[0].Threshold).To(Equal(int64(3)), "the limits of the policy do not change")
}

func TestCheckException(t *testing.T) {
	policy := &plan.Plan{
		Namespace: "shop", Name: "api", DenyWhen: plan.ThresholdReached,
		Limits: []plan.Limit{
			{Name: "burst", Algorithm: plan.SlidingLog, Threshold: 5, WindowMillis: 60_000},
			{Name: "rate", Algorithm: plan.FixedWindow, Threshold: 5, WindowMillis: 60_000},
		},
	}
	bucket := &plan.Plan{
		Namespace: "shop", Name: "api",
		Limits:    []plan.Limit{{Name: "burst", Algorithm: plan.TokenBucket, Threshold: 5000, Burst: 5000, WindowMillis: 1000}},
		Overrides: []plan.Override{{Name: "slow", Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "burst", WindowMillis: plan.MaxWindow.Milliseconds()}}}},
	}
	for name, tc := range map[string]struct {
		policy *plan.Plan
		limit  plan.ExceptionLimit
		want   string
	}{
		"a threshold":             {policy, plan.ExceptionLimit{Name: "burst", Threshold: 100}, ""},
		"a burst":                 {bucket, plan.ExceptionLimit{Name: "burst", Burst: 100}, ""},
		"an unknown limit":        {policy, plan.ExceptionLimit{Name: "hourly", Threshold: 5}, `limits[0].name "hourly" is no limit of the policy`},
		"more than a log counts":  {policy, plan.ExceptionLimit{Name: "burst", Threshold: plan.MaxLogThreshold + 1}, "limits[0].threshold 100001 is out of bounds"},
		"a threshold that denies": {policy, plan.ExceptionLimit{Name: "rate", Threshold: 1}, "limits[0].threshold 1 is out of bounds"},
		"a burst of a window":     {policy, plan.ExceptionLimit{Name: "rate", Burst: 9}, "limits[0].burst 9 is out of bounds"},
		"a refill of centuries with an override": {
			bucket,
			plan.ExceptionLimit{Name: "burst", Burst: plan.MaxThreshold},
			"limits[0] with override slow.burst 2147483647 takes more than a hundred years to refill",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.policy.CheckException(&plan.Exception{Limits: []plan.ExceptionLimit{tc.limit}})
			if tc.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			} else {
				NewWithT(t).Expect(err).To(MatchError(tc.want))
			}
		})
	}
}

func TestLargestNumbers(t *testing.T) {
	g := NewWithT(t)
	p := &plan.Plan{
		Limits: []plan.Limit{{Name: "rate", Algorithm: plan.TokenBucket, Threshold: 60, Burst: 10, WindowMillis: 1000}},
		Overrides: []plan.Override{
			{Name: "gold", Limits: []plan.LimitOverride{{Name: "rate", Threshold: 600}}},
			{Name: "slow", Limits: []plan.LimitOverride{{Name: "rate", Threshold: 6, Burst: 30}}},
			{Name: "office", Action: plan.ActionAllow},
		},
	}
	g.Expect([]int64{p.LargestThreshold("rate"), p.LargestBurst("rate"), p.LargestThreshold("none")}).To(Equal([]int64{600, 30, 0}))
}
