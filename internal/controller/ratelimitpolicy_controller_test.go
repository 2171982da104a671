// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

var _ = Describe("A RateLimitPolicy", func() {
	var s *subject

	setThreshold := func(units int64) func(*v1alpha1.RateLimitPolicySpec) {
		return func(spec *v1alpha1.RateLimitPolicySpec) { spec.Limits[0].Threshold = units }
	}
	setPath := func(path string) func(*v1alpha1.RateLimitPolicySpec) {
		return func(spec *v1alpha1.RateLimitPolicySpec) { spec.Matches[0].Paths = []string{path} }
	}

	Context("with the schema of a later release", func() {
		narrow := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"ofLaterRelease": "POST"}}`))

		BeforeEach(func(ctx SpecContext) {
			definition := &apiextensionsv1.CustomResourceDefinition{}
			Expect(api.Get(ctx, client.ObjectKey{Name: "ratelimitpolicies.ratelimit.weir.dev"}, definition)).To(Succeed())
			later := definition.DeepCopy()
			later.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["ofLaterRelease"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			Expect(api.Patch(ctx, later, client.MergeFrom(definition))).To(Succeed())
			probe := testpolicy.Make(makeNamespace(ctx)+"/probe").Limit("burst", v1alpha1.AlgorithmSlidingLog, 5, "1m").Obj()
			Expect(api.Create(ctx, probe)).To(Succeed())
			Eventually(func() error {
				return api.Patch(ctx, probe.DeepCopy(), narrow, client.FieldValidation(metav1.FieldValidationStrict))
			}).WithContext(ctx).Should(Succeed())
			// The controller starts after that: a watch on the former schema ends some time later.
			s = setUp(ctx, compile.TenancyCluster)
			leadEmpty(ctx, s.terms, s.plans)
		})

		It("keeps its last good plan when an edit has a field of that release", func(ctx SpecContext) {
			s.apply(ctx)
			s.becomes(ctx, enforced)
			Expect(api.Patch(ctx, s.policy.DeepCopy(), narrow)).To(Succeed())
			s.becomes(ctx, notSupported)
			Expect(message(ctx, s.policy, v1alpha1.ConditionAccepted)).To(Equal("spec.ofLaterRelease: Unsupported value: unknown field of a later release"))
			Expect(message(ctx, s.policy, v1alpha1.ConditionEnforced)).To(ContainSubstring("The replicas enforce the plan of generation 1."))
			Expect(s.plans.plan(s.id).Generation).To(Equal(int64(1)))
		})
	})

	Context("with --tenancy=Cluster", func() {
		var resign func()
		BeforeEach(func(ctx SpecContext) {
			s = setUp(ctx, compile.TenancyCluster)
			resign = leadEmpty(ctx, s.terms, s.plans)
		})

		It("is enforced once applied, and reports it in one status write", func(ctx SpecContext) {
			s.apply(ctx)
			s.becomes(ctx, enforced)
			Expect(s.threshold()).To(Equal(int64(5)))
			got := read(ctx, s.policy)
			Expect(got.Status.Summary).To(Equal("burst 5/1m, daily 20/24h"))
			Expect(got.Status.EnforcedGeneration).To(HaveValue(Equal(int64(1))))
			Expect(got.Finalizers).To(BeEmpty())
			Consistently(s.writes.Load).Should(Equal(int64(1)), "one status write")
			Eventually(eventsOn(s.policy)).WithContext(ctx).Should(Equal([]string{"Ready"}))
		})

		It("is enforced as edited", func(ctx SpecContext) {
			s.apply(ctx)
			s.becomes(ctx, enforced)
			edit(ctx, s.policy, setThreshold(7))
			s.becomes(ctx, enforced)
			Expect(s.threshold()).To(Equal(int64(7)))
			got := read(ctx, s.policy)
			Expect(got.Status.Summary).To(Equal("burst 7/1m, daily 20/24h"))
			Expect(got.Status.EnforcedGeneration).To(HaveValue(Equal(int64(2))))
			Consistently(s.writes.Load).Should(Equal(int64(2)), "one status write for each generation")
		})

		It("has the warnings about it alone in a condition, in the same status write", func(ctx SpecContext) {
			s.apply(ctx)
			s.becomes(ctx, enforced)
			warnings := func() *metav1.Condition {
				return meta.FindStatusCondition(read(ctx, s.policy).Status.Conditions, v1alpha1.ConditionWarnings)
			}
			Expect(warnings()).To(BeNil())
			edit(ctx, s.policy, func(spec *v1alpha1.RateLimitPolicySpec) { spec.Matches[0] = v1alpha1.Match{Paths: []string{"/*"}} })
			s.becomes(ctx, enforced)
			Expect(warnings()).To(HaveValue(And(
				HaveField("Status", metav1.ConditionTrue), HaveField("Reason", v1alpha1.ReasonProbableMistake),
				HaveField("Message", HavePrefix("spec.matches[0]")), HaveField("ObservedGeneration", int64(2)))))
			Expect(s.writes.Load()).To(Equal(int64(2)))
			edit(ctx, s.policy, setPath("/a"))
			s.becomes(ctx, enforced)
			Expect(warnings()).To(BeNil())
			Consistently(s.writes.Load).Should(Equal(int64(3)))
		})

		It("keeps its last good plan when an edit does not compile", func(ctx SpecContext) {
			s.apply(ctx)
			s.becomes(ctx, enforced)
			edit(ctx, s.policy, setPath("/a//b"))
			s.becomes(ctx, invalid)
			Expect(message(ctx, s.policy, v1alpha1.ConditionAccepted)).To(HavePrefix(`spec.matches[0].paths[0]: Invalid value: "/a//b"`))
			Expect(message(ctx, s.policy, v1alpha1.ConditionProgrammed)).To(ContainSubstring("generation 1 stays enforced"))
			Expect(s.plans.plan(s.id).Generation).To(Equal(int64(1)))

			By("reporting the generation in force, and its limits")
			edit(ctx, s.policy, setThreshold(7))
			s.becomes(ctx, invalid)
			Eventually(func() int64 { return read(ctx, s.policy).Status.ObservedGeneration }).WithContext(ctx).Should(Equal(int64(3)))
			broken := read(ctx, s.policy)
			Expect(broken.Status.EnforcedGeneration).To(HaveValue(Equal(int64(1))))
			Expect(broken.Status.Summary).To(Equal("burst 5/1m, daily 20/24h"), "not the summary of the rejected spec")
			Expect(message(ctx, s.policy, v1alpha1.ConditionEnforced)).
				To(Equal("This generation has no plan. The replicas enforce the plan of generation 1."))
			Consistently(s.writes.Load).Should(Equal(int64(3)), "one status write for each generation")

			By("repairing it")
			edit(ctx, s.policy, setPath("/a/b"))
			s.becomes(ctx, enforced)
			Expect(s.plans.plan(s.id).Generation).To(Equal(int64(4)))
			Expect(read(ctx, s.policy).Status.Summary).To(Equal("burst 7/1m, daily 20/24h"))
			Expect(read(ctx, s.policy).Status.EnforcedGeneration).To(HaveValue(Equal(int64(4))))
		})

		It("keeps its last plan without room for an edit, and is published once there is room", func(ctx SpecContext) {
			s.apply(ctx)
			s.becomes(ctx, enforced)
			s.plans.change(func(r *registry) {
				r.shortage = &plan.OverBudget{Scope: s.policy.Namespace, Unit: plan.UnitBytes, Needed: 9, Used: 995, Limit: 1000}
			})
			edit(ctx, s.policy, setThreshold(7000))
			s.becomes(ctx, overBudget)
			Expect(s.unready()).To(Equal(plan.Unready{Count: 1, Policies: []plan.UnreadyPolicy{{ID: s.id, Reason: "OverBudget"}}}))
			Expect(message(ctx, s.policy, v1alpha1.ConditionAccepted)).
				To(Equal("The policies of the Namespace use 995 of 1000 bytes of memory for plans, and this one needs 9 more."))
			Expect(message(ctx, s.policy, v1alpha1.ConditionProgrammed)).To(ContainSubstring("generation 1 stays enforced"))
			Expect(s.threshold()).To(Equal(int64(5)))
			Eventually(eventsOn(s.policy)).WithContext(ctx).Should(ConsistOf("Ready", "OverBudget"))

			s.plans.change(func(r *registry) { r.shortage = nil })
			s.becomes(ctx, enforced)
			Expect(s.unready()).To(Equal(plan.Unready{}))
			Expect(s.threshold()).To(Equal(int64(7000)))
		})

		It("needs no room in the next term if it has been programmed", func(ctx SpecContext) {
			s.apply(ctx)
			s.becomes(ctx, enforced)
			s.plans.change(func(r *registry) { r.shortage = &plan.OverBudget{Unit: plan.UnitPolicies, Needed: 1} })
			resign()
			s.plans.beginTerm()
			awaitCached(ctx, s.cached, s.policy)
			lead(s.terms)
			s.stays(ctx, enforced)
			Eventually(func() int { sets, _ := s.plans.counts(); return sets }).Should(Equal(2))
			s.becomes(ctx, enforced)
		})

		It("has its plan removed when deleted", func(ctx SpecContext) {
			s.apply(ctx)
			s.becomes(ctx, enforced)
			Expect(api.Delete(ctx, s.policy)).To(Succeed())
			Eventually(ctx, s.plans.plan).WithArguments(s.id).Should(BeNil())
		})

		It("does not inherit the plan of an earlier policy of its name", func(ctx SpecContext) {
			s.apply(ctx)
			s.becomes(ctx, enforced)
			By("replacing it while there is no leader")
			resign()
			Expect(api.Delete(ctx, s.policy)).To(Succeed())
			s.policy.Spec.Matches[0].Paths = []string{"/a//b"}
			s.apply(ctx)
			Expect(s.plans.plan(s.id)).NotTo(BeNil())
			lead(s.terms)
			s.becomes(ctx, invalid)
			Eventually(ctx, s.plans.plan).WithArguments(s.id).Should(BeNil())
		})

		It("can be deleted while Redis is down, and has its plan removed when Redis is back", func(ctx SpecContext) {
			s.apply(ctx)
			s.becomes(ctx, enforced)
			s.plans.change(func(r *registry) { r.unreachable = true })
			s.becomes(ctx, unreachable)
			Expect(api.Delete(ctx, s.policy)).To(Succeed())
			Expect(apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(s.policy), s.policy.DeepCopy()))).To(BeTrue())
			Expect(s.plans.plan(s.id)).NotTo(BeNil())
			s.plans.change(func(r *registry) { r.unreachable = false })
			Eventually(ctx, s.plans.plan).WithArguments(s.id).Should(BeNil())
		})

		It("is published when Redis is back", func(ctx SpecContext) {
			s.plans.change(func(r *registry) { r.unreachable = true })
			s.apply(ctx)
			s.becomes(ctx, unreachable)
			s.stays(ctx, unreachable)
			s.plans.change(func(r *registry) { r.unreachable = false })
			s.becomes(ctx, enforced)
			Eventually(eventsOn(s.policy)).WithContext(ctx).Should(Equal([]string{"Ready"}))
			Eventually(eventsOnLease(s.policy.Namespace)).WithContext(ctx).Should(
				ConsistOf("RegistryUnreachable", "RegistryRecovered"))
		})

		It("is reported as enforced only while Redis answers", func(ctx SpecContext) {
			s.apply(ctx)
			s.becomes(ctx, enforced)
			_, sweeps := s.plans.counts()
			s.plans.change(func(r *registry) { r.unreachable = true })
			s.becomes(ctx, unreachable)
			s.plans.change(func(r *registry) { r.unreachable = false })
			s.becomes(ctx, enforced)
			Eventually(func() int { _, n := s.plans.counts(); return n }).WithContext(ctx).Should(BeNumerically(">", sweeps))
		})

		It("is not written to a registry that another installation owns", func(ctx SpecContext) {
			s.plans.change(func(r *registry) { r.ownedElsewhere = true })
			s.apply(ctx)
			s.becomes(ctx, ownedElsewhere)
			Expect(s.plans.plan(s.id)).To(BeNil())
			s.plans.change(func(r *registry) { r.ownedElsewhere = false })
			s.becomes(ctx, enforced)
		})

		It("is retried when a write fails", func(ctx SpecContext) {
			s.plans.change(func(r *registry) { r.failNextWrite = true })
			s.apply(ctx)
			s.becomes(ctx, enforced)
		})

		It("is not enforced without a replica", func(ctx SpecContext) {
			s.plans.change(func(r *registry) { clear(r.replicas) })
			s.apply(ctx)
			s.becomes(ctx, noReplicas)
			s.plans.change(func(r *registry) { r.replicas["one"] = replica{} })
			s.becomes(ctx, enforced)
		})

		It("is not enforced until every replica has loaded its plan", func(ctx SpecContext) {
			s.plans.change(func(r *registry) { r.replicas["two"] = replica{stuck: true} })
			s.apply(ctx)
			s.becomes(ctx, replicasBehind)
			Expect(s.threshold()).To(Equal(int64(5)))
			s.plans.change(func(r *registry) { r.replicas["two"] = replica{} })
			s.becomes(ctx, enforced)
			Eventually(eventsOn(s.policy)).WithContext(ctx).Should(Equal([]string{"Ready"}), "ReplicasBehind has no event")
		})

		It("keeps its status when replicas come and go", func(ctx SpecContext) {
			s.apply(ctx)
			s.becomes(ctx, enforced)
			awaitCached(ctx, s.cached, s.policy)
			version, attempts := read(ctx, s.policy).ResourceVersion, s.writes.Load()
			unchanged := func(when string) {
				GinkgoHelper()
				before, _ := s.plans.counts()
				s.terms.Begin(s.terms.Term()) // reconciles every policy again
				Eventually(func() int { sets, _ := s.plans.counts(); return sets }).WithContext(ctx).Should(BeNumerically(">", before))
				Consistently(s.writes.Load).Should(Equal(attempts), when)
				Expect(read(ctx, s.policy).ResourceVersion).To(Equal(version), when)
			}
			unchanged("nothing changed")
			s.plans.change(func(r *registry) { r.replicas["two"] = replica{} })
			unchanged("a second replica joined and runs the plan")
			s.plans.change(func(r *registry) { delete(r.replicas, "two") })
			unchanged("the second replica left")
			Expect(eventsOn(s.policy)(NewWithT(GinkgoT()), ctx)).To(Equal([]string{"Ready"}))
		})

		It("records each transition in one event", func(ctx SpecContext) {
			s.policy.Spec.Matches[0].Paths = []string{"/a//b"}
			s.apply(ctx)
			s.becomes(ctx, invalid)
			Eventually(eventsOn(s.policy)).WithContext(ctx).Should(Equal([]string{"InvalidSpec"}))
			edit(ctx, s.policy, setPath("/a/b"))
			s.becomes(ctx, enforced)
			s.plans.change(func(r *registry) { clear(r.replicas) })
			s.becomes(ctx, noReplicas)
			s.terms.Begin(s.terms.Term())
			s.plans.change(func(r *registry) { r.replicas["one"] = replica{} })
			s.becomes(ctx, enforced)
			once := ConsistOf("InvalidSpec", "Ready")
			Eventually(eventsOn(s.policy)).WithContext(ctx).Should(once)
			Consistently(eventsOn(s.policy)).WithContext(ctx).Should(once)
			Eventually(eventsOnLease(s.policy.Namespace)).WithContext(ctx).Should(ConsistOf("NoReplicas", "RegistryRecovered"))
		})
	})

	Context("without a leader", func() {
		BeforeEach(func(ctx SpecContext) { s = setUp(ctx, compile.TenancyCluster) })

		It("is not reconciled", func(ctx SpecContext) {
			s.apply(ctx)
			Consistently(func(g Gomega) {
				g.Expect(read(ctx, s.policy).Status.ObservedGeneration).To(Equal(int64(-1)))
				g.Expect(s.plans.counts()).To(BeZero())
			}).Should(Succeed())
			Expect(s.unready()).To(Equal(plan.Unready{}), "only a leader knows")
		})

		It("is enforced when a term begins, which removes orphaned plans", func(ctx SpecContext) {
			orphan := s.policy.Namespace + "/orphan"
			s.plans.change(func(r *registry) { r.records[orphan] = entry{record: &plan.Plan{}} })
			s.apply(ctx)
			resign := lead(s.terms)
			s.becomes(ctx, enforced)
			Eventually(ctx, s.plans.plan).WithArguments(orphan).Should(BeNil())

			By("beginning the next")
			resign()
			s.plans.change(func(r *registry) { r.records[orphan] = entry{record: &plan.Plan{}} })
			lead(s.terms)
			Eventually(ctx, s.plans.plan).WithArguments(orphan).Should(BeNil())
		})

		It("keeps its plan until the next term begins, which catches up", func(ctx SpecContext) {
			s.apply(ctx)
			resign := lead(s.terms)
			s.becomes(ctx, enforced)

			By("ending the term")
			resign()
			edit(ctx, s.policy, setThreshold(7))
			Consistently(s.threshold).Should(Equal(int64(5)))

			By("beginning another, after a second policy was deleted")
			gone := testpolicy.Make(s.policy.Namespace+"/gone").Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1s").Obj()
			s.plans.change(func(r *registry) { r.records[s.policy.Namespace+"/gone"] = entry{record: &plan.Plan{}} })
			Expect(api.Create(ctx, gone)).To(Succeed())
			Expect(api.Delete(ctx, gone)).To(Succeed())
			lead(s.terms)
			s.becomes(ctx, enforced)
			Expect(s.threshold()).To(Equal(int64(7)))
			Eventually(ctx, s.plans.plan).WithArguments(s.policy.Namespace + "/gone").Should(BeNil())
		})

		It("is not unready any more once it is deleted between two terms", func(ctx SpecContext) {
			s.policy.Spec.Matches[0].Paths = []string{"/a//b"}
			s.apply(ctx)
			resign := lead(s.terms)
			s.becomes(ctx, invalid)
			Expect(s.unready().Count).To(Equal(1))
			resign()
			Expect(api.Delete(ctx, s.policy)).To(Succeed())
			Eventually(func() bool {
				return apierrors.IsNotFound(s.cached.Get(ctx, client.ObjectKeyFromObject(s.policy), &v1alpha1.RateLimitPolicy{}))
			}).WithContext(ctx).Should(BeTrue())
			lead(s.terms)
			Eventually(ctx, s.plans.passes).Should(HaveLen(2))
			Consistently(s.unready).WithContext(ctx).Should(Equal(plan.Unready{}))
		})

		It("is not waited for by MarkSynced once it is deleted", func(ctx SpecContext) {
			s.plans.change(func(r *registry) { r.writeDelay = 500 * time.Millisecond })
			for i := range 64 { // two seconds for all
				Expect(api.Create(ctx, testpolicy.Make(fmt.Sprintf("%s/p%d", s.policy.Namespace, i)).
					Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1s").Obj())).To(Succeed())
			}
			lead(s.terms)
			Expect(api.DeleteAllOf(ctx, &v1alpha1.RateLimitPolicy{}, client.InNamespace(s.policy.Namespace))).To(Succeed())
			Eventually(ctx, s.plans.passes).Should(HaveLen(1))
			Expect(s.plans.passes()[0]).To(BeNumerically("<", 64))
			Eventually(s.unready).WithContext(ctx).Should(Equal(plan.Unready{}))
		})

		It("is published before MarkSynced, in every term", func(ctx SpecContext) {
			By("beginning a term without policies")
			resign := lead(s.terms)
			Eventually(ctx, s.plans.passes).Should(Equal([]int{0}))
			resign()

			By("beginning a term with five policies, one of which does not compile, while Redis is down")
			s.plans.change(func(r *registry) { r.unreachable = true })
			policies := []client.Object{testpolicy.Make(s.policy.Namespace+"/bad").
				Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1s").Match(v1alpha1.Match{Paths: []string{"/a//b"}}).Obj()}
			for i := range 4 {
				policies = append(policies, testpolicy.Make(fmt.Sprintf("%s/p%d", s.policy.Namespace, i)).
					Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1s").Obj())
			}
			for _, policy := range policies {
				Expect(api.Create(ctx, policy)).To(Succeed())
			}
			awaitCached(ctx, s.cached, policies...)
			lead(s.terms)
			Eventually(ctx, s.plans.passes).Should(Equal([]int{0, 4}))
			Consistently(ctx, s.plans.passes).Should(HaveLen(2))
		})
	})
})
