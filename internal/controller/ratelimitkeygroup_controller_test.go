// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/kube"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

var _ = Describe("A key group", func() {
	var s *subject
	var group *v1alpha1.RateLimitKeyGroup
	BeforeEach(func(ctx SpecContext) {
		s = setUp(ctx, compile.TenancyCluster)
		group = &v1alpha1.RateLimitKeyGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.policy.Namespace, Name: "gold-07"},
			Spec:       v1alpha1.RateLimitKeyGroupSpec{Group: "gold", Keys: []string{"globex", "acme", "globex"}},
		}
	})
	readGroup := func(ctx context.Context) *v1alpha1.RateLimitKeyGroup {
		GinkgoHelper()
		got := &v1alpha1.RateLimitKeyGroup{}
		Expect(api.Get(ctx, client.ObjectKeyFromObject(group), got)).To(Succeed())
		return got
	}
	becomes := func(ctx SpecContext, want outcome) {
		GinkgoHelper()
		Eventually(func(g Gomega, ctx SpecContext) outcome {
			got := readGroup(ctx)
			return outcomeFrom(g, got, got.Status.ObservedGeneration, got.Status.Conditions)
		}).WithContext(ctx).Should(Equal(want))
	}
	setKeys := func(ctx SpecContext, keys ...string) {
		GinkgoHelper()
		before := readGroup(ctx)
		after := before.DeepCopy()
		after.Spec.Keys = keys
		Expect(api.Patch(ctx, after, client.MergeFrom(before))).To(Succeed())
	}
	published := func() []string {
		if r, ok := s.plans.recordOf("keygroup:" + group.Namespace + "/" + group.Name).(*plan.KeyGroup); ok {
			return slices.Collect(r.Keys.All())
		}
		return nil
	}
	messageOf := func(ctx SpecContext, conditionType string) string {
		GinkgoHelper()
		c := meta.FindStatusCondition(readGroup(ctx).Status.Conditions, conditionType)
		Expect(c).NotTo(BeNil())
		return c.Message
	}

	It("is published, edited and removed", func(ctx SpecContext) {
		leadEmpty(ctx, s.terms, s.plans) // a group of before the term has no event
		Expect(api.Create(ctx, group.DeepCopy())).To(Succeed())
		becomes(ctx, enforced)
		Expect(published()).To(Equal([]string{"acme", "globex"}))
		Expect(readGroup(ctx).Status.KeyCount).To(HaveValue(BeEquivalentTo(2)))
		Expect(messageOf(ctx, v1alpha1.ConditionReady)).To(Equal("The key group is accepted, programmed and enforced."))
		Expect(messageOf(ctx, v1alpha1.ConditionProgrammed)).To(Equal("The list of keys of this generation is in the registry."))
		Eventually(eventsRegarding(group.Namespace, "RateLimitKeyGroup", group.Name)).WithContext(ctx).Should(ConsistOf("Ready"))

		setKeys(ctx, "acme", "globex", "initech")
		Eventually(published).Should(Equal([]string{"acme", "globex", "initech"}))
		becomes(ctx, enforced)
		Expect(readGroup(ctx).Status.KeyCount).To(HaveValue(BeEquivalentTo(3)))

		Expect(api.Delete(ctx, group)).To(Succeed())
		Eventually(published).Should(BeNil())
	})

	It("without room keeps its last keys", func(ctx SpecContext) {
		lead(s.terms)
		Expect(api.Create(ctx, group.DeepCopy())).To(Succeed())
		becomes(ctx, enforced)
		s.plans.change(func(r *registry) {
			r.shortage = &plan.OverBudget{Scope: group.Namespace, Unit: plan.UnitKeyBytes, Needed: 20, Used: 90, Limit: 100}
		})
		setKeys(ctx, "acme", "globex", "initech", "umbrella")
		becomes(ctx, overBudget)
		Expect(messageOf(ctx, v1alpha1.ConditionAccepted)).To(Equal("The key groups of the Namespace use 90 of 100 bytes of memory for keys, and this one needs 20 more."))
		Expect(messageOf(ctx, v1alpha1.ConditionProgrammed)).To(Equal("The key group is not accepted. The list of keys of generation 1 stays enforced."))
		Expect(published()).To(Equal([]string{"acme", "globex"}))

		s.plans.change(func(r *registry) { r.shortage = nil })
		becomes(ctx, enforced)
		Expect(published()).To(HaveLen(4))
	})

	It("reports an unreachable registry and a replica that is behind", func(ctx SpecContext) {
		lead(s.terms)
		s.plans.change(func(r *registry) { r.replicas["two"] = replica{stuck: true} })
		Expect(api.Create(ctx, group.DeepCopy())).To(Succeed())
		becomes(ctx, replicasBehind)
		s.plans.change(func(r *registry) { r.unreachable = true })
		becomes(ctx, unreachable)
	})

	It("does not hold up policies before its CRD is installed", func(ctx SpecContext) {
		server := kube.StartAPIServer(GinkgoTB())
		other := server.Client()
		definition := &apiextensionsv1.CustomResourceDefinition{}
		Expect(other.Get(ctx, client.ObjectKey{Name: "ratelimitkeygroups.ratelimit.weir.dev"}, definition)).To(Succeed())
		Expect(other.Delete(ctx, definition)).To(Succeed())
		Eventually(func() error { return other.List(ctx, &v1alpha1.RateLimitKeyGroupList{}) }).WithContext(ctx).ShouldNot(Succeed())
		plans, terms := newRegistry(), controller.NewTermTracker()
		startController(options{server: server, namespace: "default", publisher: plans, terms: terms, outageDelay: outageDelay})
		login := testpolicy.Make("default/login").Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1m").Obj()
		Expect(other.Create(ctx, login)).To(Succeed())
		lead(terms)
		Eventually(ctx, plans.plan).WithArguments("default/login").ShouldNot(BeNil())
		Eventually(ctx, plans.passes).Should(HaveLen(1), "a lost registry would be replaced")

		definition.ResourceVersion, definition.Status = "", apiextensionsv1.CustomResourceDefinitionStatus{}
		Eventually(func() error { return other.Create(ctx, definition) }).WithContext(ctx).Should(Succeed())
		late := group.DeepCopy()
		late.Namespace = "default"
		Eventually(func() error { return other.Create(ctx, late) }).WithContext(ctx).Should(Succeed())
		Eventually(ctx, plans.recordOf).WithArguments("keygroup:default/gold-07").ShouldNot(BeNil())
	}, NodeTimeout(5*time.Minute))

	It("is published before MarkSynced, and removed by the sweep of a term if it is gone", func(ctx SpecContext) {
		orphan := plan.IDOf(plan.KindKeyGroup, group.Namespace, "orphan")
		s.plans.change(func(r *registry) {
			r.records[orphan] = entry{record: &plan.KeyGroup{Namespace: group.Namespace, Name: "orphan"}}
			r.unreachable = true
		})
		s.apply(ctx)
		Expect(api.Create(ctx, group.DeepCopy())).To(Succeed())
		awaitCached(ctx, s.cached, s.policy, group)
		lead(s.terms)
		Eventually(ctx, s.plans.passes).Should(Equal([]int{2}), "the policy and the key group")
		s.plans.change(func(r *registry) { r.unreachable = false })
		becomes(ctx, enforced)
		Eventually(ctx, s.plans.recordOf).WithArguments(orphan).Should(BeNil())
		Expect(published()).NotTo(BeNil())
	})
})
