// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// sightings are the sightings that a spec reports.
type sightings struct {
	mu     sync.Mutex
	list   []plan.Sighting
	broken bool
	reads  atomic.Int64
}

func (s *sightings) Read(_ context.Context, since time.Time) ([]plan.Sighting, error) {
	s.reads.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return nil, errors.New("no answer")
	}
	var found []plan.Sighting
	for _, sighting := range s.list {
		if !sighting.At.Before(since) {
			found = append(found, sighting)
		}
	}
	return found, nil
}

// report reports that a check has applied to the plan now.
func (s *sightings) report(p *plan.Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, plan.Sighting{Policy: p.ID(), Selectors: p.Selectors(), At: time.Now()})
}

func (s *sightings) setBroken(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

// wiredOf returns "<status> <reason>" of the condition Wired, "" without one.
func wiredOf(policy *v1alpha1.RateLimitPolicy) func(Gomega, SpecContext) string {
	return func(_ Gomega, ctx SpecContext) string {
		c := meta.FindStatusCondition(read(ctx, policy).Status.Conditions, v1alpha1.ConditionWired)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason
	}
}

var _ = Describe("The condition Wired", func() {
	var s *subject
	var seen *sightings
	BeforeEach(func(ctx SpecContext) {
		seen = &sightings{}
		s = setUpWith(ctx, compile.TenancyCluster, seen)
	})

	It("becomes true with the first check, in one status write, and stays so", func(ctx SpecContext) {
		resign := leadEmpty(ctx, s.terms, s.plans)
		s.apply(ctx)
		s.becomes(ctx, enforced)
		Eventually(wiredOf(s.policy)).WithContext(ctx).Should(Equal("Unknown NoTraffic"))
		Expect(message(ctx, s.policy, v1alpha1.ConditionWired)).To(ContainSubstring("kubectl weir probe URL"))
		written := s.writes.Load()
		seen.report(s.plans.plan(s.id))
		Eventually(wiredOf(s.policy)).WithContext(ctx).Should(Equal("True TrafficSeen"))
		Expect(s.writes.Load()).To(Equal(written + 1))
		s.becomes(ctx, enforced)

		By("a new leader, after the sighting has expired")
		awaitCached(ctx, s.cached, s.policy)
		seen.mu.Lock()
		seen.list = nil
		seen.mu.Unlock()
		resign()
		lead(s.terms)
		Eventually(ctx, s.plans.passes).Should(HaveLen(2))
		Consistently(s.writes.Load).WithContext(ctx).Should(Equal(written + 1))
		Expect(wiredOf(s.policy)(Default, ctx)).To(Equal("True TrafficSeen"))

		By("other matches")
		edit(ctx, s.policy, func(spec *v1alpha1.RateLimitPolicySpec) { spec.Matches[0].Hosts = []string{"other.example"} })
		s.becomes(ctx, enforced)
		Eventually(wiredOf(s.policy)).WithContext(ctx).Should(Equal("Unknown NoTraffic"))

		By("no matches")
		edit(ctx, s.policy, func(spec *v1alpha1.RateLimitPolicySpec) { spec.Matches = nil })
		s.becomes(ctx, enforced)
		Expect(wiredOf(s.policy)(Default, ctx)).To(BeEmpty())
	})

	It("follows the objects that targetRefs name", Serial, func(ctx SpecContext) {
		leadEmpty(ctx, s.terms, s.plans)
		section := gatewayv1.SectionName("checkout")
		s.policy.Spec.Matches = nil
		s.policy.Spec.TargetRefs = []gatewayv1.LocalPolicyTargetReferenceWithSectionName{{
			LocalPolicyTargetReference: gatewayv1.LocalPolicyTargetReference{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Name: "shop"},
			SectionName:                &section,
		}}
		s.apply(ctx)
		s.becomes(ctx, enforced)
		Eventually(wiredOf(s.policy)).WithContext(ctx).Should(Equal("False TargetNotFound"))
		Expect(message(ctx, s.policy, v1alpha1.ConditionWired)).To(ContainSubstring("no kind HTTPRoute"))

		remove := server.InstallGatewayAPI()
		create := func(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
			object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
			object.SetAPIVersion(apiVersion)
			object.SetKind(kind)
			object.SetNamespace(s.policy.Namespace)
			object.SetName(name)
			Expect(api.Create(ctx, object)).To(Succeed())
			return object
		}
		target := func(kind, name string) []any {
			return []any{map[string]any{"group": gatewayv1.GroupName, "kind": kind, "name": name}}
		}
		create("gateway.networking.k8s.io/v1", "Gateway", "public", map[string]any{
			"gatewayClassName": "eg", "listeners": []any{map[string]any{"name": "http", "port": int64(80), "protocol": "HTTP"}},
		})
		create("gateway.networking.k8s.io/v1", "HTTPRoute", "shop", map[string]any{
			"parentRefs": []any{map[string]any{"name": "public"}}, "rules": []any{map[string]any{"name": "checkout"}},
		})
		create("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy", "weir", map[string]any{
			"targetRefs": target("Gateway", "public"),
			"extAuth": map[string]any{"grpc": map[string]any{"backendRefs": []any{
				map[string]any{"namespace": "weir-system", "name": "weir", "port": int64(8081)},
			}}},
		})
		Eventually(wiredOf(s.policy)).WithContext(ctx).Should(Equal("Unknown NoTraffic"))
		seen.report(s.plans.plan(s.id))
		Eventually(wiredOf(s.policy)).WithContext(ctx).Should(Equal("True TrafficSeen"))

		By("a SecurityPolicy of the route")
		cors := create("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy", "cors", map[string]any{
			"targetRefs": target("HTTPRoute", "shop"), "cors": map[string]any{"allowOrigins": []any{"https://*.example"}},
		})
		Expect(unstructured.SetNestedSlice(cors.Object, []any{map[string]any{
			"ancestorRef":    map[string]any{"kind": "Gateway", "name": "public", "namespace": s.policy.Namespace},
			"controllerName": "gateway.envoyproxy.io/gatewayclass-controller",
			"conditions": []any{map[string]any{
				"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "observedGeneration": int64(1),
				"lastTransitionTime": "2026-01-01T00:00:00Z",
			}},
		}}, "status", "ancestors")).To(Succeed())
		Expect(api.Status().Update(ctx, cors)).To(Succeed())
		Eventually(wiredOf(s.policy)).WithContext(ctx).Should(Equal("False Bypassed"))
		Expect(message(ctx, s.policy, v1alpha1.ConditionWired)).To(And(
			ContainSubstring("HTTPRoute "+s.policy.Namespace+"/shop"), ContainSubstring("SecurityPolicy "+s.policy.Namespace+"/cors")))
		Eventually(eventsOn(s.policy)).WithContext(ctx).Should(ConsistOf("Ready", "Bypassed"))
		s.becomes(ctx, enforced)

		By("without it")
		Expect(api.Delete(ctx, cors)).To(Succeed())
		Eventually(wiredOf(s.policy)).WithContext(ctx).Should(Equal("Unknown NoTraffic"))
		seen.report(s.plans.plan(s.id))
		Eventually(wiredOf(s.policy)).WithContext(ctx).Should(Equal("True TrafficSeen"))

		By("without the kinds")
		remove()
		Eventually(wiredOf(s.policy)).WithContext(ctx).Should(Equal("False TargetNotFound"))
		s.becomes(ctx, enforced)
	})

	It("is not Ready while a target is missing, and enforced all the same", Serial, func(ctx SpecContext) {
		remove := server.InstallGatewayAPI()
		s.awaitGateways(ctx)
		leadEmpty(ctx, s.terms, s.plans)
		s.policy.Spec.Matches = nil
		s.policy.Spec.TargetRefs = []gatewayv1.LocalPolicyTargetReferenceWithSectionName{{
			LocalPolicyTargetReference: gatewayv1.LocalPolicyTargetReference{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Name: "shop"},
		}}
		s.apply(ctx)
		missing := enforced
		missing.Ready, missing.Kstatus = "Unknown TargetNotFound", status.InProgressStatus
		s.becomes(ctx, missing)
		Expect(s.writes.Load()).To(BeNumerically("==", 1), "it was never Ready")
		Expect(s.plans.plan(s.id)).NotTo(BeNil())
		Expect(message(ctx, s.policy, v1alpha1.ConditionReady)).To(Equal("TargetNotFound: HTTPRoute " + s.policy.Namespace + "/shop does not exist."))

		By("the target")
		Eventually(seen.reads.Load).WithContext(ctx).Should(BeNumerically(">=", 1))
		route := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		route.SetAPIVersion("gateway.networking.k8s.io/v1")
		route.SetKind("HTTPRoute")
		route.SetNamespace(s.policy.Namespace)
		route.SetName("shop")
		Expect(api.Create(ctx, route)).To(Succeed())
		s.becomes(ctx, enforced)
		Expect(wiredOf(s.policy)(Default, ctx)).To(Equal("Unknown NoTraffic"))
		Expect(s.writes.Load()).To(BeNumerically("==", 2))

		By("without it")
		Expect(api.Delete(ctx, route)).To(Succeed())
		Eventually(wiredOf(s.policy)).WithContext(ctx).Should(Equal("False TargetNotFound"))
		s.becomes(ctx, enforced)
		Expect(message(ctx, s.policy, v1alpha1.ConditionResolvedRefs)).To(ContainSubstring("/shop does not exist"))

		By("without the kind, which Weir then cannot read")
		remove()
		Eventually(func(g Gomega, ctx SpecContext) {
			g.Expect(meta.FindStatusCondition(read(ctx, s.policy).Status.Conditions, v1alpha1.ConditionResolvedRefs)).To(BeNil())
		}).WithContext(ctx).Should(Succeed())
		s.becomes(ctx, enforced)
	})

	It("stays as it is while Redis does not answer", func(ctx SpecContext) {
		seen.setBroken(true)
		leadEmpty(ctx, s.terms, s.plans)
		s.apply(ctx)
		s.becomes(ctx, enforced)
		Expect(wiredOf(s.policy)(Default, ctx)).To(BeEmpty())
		seen.setBroken(false)
		seen.report(s.plans.plan(s.id))
		Eventually(wiredOf(s.policy)).WithContext(ctx).Should(Equal("True TrafficSeen"))
	})

	It("costs one write for each of many policies, the first time", func(ctx SpecContext) {
		const policies = 200
		namespace := s.policy.Namespace
		for i := range policies {
			id := fmt.Sprintf("%s/p%d", namespace, i)
			Expect(api.Create(ctx, testpolicy.Make(id).Match(v1alpha1.Match{Hosts: []string{"shop.example"}}).
				Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1m").Obj())).To(Succeed())
		}
		lead(s.terms)
		Eventually(s.writes.Load).WithContext(ctx).Should(BeNumerically(">=", policies))
		for i := range policies {
			seen.report(s.plans.plan(fmt.Sprintf("%s/p%d", namespace, i)))
		}
		wired := func(g Gomega, ctx SpecContext) (n int) {
			list := &v1alpha1.RateLimitPolicyList{}
			g.Expect(api.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
			for i := range list.Items {
				if meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, v1alpha1.ConditionWired) {
					n++
				}
			}
			return n
		}
		Eventually(wired).WithContext(ctx).Should(Equal(policies))
		written := s.writes.Load()
		Expect(written).To(BeNumerically("<=", 2*policies))
		for i := range policies {
			seen.report(s.plans.plan(fmt.Sprintf("%s/p%d", namespace, i)))
		}
		Consistently(s.writes.Load).WithContext(ctx).WithTimeout(3 * time.Second).Should(Equal(written))
	})
})

var _ controller.Traffic = (*sightings)(nil)
