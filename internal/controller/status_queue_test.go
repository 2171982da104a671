// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// installation is a controller of its own Namespace, on a fake registry.
type installation struct {
	namespace string
	plans     *registry
	terms     *controller.TermTracker
	writes    *atomic.Int64 // attempts to write a status
	cached    client.Reader
}

func install(ctx SpecContext, outageDelay, writeDelay time.Duration) *installation {
	GinkgoHelper()
	return installWith(ctx, options{outageDelay: outageDelay, writeDelay: writeDelay})
}

// installWith sets the options that all installations share.
func installWith(ctx SpecContext, o options) *installation {
	GinkgoHelper()
	i := &installation{namespace: makeNamespace(ctx), plans: newRegistry(), terms: controller.NewTermTracker()}
	o.namespace, o.tenancy = i.namespace, compile.TenancyCluster
	o.publisher, o.terms = i.plans, i.terms
	i.writes, i.cached = startController(o)
	return i
}

func (i *installation) policy(name string) *v1alpha1.RateLimitPolicy {
	return testpolicy.Make(i.namespace+"/"+name).Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1s").Obj()
}

// apply creates a policy and waits until it is ready.
func (i *installation) apply(ctx SpecContext, name string) *v1alpha1.RateLimitPolicy {
	GinkgoHelper()
	policy := i.policy(name)
	Expect(api.Create(ctx, policy.DeepCopy())).To(Succeed())
	Eventually(outcomeOf(policy)).WithContext(ctx).Should(Equal(enforced))
	return policy
}

// fill creates n policies.
func (i *installation) fill(ctx SpecContext, n int) {
	GinkgoHelper()
	var group errgroup.Group
	group.SetLimit(8)
	for p := range n {
		group.Go(func() error { return api.Create(ctx, i.policy(fmt.Sprintf("p%d", p))) })
	}
	Expect(group.Wait()).To(Succeed())
}

// ready counts the policies that are ready.
func (i *installation) ready(ctx context.Context) (ready int) {
	list := &v1alpha1.RateLimitPolicyList{}
	Expect(api.List(ctx, list, client.InNamespace(i.namespace))).To(Succeed())
	for n := range list.Items {
		if meta.IsStatusConditionTrue(list.Items[n].Status.Conditions, v1alpha1.ConditionReady) {
			ready++
		}
	}
	return ready
}

func (i *installation) reconciles() int {
	sets, _ := i.plans.counts()
	return sets
}

// never is an outage delay that no spec reaches.
const never = time.Hour

