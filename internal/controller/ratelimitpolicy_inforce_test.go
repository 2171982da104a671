// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestGenerationInForce(t *testing.T) {
	t.Parallel()
	limits := func(threshold int64) []plan.Limit {
		return []plan.Limit{
			{Name: "burst", Algorithm: plan.SlidingLog, Threshold: threshold, WindowMillis: 90_000},
			{Name: "spend", Algorithm: plan.FixedWindow, Threshold: 20, Calendar: &plan.Calendar{Period: "Month", TimeZone: "Europe/Berlin"}},
			{Name: "calls", Algorithm: plan.Concurrency, Threshold: 3},
		}
	}
	earlier := &plan.Plan{UID: "u", Generation: 2, Mode: plan.ModeEnforce, Limits: limits(5)}
	shadowed := &plan.Plan{UID: "u", Generation: 2, Mode: plan.ModeShadow, Limits: limits(5)}
	current := &plan.Plan{UID: "u", Generation: 3, Mode: plan.ModeEnforce, Limits: limits(9)}
	foreign := &plan.Plan{UID: "other", Generation: 7, Limits: limits(1)}
	invalid := field.ErrorList{field.Invalid(field.NewPath("spec"), 1, "no")}
	forbidden := field.ErrorList{field.Forbidden(field.NewPath("spec"), "not granted")}
	until := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	const spec, of2 = "l 9/1m", "burst 5/1m30s, spend 20/Month Europe/Berlin, calls 3 at once"
	for name, tc := range map[string]struct {
		problems field.ErrorList
		rollout  plan.Rollout
		shadow   compile.Shadow
		was      *int64
		inForce  *int64
		summary  string
	}{
		"every replica has it":                  {rollout: plan.Rollout{Reachable: true, Record: current, AllReplicasCurrent: true}, was: new(int64(2)), inForce: new(int64(3)), summary: spec},
		"a replica is behind":                   {rollout: plan.Rollout{Reachable: true, Record: current, HasReplicas: true}, was: new(int64(2)), inForce: new(int64(2)), summary: "of before"},
		"the first one is published":            {rollout: plan.Rollout{Reachable: true}, summary: spec},
		"it does not compile":                   {problems: invalid, rollout: plan.Rollout{Reachable: true, Record: earlier, AllReplicasCurrent: true}, was: new(int64(1)), inForce: new(int64(2)), summary: of2},
		"it does not compile, after an upgrade": {problems: invalid, rollout: plan.Rollout{Reachable: true, Record: earlier, AllReplicasCurrent: true}, inForce: new(int64(2)), summary: of2},
		"the earlier one is in Shadow":          {problems: invalid, rollout: plan.Rollout{Reachable: true, Record: shadowed, AllReplicasCurrent: true}, shadow: compile.Shadow{Until: until}, was: new(int64(2)), inForce: new(int64(2)), summary: of2 + " (Shadow until 2027-01-02T03:04:05Z)"},
		"the first one does not compile":        {problems: invalid, rollout: plan.Rollout{Reachable: true}, summary: spec},
		"the plan was withdrawn":                {problems: forbidden, rollout: plan.Rollout{Reachable: true}, was: new(int64(2)), inForce: new(int64(0)), summary: spec},
		"Redis does not answer":                 {rollout: plan.Rollout{Record: earlier, AllReplicasCurrent: true}, was: new(int64(2)), inForce: new(int64(2)), summary: of2},
		"the plan of another policy":            {problems: invalid, rollout: plan.Rollout{Reachable: true, Record: foreign, AllReplicasCurrent: true}, summary: spec},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			f := facts{uid: "u", generation: 3, judgement: judgement{problems: tc.problems}, rollout: tc.rollout, shadow: tc.shadow}
			policy := &v1alpha1.RateLimitPolicy{}
			policy.Spec.Limits = []v1alpha1.Limit{{Name: "l", Threshold: 9, Window: "1m"}}
			policy.Status = v1alpha1.RateLimitPolicyStatus{Summary: "of before", EnforcedGeneration: tc.was}
			status := f.policyStatus(policy)
			g.Expect(status.EnforcedGeneration).To(Equal(tc.inForce))
			g.Expect(status.Summary).To(Equal(tc.summary))
		})
	}
}

// A new release that reports more must not rewrite the statuses of all policies at once.
func TestWhatOnlyRidesAlongIsNotWritten(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	was := &v1alpha1.RateLimitPolicyStatus{Conditions: []metav1.Condition{condition("Ready", metav1.ConditionTrue, "Ready", "")}, Summary: "l 1/1m"}
	is := was.DeepCopy()
	is.EnforcedGeneration = new(int64(1))
	is.Conditions = append(is.Conditions, condition(v1alpha1.ConditionWarnings, metav1.ConditionTrue, v1alpha1.ReasonProbableMistake, "w"))
	g.Expect(needsWrite(was, is)).To(BeFalse())
	g.Expect(was.Conditions).To(HaveLen(1))
	g.Expect(is.Conditions).To(HaveLen(2), "the status that is written has all")
	is.Conditions[0].Status = metav1.ConditionFalse
	g.Expect(needsWrite(was, is)).To(BeTrue())
	is = was.DeepCopy()
	is.Summary = "l 2/1m"
	g.Expect(needsWrite(was, is)).To(BeTrue())
}
