// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"sync/atomic"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/testenv"
)

// The outcomes that the specs expect.
var (
	enforced = outcome{
		"True Ready", "True Accepted", "True Programmed", "True Enforced", status.CurrentStatus,
	}
	unreachable = outcome{
		"Unknown Pending", "True Accepted", "Unknown RegistryUnreachable", "Unknown RegistryUnreachable", status.InProgressStatus,
	}
	ownedElsewhere = outcome{
		"False NotReady", "True Accepted", "False RegistryOwnedElsewhere", "False NotProgrammed", status.InProgressStatus,
	}
	noReplicas = outcome{
		"False NotReady", "True Accepted", "True Programmed", "False NoReplicas", status.InProgressStatus,
	}
	replicasBehind = outcome{
		"False NotReady", "True Accepted", "True Programmed", "False ReplicasBehind", status.InProgressStatus,
	}
	invalid = outcome{
		"False NotReady", "False InvalidSpec", "False NotAccepted", "False NotProgrammed", status.FailedStatus,
	}
	overBudget = outcome{
		"False NotReady", "False OverBudget", "False NotAccepted", "False NotProgrammed", status.FailedStatus,
	}
	notPermitted = outcome{
		"False NotReady", "False MatchNotPermitted", "False NotAccepted", "False NotProgrammed", status.FailedStatus,
	}
)

