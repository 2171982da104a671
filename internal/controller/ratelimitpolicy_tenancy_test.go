// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

var _ = Describe("A RateLimitPolicy with --tenancy=Namespace", func() {
	var (
		s      *subject
		resign context.CancelFunc
	)

	BeforeEach(func(ctx SpecContext) {
		s = setUp(ctx, compile.TenancyNamespace)
		resign = leadEmpty(ctx, s.terms, s.plans)
	})

	grant := func(ctx SpecContext, hosts string) {
		GinkgoHelper()
		annotate(ctx, s.policy.Namespace, compile.HostsAnnotation, hosts)
	}

	It("is enforced only while its Namespace is granted the host", func(ctx SpecContext) {
		s.apply(ctx)
		s.becomes(ctx, notPermitted)
		Expect(message(ctx, s.policy, v1alpha1.ConditionAccepted)).To(And(
			ContainSubstring("spec.matches[0].hosts[0]"), ContainSubstring(compile.HostsAnnotation)))
		Expect(s.plans.plan(s.id)).To(BeNil())

		By("granting the host")
		grant(ctx, "*.example")
		s.becomes(ctx, enforced)
		Expect(s.threshold()).To(Equal(int64(5)))

		By("revoking the grant")
		grant(ctx, "")
		s.becomes(ctx, notPermitted)
		Eventually(ctx, s.plans.plan).WithArguments(s.id).Should(BeNil())
		Expect(read(ctx, s.policy).Generation).To(Equal(int64(1)))
	})

	It("needs no grant without a match", func(ctx SpecContext) {
		s.policy.Spec.Matches = nil
		s.apply(ctx)
		s.becomes(ctx, enforced)
	})

	It("has its plan removed when an edit matches beyond the grant", func(ctx SpecContext) {
		grant(ctx, "shop.example")
		s.apply(ctx)
		s.becomes(ctx, enforced)
		edit(ctx, s.policy, func(spec *v1alpha1.RateLimitPolicySpec) { spec.Matches[0].Hosts = []string{"other.example"} })
		s.becomes(ctx, notPermitted)
		Eventually(ctx, s.plans.plan).WithArguments(s.id).Should(BeNil())
	})

	It("loses a revoked host even if there is no room for its last edit", func(ctx SpecContext) {
		grant(ctx, "shop.example, longer.new.example")
		s.apply(ctx)
		s.becomes(ctx, enforced)
		s.plans.change(func(r *registry) { r.shortage = &plan.OverBudget{Unit: plan.UnitPolicies, Needed: 1} })
		edit(ctx, s.policy, func(spec *v1alpha1.RateLimitPolicySpec) { spec.Matches[0].Hosts = []string{"longer.new.example"} })
		s.becomes(ctx, overBudget)
		Expect(s.plans.plan(s.id)).NotTo(BeNil(), "the last plan stays")
		grant(ctx, "longer.new.example")
		Eventually(ctx, s.plans.plan).WithArguments(s.id).Should(BeNil())
		s.becomes(ctx, overBudget)
	})

	It("loses a revoked host even if its last edit does not compile", func(ctx SpecContext) {
		grant(ctx, "shop.example, new.example")
		s.apply(ctx)
		s.becomes(ctx, enforced)
		edit(ctx, s.policy, func(spec *v1alpha1.RateLimitPolicySpec) {
			spec.Matches[0] = v1alpha1.Match{Hosts: []string{"new.example"}, Paths: []string{"/a//b"}}
		})
		s.becomes(ctx, invalid)
		Expect(s.plans.plan(s.id)).NotTo(BeNil(), "the last good plan stays")
		grant(ctx, "new.example")
		Eventually(ctx, s.plans.plan).WithArguments(s.id).Should(BeNil())
		s.becomes(ctx, invalid)
	})

	It("loses a revoked host even if the next leader learns of the plan after it has read the policy", func(ctx SpecContext) {
		grant(ctx, "shop.example, new.example")
		s.apply(ctx)
		s.becomes(ctx, enforced)
		resign()
		s.plans.beginTerm()
		s.plans.change(func(r *registry) { r.unobserved = true })
		edit(ctx, s.policy, func(spec *v1alpha1.RateLimitPolicySpec) {
			spec.Matches[0] = v1alpha1.Match{Hosts: []string{"new.example"}, Paths: []string{"/a//b"}}
		})
		grant(ctx, "new.example")
		lead(s.terms)
		s.becomes(ctx, invalid)
		Expect(s.plans.plan(s.id)).NotTo(BeNil())
		s.plans.change(func(r *registry) { r.unobserved = false })
		Eventually(ctx, s.plans.plan).WithArguments(s.id).Should(BeNil())
	})

	It("keeps its plan while the Namespace cannot be read", func(ctx SpecContext) {
		grant(ctx, "shop.example")
		s.apply(ctx)
		s.becomes(ctx, enforced)
		s.noGrants.Store(true)
		edit(ctx, s.policy, func(spec *v1alpha1.RateLimitPolicySpec) { spec.Limits[0].Threshold = 7 })
		Consistently(s.threshold).WithContext(ctx).Should(Equal(int64(5)))
		s.noGrants.Store(false)
		s.becomes(ctx, enforced)
		Expect(s.threshold()).To(Equal(int64(7)))
	})

	It("has its plan removed when Redis is back after the grant was revoked", func(ctx SpecContext) {
		grant(ctx, "shop.example")
		s.apply(ctx)
		s.becomes(ctx, enforced)
		s.plans.change(func(r *registry) { r.unreachable = true })
		grant(ctx, "")
		s.becomes(ctx, notPermitted)
		Expect(message(ctx, s.policy, v1alpha1.ConditionProgrammed)).To(ContainSubstring("being withdrawn"))
		s.plans.change(func(r *registry) { r.unreachable = false })
		Eventually(ctx, s.plans.plan).WithArguments(s.id).Should(BeNil())
		Eventually(message).WithArguments(ctx, s.policy, v1alpha1.ConditionProgrammed).Should(ContainSubstring("no plan"))
	})
})
