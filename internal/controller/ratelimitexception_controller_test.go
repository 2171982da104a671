// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The outcomes of exceptions alone.
var (
	expired = outcome{
		"True Ready", "True Expired", "True Expired", "True Expired", status.CurrentStatus,
	}
	policyNotFound = outcome{
		"False NotReady", "False PolicyNotFound", "False NotAccepted", "False NotProgrammed", status.InProgressStatus,
	}
	notWithinBounds = outcome{
		"False NotReady", "False NotPermitted", "False NotAccepted", "False NotProgrammed", status.FailedStatus,
	}
)

var _ = Describe("An exception", func() {
	var s *subject
	BeforeEach(func(ctx SpecContext) { s = setUp(ctx, compile.TenancyCluster) })
	exception := func(name string, threshold int64, length time.Duration) *v1alpha1.RateLimitException {
		return &v1alpha1.RateLimitException{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.policy.Namespace, Name: name},
			Spec: v1alpha1.RateLimitExceptionSpec{
				Policy: s.policy.Name, Key: []string{"acme"}, Until: metav1.NewTime(time.Now().Add(length)),
				Limits: []v1alpha1.ExceptionLimit{{Name: "burst", Threshold: &threshold}},
			},
		}
	}
	get := func(ctx context.Context, e *v1alpha1.RateLimitException) *v1alpha1.RateLimitException {
		GinkgoHelper()
		got := &v1alpha1.RateLimitException{}
		Expect(api.Get(ctx, client.ObjectKeyFromObject(e), got)).To(Succeed())
		return got
	}
	becomes := func(ctx SpecContext, e *v1alpha1.RateLimitException, want outcome) {
		GinkgoHelper()
		Eventually(func(g Gomega, ctx SpecContext) outcome {
			got := get(ctx, e)
			return outcomeFrom(g, got, got.Status.ObservedGeneration, got.Status.Conditions)
		}).WithContext(ctx).Should(Equal(want))
	}
	conditionOf := func(ctx context.Context, e *v1alpha1.RateLimitException, conditionType string) metav1.Condition {
		GinkgoHelper()
		if c := meta.FindStatusCondition(get(ctx, e).Status.Conditions, conditionType); c != nil {
			return *c
		}
		return metav1.Condition{}
	}
	published := func(e *v1alpha1.RateLimitException) int64 {
		if r, ok := s.plans.recordOf(plan.IDOf(plan.KindException, e.Namespace, e.Name)).(*plan.Exception); ok {
			return r.Limits[0].Threshold
		}
		return 0
	}

	It("is published until it ends, and stays Ready", func(ctx SpecContext) {
		s.apply(ctx)
		lead(s.terms)
		e := exception("launch", 20, 3*time.Second)
		Expect(api.Create(ctx, e.DeepCopy())).To(Succeed())
		becomes(ctx, e, enforced)
		Expect(published(e)).To(BeEquivalentTo(20))
		Expect(conditionOf(ctx, e, v1alpha1.ConditionActive)).To(HaveField("Status", metav1.ConditionTrue))

		becomes(ctx, e, expired)
		Expect(time.Now()).To(BeTemporally(">=", get(ctx, e).Spec.Until.Time))
		Expect(published(e)).To(BeZero())
		active := conditionOf(ctx, e, v1alpha1.ConditionActive)
		Expect([]string{string(active.Status), active.Reason}).To(Equal([]string{"False", "Expired"}))
		Expect(conditionOf(ctx, e, v1alpha1.ConditionReady).Message).To(Equal("The exception has ended."))

		later := get(ctx, e)
		later.Spec.Until = metav1.NewTime(time.Now().Add(time.Hour))
		Expect(api.Update(ctx, later)).To(Succeed())
		becomes(ctx, e, enforced)
		Expect(published(e)).To(BeEquivalentTo(20))
		Expect(api.Delete(ctx, e)).To(Succeed())
		Eventually(published).WithArguments(e).Should(BeZero())
	})

	It("waits for its policy", func(ctx SpecContext) {
		lead(s.terms)
		e := exception("launch", 20, time.Hour)
		Expect(api.Create(ctx, e.DeepCopy())).To(Succeed())
		becomes(ctx, e, policyNotFound)
		Expect(conditionOf(ctx, e, v1alpha1.ConditionStalled)).To(BeZero(), "its author need not change it")
		s.apply(ctx)
		becomes(ctx, e, enforced)
		Expect(api.Delete(ctx, s.policy)).To(Succeed())
		becomes(ctx, e, policyNotFound)
		Expect(published(e)).To(BeZero())
	})

	It("ends when its policy no longer accepts it, and not when the policy is broken", func(ctx SpecContext) {
		s.apply(ctx)
		lead(s.terms)
		e := exception("launch", 50, time.Hour)
		Expect(api.Create(ctx, e.DeepCopy())).To(Succeed())
		becomes(ctx, e, enforced)
		edit(ctx, s.policy, func(spec *v1alpha1.RateLimitPolicySpec) { spec.Matches[0].When = "nonsense" })
		Eventually(func(g Gomega) {
			accepted := conditionOf(ctx, e, v1alpha1.ConditionAccepted)
			g.Expect([]string{string(accepted.Status), accepted.Reason}).To(Equal([]string{"False", v1alpha1.ReasonPolicyNotAccepted}))
		}).Should(Succeed())
		Expect(published(e)).To(BeEquivalentTo(50), "what runs stays")

		edit(ctx, s.policy, func(spec *v1alpha1.RateLimitPolicySpec) {
			spec.Matches[0].When = ""
			spec.Exceptions.MaxFactor = new(int32(9))
		})
		becomes(ctx, e, notWithinBounds)
		Expect(published(e)).To(BeZero())
		Expect(conditionOf(ctx, e, v1alpha1.ConditionAccepted).Message).To(Equal(
			"spec.limits[0].threshold: Forbidden: 50 is more than 45: policy login accepts 9 times the largest threshold of limit burst, which is 5"))
		edit(ctx, s.policy, func(spec *v1alpha1.RateLimitPolicySpec) { spec.Exceptions = v1alpha1.ExceptionBounds{} })
		becomes(ctx, e, enforced)
	})

	It("that finds no room keeps waiting, and its warnings follow other exceptions of its key", func(ctx SpecContext) {
		s.apply(ctx)
		lead(s.terms)
		e, other := exception("launch", 20, time.Hour), exception("other", 30, 2*time.Hour)
		Expect(api.Create(ctx, e.DeepCopy())).To(Succeed())
		becomes(ctx, e, enforced)
		warned := func() string { return conditionOf(ctx, e, v1alpha1.ConditionWarnings).Message }
		Expect(warned()).To(Equal("spec.key: only checks that name this key have it: " + s.id + " has no key: omit it"))
		s.plans.change(func(r *registry) {
			r.shortage = &plan.OverBudget{Scope: s.policy.Namespace, Unit: plan.UnitExceptions, Needed: 1, Used: 1000, Limit: 1000}
		})
		Expect(api.Create(ctx, other.DeepCopy())).To(Succeed())
		becomes(ctx, other, overBudget)
		s.plans.change(func(r *registry) { r.shortage = nil })
		becomes(ctx, other, enforced)
		Eventually(func() string { return conditionOf(ctx, other, v1alpha1.ConditionWarnings).Message }).
			Should(HavePrefix("spec.key: exception launch is for the same key: until "))
	})

	It("is published before MarkSynced, and removed by the sweep of a term if it is gone", func(ctx SpecContext) {
		orphan := plan.IDOf(plan.KindException, s.policy.Namespace, "orphan")
		s.plans.change(func(r *registry) {
			r.records[orphan] = entry{record: &plan.Exception{Namespace: s.policy.Namespace, Name: "orphan", Policy: "login"}}
			r.unreachable = true
		})
		s.apply(ctx)
		launch := exception("launch", 20, time.Hour)
		Expect(api.Create(ctx, launch)).To(Succeed())
		awaitCached(ctx, s.cached, s.policy, launch)
		lead(s.terms)
		Eventually(ctx, s.plans.passes).Should(Equal([]int{2}), "the policy and the exception")
		s.plans.change(func(r *registry) { r.unreachable = false })
		Eventually(ctx, s.plans.recordOf).WithArguments(orphan).Should(BeNil())
	})
})