var _ = Describe("A RateLimitPolicy", func() {
	var (
		plans   *registry
		terms   *controller.TermTracker
		policy  *v1alpha1.RateLimitPolicy
		id      string
		writes  *atomic.Int64
		cached  client.Reader
		apply   func(SpecContext)
		becomes func(SpecContext, outcome)
		stays   func(SpecContext, outcome)
		unready func() plan.Unready
	)

	// setUp starts the controller, which does not lead yet, and prepares a policy.
	setUp := func(ctx SpecContext, tenancy compile.Tenancy) {
		namespace := makeNamespace(ctx)
		plans, terms = newRegistry(), controller.NewTermTracker()
		policy = testenv.MakePolicy(namespace+"/login").
			Match(v1alpha1.Match{Hosts: []string{"shop.example"}}).
			Limit("burst", v1alpha1.AlgorithmSlidingLog, 5, "1m").
			Limit("daily", v1alpha1.AlgorithmSlidingLog, 20, "24h").Obj()
		id = namespace + "/login"
		writes, cached = startController(options{
			namespace: namespace, tenancy: tenancy, publisher: plans, terms: terms, outageDelay: outageDelay,
			started: func(r *controller.Reconciler) { unready = r.Unready },
		})
	}

	BeforeEach(func() {
		apply = func(ctx SpecContext) {
			GinkgoHelper()
			Expect(api.Create(ctx, policy.DeepCopy())).To(Succeed())
		}
		becomes = func(ctx SpecContext, want outcome) {
			GinkgoHelper()
			Eventually(outcomeOf(policy)).WithContext(ctx).Should(Equal(want))
		}
		stays = func(ctx SpecContext, want outcome) {
			GinkgoHelper()
			Consistently(outcomeOf(policy)).WithContext(ctx).Should(Equal(want))
		}
	})

	threshold := func() int64 {
		if p := plans.plan(id); p != nil {
			return p.Limits[0].Threshold
		}
		return 0
	}
	setThreshold := func(units int64) func(*v1alpha1.RateLimitPolicySpec) {
		return func(spec *v1alpha1.RateLimitPolicySpec) { spec.Limits[0].Threshold = units }
	}
	setPath := func(path string) func(*v1alpha1.RateLimitPolicySpec) {
		return func(spec *v1alpha1.RateLimitPolicySpec) { spec.Matches[0].Paths = []string{path} }
	}

	Context("with --tenancy=Cluster", func() {
		var resign func()
		BeforeEach(func(ctx SpecContext) {
			setUp(ctx, compile.TenancyCluster)
			resign = leadEmpty(ctx, terms, plans)
		})

		It("is enforced once applied, and reports it in one status write", func(ctx SpecContext) {
			apply(ctx)
			becomes(ctx, enforced)
			Expect(threshold()).To(Equal(int64(5)))
			got := read(ctx, policy)
			Expect(got.Status.Summary).To(Equal("burst 5/1m, daily 20/24h"))
			Expect(got.Finalizers).To(BeEmpty())
			Consistently(writes.Load).Should(Equal(int64(1)), "one status write")
			Eventually(eventsOn(policy)).WithContext(ctx).Should(Equal([]string{"Ready"}))
		})

		It("is enforced as edited", func(ctx SpecContext) {
			apply(ctx)
			becomes(ctx, enforced)
			edit(ctx, policy, setThreshold(7))
			becomes(ctx, enforced)
			Expect(threshold()).To(Equal(int64(7)))
			Expect(read(ctx, policy).Status.Summary).To(Equal("burst 7/1m, daily 20/24h"))
		})

		It("keeps its last good plan when an edit does not compile", func(ctx SpecContext) {
			apply(ctx)
			becomes(ctx, enforced)
			edit(ctx, policy, setPath("/a//b"))
			becomes(ctx, invalid)
			Expect(message(ctx, policy, v1alpha1.ConditionAccepted)).To(HavePrefix(`spec.matches[0].paths[0]: Invalid value: "/a//b"`))
			Expect(message(ctx, policy, v1alpha1.ConditionProgrammed)).To(ContainSubstring("generation 1 stays enforced"))
			Expect(plans.plan(id).Generation).To(Equal(int64(1)))

			By("repairing it")
			edit(ctx, policy, setPath("/a/b"))
			becomes(ctx, enforced)
			Expect(plans.plan(id).Generation).To(Equal(int64(3)))
		})

		It("keeps its last plan without room for an edit, and is published once there is room", func(ctx SpecContext) {
			apply(ctx)
			becomes(ctx, enforced)
			plans.change(func(r *registry) {
				r.shortage = &plan.OverBudget{Scope: policy.Namespace, Unit: plan.UnitBytes, Needed: 9, Used: 995, Limit: 1000}
			})
			edit(ctx, policy, setThreshold(7000))
			becomes(ctx, overBudget)
			Expect(unready()).To(Equal(plan.Unready{Count: 1, Policies: []plan.UnreadyPolicy{{ID: id, Reason: "OverBudget"}}}))
			Expect(message(ctx, policy, v1alpha1.ConditionAccepted)).
				To(Equal("The policies of the Namespace use 995 of 1000 bytes of plans, and this one needs 9 more."))
			Expect(message(ctx, policy, v1alpha1.ConditionProgrammed)).To(ContainSubstring("generation 1 stays enforced"))
			Expect(threshold()).To(Equal(int64(5)))
			Eventually(eventsOn(policy)).WithContext(ctx).Should(ConsistOf("Ready", "OverBudget"))

			plans.change(func(r *registry) { r.shortage = nil })
			becomes(ctx, enforced)
			Expect(unready()).To(Equal(plan.Unready{}))
			Expect(threshold()).To(Equal(int64(7000)))
		})

		It("needs no room in the next term if it has been programmed", func(ctx SpecContext) {
			apply(ctx)
			becomes(ctx, enforced)
			plans.change(func(r *registry) { r.shortage = &plan.OverBudget{Unit: plan.UnitPolicies, Needed: 1} })
			resign()
			plans.beginTerm()
			lead(terms)
			stays(ctx, enforced)
			Eventually(func() int { sets, _ := plans.counts(); return sets }).Should(Equal(2))
			becomes(ctx, enforced)
		})

		It("has its plan removed when deleted", func(ctx SpecContext) {
			apply(ctx)
			becomes(ctx, enforced)
			Expect(api.Delete(ctx, policy)).To(Succeed())
			Eventually(ctx, plans.plan).WithArguments(id).Should(BeNil())
		})

		It("does not inherit the plan of an earlier policy of its name", func(ctx SpecContext) {
			apply(ctx)
			becomes(ctx, enforced)
			By("replacing it while there is no leader")
			resign()
			Expect(api.Delete(ctx, policy)).To(Succeed())
			policy.Spec.Matches[0].Paths = []string{"/a//b"}
			apply(ctx)
			Expect(plans.plan(id)).NotTo(BeNil())
			lead(terms)
			becomes(ctx, invalid)
			Eventually(ctx, plans.plan).WithArguments(id).Should(BeNil())
		})

		It("can be deleted while Redis is down, and has its plan removed when Redis is back", func(ctx SpecContext) {
			apply(ctx)
			becomes(ctx, enforced)
			plans.change(func(r *registry) { r.unreachable = true })
			becomes(ctx, unreachable)
			Expect(api.Delete(ctx, policy)).To(Succeed())
			Expect(apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(policy), policy.DeepCopy()))).To(BeTrue())
			Expect(plans.plan(id)).NotTo(BeNil())
			plans.change(func(r *registry) { r.unreachable = false })
			Eventually(ctx, plans.plan).WithArguments(id).Should(BeNil())
		})

		It("is published when Redis is back", func(ctx SpecContext) {
			plans.change(func(r *registry) { r.unreachable = true })
			apply(ctx)
			becomes(ctx, unreachable)
			stays(ctx, unreachable)
			plans.change(func(r *registry) { r.unreachable = false })
			becomes(ctx, enforced)
			Eventually(eventsOn(policy)).WithContext(ctx).Should(Equal([]string{"Ready"}))
			Eventually(eventsOnLease(policy.Namespace)).WithContext(ctx).Should(
				ConsistOf("RegistryUnreachable", "RegistryRecovered"))
		})

		It("is reported as enforced only while Redis answers", func(ctx SpecContext) {
			apply(ctx)
			becomes(ctx, enforced)
			_, sweeps := plans.counts()
			plans.change(func(r *registry) { r.unreachable = true })
			becomes(ctx, unreachable)
			plans.change(func(r *registry) { r.unreachable = false })
			becomes(ctx, enforced)
			Eventually(func() int { _, n := plans.counts(); return n }).WithContext(ctx).Should(BeNumerically(">", sweeps))
		})

		It("is not written to a registry that another installation owns", func(ctx SpecContext) {
			plans.change(func(r *registry) { r.ownedElsewhere = true })
			apply(ctx)
			becomes(ctx, ownedElsewhere)
			Expect(plans.plan(id)).To(BeNil())
			plans.change(func(r *registry) { r.ownedElsewhere = false })
			becomes(ctx, enforced)
		})

		It("is retried when a write fails", func(ctx SpecContext) {
			plans.change(func(r *registry) { r.failNextWrite = true })
			apply(ctx)
			becomes(ctx, enforced)
		})

		It("is not enforced without a replica", func(ctx SpecContext) {
			plans.change(func(r *registry) { clear(r.replicas) })
			apply(ctx)
			becomes(ctx, noReplicas)
			plans.change(func(r *registry) { r.replicas["one"] = replica{} })
			becomes(ctx, enforced)
		})

		It("is not enforced until every replica has loaded its plan", func(ctx SpecContext) {
			plans.change(func(r *registry) { r.replicas["two"] = replica{stuck: true} })
			apply(ctx)
			becomes(ctx, replicasBehind)
			Expect(threshold()).To(Equal(int64(5)))
			plans.change(func(r *registry) { r.replicas["two"] = replica{} })
			becomes(ctx, enforced)
			Eventually(eventsOn(policy)).WithContext(ctx).Should(Equal([]string{"Ready"}), "ReplicasBehind has no event")
		})

		It("keeps its status when replicas come and go", func(ctx SpecContext) {
			apply(ctx)
			becomes(ctx, enforced)
			awaitCached(ctx, cached, policy)
			version, attempts := read(ctx, policy).ResourceVersion, writes.Load()
			unchanged := func(when string) {
				GinkgoHelper()
				before, _ := plans.counts()
				terms.Begin(terms.Term()) // reconciles every policy again
				Eventually(func() int { sets, _ := plans.counts(); return sets }).WithContext(ctx).Should(BeNumerically(">", before))
				Consistently(writes.Load).Should(Equal(attempts), when)
				Expect(read(ctx, policy).ResourceVersion).To(Equal(version), when)
			}
			unchanged("nothing changed")
			plans.change(func(r *registry) { r.replicas["two"] = replica{} })
			unchanged("a second replica joined and runs the plan")
			plans.change(func(r *registry) { delete(r.replicas, "two") })
			unchanged("the second replica left")
			Expect(eventsOn(policy)(NewWithT(GinkgoT()), ctx)).To(Equal([]string{"Ready"}))
		})

		It("records each transition in one event", func(ctx SpecContext) {
			policy.Spec.Matches[0].Paths = []string{"/a//b"}
			apply(ctx)
			becomes(ctx, invalid)
			Eventually(eventsOn(policy)).WithContext(ctx).Should(Equal([]string{"InvalidSpec"}))
			edit(ctx, policy, setPath("/a/b"))
			becomes(ctx, enforced)
			plans.change(func(r *registry) { clear(r.replicas) })
			becomes(ctx, noReplicas)
			terms.Begin(terms.Term())
			plans.change(func(r *registry) { r.replicas["one"] = replica{} })
			becomes(ctx, enforced)
			once := ConsistOf("InvalidSpec", "Ready")
			Eventually(eventsOn(policy)).WithContext(ctx).Should(once)
			Consistently(eventsOn(policy)).WithContext(ctx).Should(once)
			Eventually(eventsOnLease(policy.Namespace)).WithContext(ctx).Should(ConsistOf("NoReplicas", "RegistryRecovered"))
		})
	})

	Context("with --tenancy=Namespace", func() {
		BeforeEach(func(ctx SpecContext) {
			setUp(ctx, compile.TenancyNamespace)
			leadEmpty(ctx, terms, plans)
		})

		grant := func(ctx SpecContext, hosts string) {
			GinkgoHelper()
			annotate(ctx, policy.Namespace, compile.HostsAnnotation, hosts)
		}

		It("is enforced only while its Namespace is granted the host", func(ctx SpecContext) {
			apply(ctx)
			becomes(ctx, notPermitted)
			Expect(message(ctx, policy, v1alpha1.ConditionAccepted)).To(And(
				ContainSubstring("spec.matches[0].hosts[0]"), ContainSubstring(compile.HostsAnnotation)))
			Expect(plans.plan(id)).To(BeNil())

			By("granting the host")
			grant(ctx, "*.example")
			becomes(ctx, enforced)
			Expect(threshold()).To(Equal(int64(5)))

			By("revoking the grant")
			grant(ctx, "")
			becomes(ctx, notPermitted)
			Eventually(ctx, plans.plan).WithArguments(id).Should(BeNil())
			Expect(read(ctx, policy).Generation).To(Equal(int64(1)))
		})

		It("needs no grant without a match", func(ctx SpecContext) {
			policy.Spec.Matches = nil
			apply(ctx)
			becomes(ctx, enforced)
		})

		It("has its plan removed when an edit matches beyond the grant", func(ctx SpecContext) {
			grant(ctx, "shop.example")
			apply(ctx)
			becomes(ctx, enforced)
			edit(ctx, policy, func(spec *v1alpha1.RateLimitPolicySpec) { spec.Matches[0].Hosts = []string{"other.example"} })
			becomes(ctx, notPermitted)
			Eventually(ctx, plans.plan).WithArguments(id).Should(BeNil())
		})

		It("loses a revoked host even if there is no room for its last edit", func(ctx SpecContext) {
			grant(ctx, "shop.example, longer.new.example")
			apply(ctx)
			becomes(ctx, enforced)
			plans.change(func(r *registry) { r.shortage = &plan.OverBudget{Unit: plan.UnitPolicies, Needed: 1} })
			edit(ctx, policy, func(spec *v1alpha1.RateLimitPolicySpec) { spec.Matches[0].Hosts = []string{"longer.new.example"} })
			becomes(ctx, overBudget)
			Expect(plans.plan(id)).NotTo(BeNil(), "the last plan stays")
			grant(ctx, "longer.new.example")
			Eventually(ctx, plans.plan).WithArguments(id).Should(BeNil())
			becomes(ctx, overBudget)
		})

		It("loses a revoked host even if its last edit does not compile", func(ctx SpecContext) {
			grant(ctx, "shop.example, new.example")
			apply(ctx)
			becomes(ctx, enforced)
			edit(ctx, policy, func(spec *v1alpha1.RateLimitPolicySpec) {
				spec.Matches[0] = v1alpha1.Match{Hosts: []string{"new.example"}, Paths: []string{"/a//b"}}
			})
			becomes(ctx, invalid)
			Expect(plans.plan(id)).NotTo(BeNil(), "the last good plan stays")
			grant(ctx, "new.example")
			Eventually(ctx, plans.plan).WithArguments(id).Should(BeNil())
			becomes(ctx, invalid)
		})

		It("has its plan removed when Redis is back after the grant was revoked", func(ctx SpecContext) {
			grant(ctx, "shop.example")
			apply(ctx)
			becomes(ctx, enforced)
			plans.change(func(r *registry) { r.unreachable = true })
			grant(ctx, "")
			becomes(ctx, notPermitted)
			Expect(message(ctx, policy, v1alpha1.ConditionProgrammed)).To(ContainSubstring("being withdrawn"))
			plans.change(func(r *registry) { r.unreachable = false })
			Eventually(ctx, plans.plan).WithArguments(id).Should(BeNil())
			Eventually(message).WithArguments(ctx, policy, v1alpha1.ConditionProgrammed).Should(ContainSubstring("no plan"))
		})
	})

	Context("without a leader", func() {
		BeforeEach(func(ctx SpecContext) { setUp(ctx, compile.TenancyCluster) })

		It("is not reconciled", func(ctx SpecContext) {
			apply(ctx)
			Consistently(func(g Gomega) {
				g.Expect(read(ctx, policy).Status.ObservedGeneration).To(Equal(int64(-1)))
				g.Expect(plans.counts()).To(BeZero())
			}).Should(Succeed())
			Expect(unready()).To(Equal(plan.Unready{}), "only a leader knows")
		})

		It("is enforced when a term begins, which removes orphaned plans", func(ctx SpecContext) {
			orphan := policy.Namespace + "/orphan"
			plans.change(func(r *registry) { r.plans[orphan] = entry{plan: &plan.Plan{}} })
			apply(ctx)
			lead(terms)
			becomes(ctx, enforced)
			Eventually(ctx, plans.plan).WithArguments(orphan).Should(BeNil())
		})

		It("keeps its plan until the next term begins, which catches up", func(ctx SpecContext) {
			apply(ctx)
			resign := lead(terms)
			becomes(ctx, enforced)

			By("ending the term")
			resign()
			edit(ctx, policy, setThreshold(7))
			Consistently(threshold).Should(Equal(int64(5)))

			By("beginning another, after a second policy was deleted")
			gone := testenv.MakePolicy(policy.Namespace+"/gone").Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1s").Obj()
			plans.change(func(r *registry) { r.plans[policy.Namespace+"/gone"] = entry{plan: &plan.Plan{}} })
			Expect(api.Create(ctx, gone)).To(Succeed())
			Expect(api.Delete(ctx, gone)).To(Succeed())
			lead(terms)
			becomes(ctx, enforced)
			Expect(threshold()).To(Equal(int64(7)))
			Eventually(ctx, plans.plan).WithArguments(policy.Namespace + "/gone").Should(BeNil())
		})

		It("is published before MarkSynced, in every term", func(ctx SpecContext) {
			By("beginning a term without policies")
			resign := lead(terms)
			Eventually(ctx, plans.passes).Should(Equal([]int{0}))
			resign()

			By("beginning a term with five policies, one of which does not compile, while Redis is down")
			plans.change(func(r *registry) { r.unreachable = true })
			for i := range 4 {
				Expect(api.Create(ctx, testenv.MakePolicy(fmt.Sprintf("%s/p%d", policy.Namespace, i)).
					Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1s").Obj())).To(Succeed())
			}
			Expect(api.Create(ctx, testenv.MakePolicy(policy.Namespace+"/bad").
				Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1s").Match(v1alpha1.Match{Paths: []string{"/a//b"}}).Obj())).To(Succeed())
			lead(terms)
			Eventually(ctx, plans.passes).Should(Equal([]int{0, 4}))
			Consistently(ctx, plans.passes).Should(HaveLen(2))
		})
	})
})
