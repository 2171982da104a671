// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

var _ = Describe("The annotation shadow-until", func() {
	var (
		i      *installation
		policy *v1alpha1.RateLimitPolicy
		resign func()
	)
	annotate := func(ctx SpecContext, value string) {
		GinkgoHelper()
		before := read(ctx, policy)
		after := before.DeepCopy()
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, v1alpha1.ShadowUntilAnnotation, value)
		if value == "" {
			delete(after.Annotations, v1alpha1.ShadowUntilAnnotation)
		}
		Expect(api.Patch(ctx, after, client.MergeFrom(before))).To(Succeed())
	}
	mode := func() plan.Mode { return i.plans.plan(i.namespace + "/login").Mode }
	summary := func(ctx SpecContext) string { return read(ctx, policy).Status.Summary }

	BeforeEach(func(ctx SpecContext) {
		i = install(ctx, never, 0)
		resign = leadEmpty(ctx, i.terms, i.plans)
		policy = i.apply(ctx, "login")
		Expect(mode()).To(Equal(plan.ModeEnforce))
	})

	It("puts a policy in Shadow until it is removed", func(ctx SpecContext) {
		until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		annotate(ctx, until)
		Eventually(mode).WithContext(ctx).Should(Equal(plan.ModeShadow))
		Eventually(summary).WithContext(ctx).Should(Equal("l 1/1s (Shadow until " + until + ")"))
		Expect(outcomeOf(policy)(Default, ctx)).To(Equal(enforced))
		Expect(message(ctx, policy, v1alpha1.ConditionReady)).To(ContainSubstring("in Shadow until " + until + ": it denies no request"))

		By("a longer time, which changes only the status")
		later := time.Now().Add(2 * time.Hour).UTC().Format(time.RFC3339)
		annotate(ctx, later)
		Eventually(summary).WithContext(ctx).Should(ContainSubstring(later))

		By("removing it")
		annotate(ctx, "")
		Eventually(mode).WithContext(ctx).Should(Equal(plan.ModeEnforce))
		Eventually(summary).WithContext(ctx).Should(Equal("l 1/1s"))
		Expect(outcomeOf(policy)(Default, ctx)).To(Equal(enforced))
		Expect(message(ctx, policy, v1alpha1.ConditionReady)).NotTo(ContainSubstring("Shadow"))
	})

	It("ends by itself", func(ctx SpecContext) {
		annotate(ctx, time.Now().Add(5*time.Second).Format(time.RFC3339))
		Eventually(mode).WithContext(ctx).Should(Equal(plan.ModeShadow))
		Eventually(mode).WithContext(ctx).WithTimeout(30 * time.Second).Should(Equal(plan.ModeEnforce))
		Eventually(summary).WithContext(ctx).Should(Equal("l 1/1s"))
	})

	It("is ended by the next leader", func(ctx SpecContext) {
		until := time.Now().Add(5 * time.Second)
		annotate(ctx, until.Format(time.RFC3339))
		Eventually(mode).WithContext(ctx).Should(Equal(plan.ModeShadow))
		resign()
		Consistently(mode).WithContext(ctx).WithTimeout(time.Until(until) + time.Second).Should(Equal(plan.ModeShadow))
		lead(i.terms)
		Eventually(mode).WithContext(ctx).Should(Equal(plan.ModeEnforce))
	})

	It("keeps the last plan if it is not valid", func(ctx SpecContext) {
		for _, value := range []string{"tomorrow", time.Now().Add(48 * time.Hour).Format(time.RFC3339)} {
			annotate(ctx, value)
			Eventually(outcomeOf(policy)).WithContext(ctx).Should(Equal(invalid))
			Expect(message(ctx, policy, v1alpha1.ConditionAccepted)).To(HavePrefix("metadata.annotations[ratelimit.weir.dev/shadow-until]: Invalid value"))
			Expect(mode()).To(Equal(plan.ModeEnforce))
			annotate(ctx, "")
			Eventually(outcomeOf(policy)).WithContext(ctx).Should(Equal(enforced))
		}
	})
})