var _ = Describe("The status queue", func() {
	setThreshold := func(units int64) func(*v1alpha1.RateLimitPolicySpec) {
		return func(spec *v1alpha1.RateLimitPolicySpec) { spec.Limits[0].Threshold = units }
	}

	It("writes slowly without reconciling again", func(ctx SpecContext) {
		const policies = 300
		i := install(ctx, never, 10*time.Millisecond)
		i.fill(ctx, policies)
		lead(i.terms)
		Eventually(ctx, i.ready).Should(Equal(policies))
		Expect(i.reconciles()).To(BeNumerically("<=", policies*12/10))
		Expect(i.writes.Load()).To(BeNumerically("<=", policies*11/10))
	}, NodeTimeout(5*time.Minute))

	It("writes an edit before the statuses of a new term", func(ctx SpecContext) {
		const policies = 200
		i := install(ctx, never, 300*time.Millisecond) // 7.5 s for all
		i.fill(ctx, policies)
		lead(i.terms)
		Eventually(i.writes.Load).WithContext(ctx).Should(BeNumerically(">", 8))
		edited := i.apply(ctx, "edited")
		Expect(i.ready(ctx)).To(BeNumerically("<", policies/2))
		edit(ctx, edited, setThreshold(7))
		Eventually(outcomeOf(edited)).WithContext(ctx).Should(Equal(enforced))
		Expect(i.ready(ctx)).To(BeNumerically("<", policies*3/4))
	})

	It("writes nothing after its term, and everything in the next", func(ctx SpecContext) {
		const policies = 120
		i := install(ctx, never, 200*time.Millisecond) // 3 s for all
		i.fill(ctx, policies)
		resign := lead(i.terms)
		Eventually(i.writes.Load).WithContext(ctx).Should(BeNumerically(">", 8))
		resign()
		attempts := i.writes.Load()
		Expect(attempts).To(BeNumerically("<", policies))
		Consistently(i.writes.Load).WithContext(ctx).Should(BeNumerically("<=", attempts+8), "those that were just beginning")
		lead(i.terms)
		Eventually(ctx, i.ready).Should(Equal(policies))
	})

	It("waits for the initial pass while the registry is lost", func(ctx SpecContext) {
		const policies = 50
		i := install(ctx, never, 0)
		i.fill(ctx, policies)
		i.plans.change(func(r *registry) { r.lost, r.writeDelay = true, 100*time.Millisecond })
		lead(i.terms)
		Eventually(ctx, i.ready).Should(Equal(policies))
		Expect(i.writes.Load()).To(BeEquivalentTo(policies), "none has reported that its plan is being written")
	})

	It("ends with a policy that is deleted, and begins again with the next of its name", func(ctx SpecContext) {
		i := install(ctx, never, 200*time.Millisecond)
		leadEmpty(ctx, i.terms, i.plans)
		for range 5 {
			policy := i.policy("p")
			before := i.writes.Load()
			Expect(api.Create(ctx, policy.DeepCopy())).To(Succeed())
			Eventually(i.writes.Load).WithContext(ctx).Should(BeNumerically(">", before))
			Expect(api.Delete(ctx, policy)).To(Succeed())
		}
		i.apply(ctx, "p")
		Expect(i.writes.Load()).To(BeNumerically("<=", 7), "a write for each policy, and one conflict at most")
	})

	It("gets through while somebody else keeps changing the policy", func(ctx SpecContext) {
		const lost = 12 // with a delay that doubles, the next attempt would come after 80 s
		var attempts atomic.Int64
		i := installWith(ctx, options{outageDelay: never, beforeWrite: func(ctx context.Context, policy client.Object) {
			if n := attempts.Add(1); n <= lost {
				patch := fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, n)
				_ = api.Patch(ctx, policy.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)))
			}
		}})
		leadEmpty(ctx, i.terms, i.plans)
		i.apply(ctx, "p")
		Expect(i.writes.Load()).To(BeNumerically(">", lost))
		Expect(i.reconciles()).To(Equal(1))
	})

	It("keeps every status in a blip of the registry", func(ctx SpecContext) {
		i := install(ctx, never, 0)
		leadEmpty(ctx, i.terms, i.plans)
		policy := i.apply(ctx, "p")
		refused := i.policy("refused")
		refused.Spec.Matches = []v1alpha1.Match{{Paths: []string{"/a//b"}}}
		Expect(api.Create(ctx, refused.DeepCopy())).To(Succeed())
		Eventually(outcomeOf(refused)).WithContext(ctx).Should(Equal(invalid))
		attempts := i.writes.Load()
		for _, blip := range []func(*registry){
			func(r *registry) { r.unreachable = true },
			func(r *registry) { r.unreachable = false; clear(r.replicas) },
			func(r *registry) { r.replicas["one"] = replica{revision: -1, stuck: true} },
		} {
			i.plans.change(blip)
			Consistently(i.writes.Load).WithContext(ctx).Should(Equal(attempts))
		}

		By("applying and editing meanwhile")
		another := i.policy("another")
		Expect(api.Create(ctx, another.DeepCopy())).To(Succeed())
		Eventually(outcomeOf(another)).WithContext(ctx).Should(Equal(replicasBehind))
		i.plans.change(func(r *registry) { r.unreachable = true })
		edit(ctx, policy, setThreshold(7))
		Eventually(outcomeOf(policy)).WithContext(ctx).Should(Equal(unreachable))

		By("ending it")
		i.plans.change(func(r *registry) { r.unreachable = false; r.replicas["one"] = replica{} })
		Eventually(outcomeOf(policy)).WithContext(ctx).Should(Equal(enforced))
		Eventually(outcomeOf(another)).WithContext(ctx).Should(Equal(enforced))
		Consistently(eventsOnLease(i.namespace)).WithContext(ctx).Should(BeEmpty())
	})

	It("reports an outage that lasts to every policy, in one event", func(ctx SpecContext) {
		i := install(ctx, outageDelay, 0)
		leadEmpty(ctx, i.terms, i.plans)
		a, b := i.apply(ctx, "a"), i.apply(ctx, "b")
		began := time.Now()
		i.plans.change(func(r *registry) { r.unreachable = true })
		Eventually(outcomeOf(a)).WithContext(ctx).Should(Equal(unreachable))
		Expect(time.Since(began)).To(BeNumerically(">=", outageDelay))
		Eventually(outcomeOf(b)).WithContext(ctx).Should(Equal(unreachable))
		Eventually(eventsOnLease(i.namespace)).WithContext(ctx).Should(Equal([]string{"RegistryUnreachable"}))
		i.plans.change(func(r *registry) { r.unreachable = false })
		Eventually(outcomeOf(a)).WithContext(ctx).Should(Equal(enforced))
		Eventually(eventsOnLease(i.namespace)).WithContext(ctx).Should(ConsistOf("RegistryUnreachable", "RegistryRecovered"))
		Expect(eventsOn(a)(NewWithT(GinkgoT()), ctx)).To(Equal([]string{"Ready"}))
		Expect(i.reconciles()).To(Equal(2), "an outage needs no reconcile")
	})

	It("keeps the status of a refused policy when a term begins", func(ctx SpecContext) {
		i := install(ctx, never, 0)
		resign := leadEmpty(ctx, i.terms, i.plans)
		policy := i.apply(ctx, "p")
		edit(ctx, policy, func(spec *v1alpha1.RateLimitPolicySpec) { spec.Matches = []v1alpha1.Match{{Paths: []string{"/a//b"}}} })
		Eventually(outcomeOf(policy)).WithContext(ctx).Should(Equal(invalid))
		Expect(message(ctx, policy, v1alpha1.ConditionProgrammed)).To(ContainSubstring("generation 1 stays enforced"))
		awaitCached(ctx, i.cached, policy)
		resign()
		attempts := i.writes.Load()
		i.plans.beginTerm()
		i.plans.change(func(r *registry) { r.unobserved = true })
		lead(i.terms)
		Consistently(i.writes.Load).WithContext(ctx).Should(Equal(attempts), "before the leader has read the registry")
		i.plans.change(func(r *registry) { r.unobserved = false })
		Consistently(i.writes.Load).WithContext(ctx).Should(Equal(attempts))
		Expect(i.plans.plan(i.namespace + "/p").Generation).To(BeEquivalentTo(1))
	})

	It("forces a pass on request, and echoes the request", func(ctx SpecContext) {
		i := install(ctx, never, 0)
		leadEmpty(ctx, i.terms, i.plans)
		policy := i.apply(ctx, "p")
		before := i.reconciles()
		request := func(value string) {
			GinkgoHelper()
			patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ReconcileRequestedAtAnnotation, value)
			Expect(api.Patch(ctx, policy.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		}
		handled := func(ctx SpecContext) string { return read(ctx, policy).Status.LastHandledReconcileAt }
		request("2026-01-02T03:04:05Z")
		Eventually(ctx, handled).Should(Equal("2026-01-02T03:04:05Z"))
		Expect(i.reconciles()).To(Equal(before + 1))

		By("requesting one during an outage, which reports the outage at once")
		i.plans.change(func(r *registry) { r.unreachable = true })
		request("again")
		Eventually(outcomeOf(policy)).WithContext(ctx).Should(Equal(unreachable))
		Expect(handled(ctx)).To(Equal("again"))
	})

	It("publishes a lower generation that the API server confirms", func(ctx SpecContext) {
		i := install(ctx, never, 0)
		policy := i.policy("p")
		Expect(api.Create(ctx, policy)).To(Succeed())
		id := i.namespace + "/p"
		i.plans.change(func(r *registry) {
			r.wanted[id] = &plan.Plan{Namespace: i.namespace, Name: "p", UID: string(policy.UID), Generation: 9}
		})
		lead(i.terms)
		Eventually(outcomeOf(policy)).WithContext(ctx).Should(Equal(enforced))
		Expect(i.plans.plan(id).Generation).To(BeEquivalentTo(1))
	})

	It("sweeps only plans whose policy the API server does not have either", func(ctx SpecContext) {
		i := install(ctx, never, 0)
		elsewhere := makeNamespace(ctx) // the cache of the controller does not hold it
		Expect(api.Create(ctx, testpolicy.Make(elsewhere+"/p").Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1s").Obj())).To(Succeed())
		i.plans.change(func(r *registry) {
			r.records[elsewhere+"/p"] = entry{record: &plan.Plan{}}
			r.records[elsewhere+"/gone"] = entry{record: &plan.Plan{}}
		})
		lead(i.terms)
		Eventually(ctx, i.plans.plan).WithArguments(elsewhere + "/gone").Should(BeNil())
		Expect(i.plans.plan(elsewhere + "/p")).NotTo(BeNil())
	})
})
