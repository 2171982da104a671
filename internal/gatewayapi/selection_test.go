// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gatewayapi

import (
	"fmt"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// tenant is the objects of Namespace tenant, beside the objects of shop and infra.
type tenant struct {
	policies, routes, parents, labels int
}

// snapshot returns a Snapshot that is not indexed yet. Each SecurityPolicy selects the routes and Gateways with one of the
// labels; a bypass of shop/shop is sure.
func (c tenant) snapshot(tb testing.TB) *Snapshot {
	tb.Helper()
	s := objects{
		gateways: []string{publicGateway}, routes: []string{shopRoute},
		policies: []string{policyIn("infra", "weir", ofGateway, callsWeir, isAccepted), policyIn("shop", "cors", byLabel, isAccepted)},
	}.snapshot(tb)
	label := func(i int) map[string]string { return map[string]string{"app": strconv.Itoa(i % c.labels)} }
	for i := range c.routes {
		r := &Route{}
		r.Namespace, r.Name, r.Labels = "tenant", fmt.Sprint("r", i), label(i)
		r.Spec.Rules = []Section{{Name: "a"}, {}}
		for range c.parents {
			r.Spec.ParentRefs = append(r.Spec.ParentRefs, Reference{Namespace: "infra", Name: "public"})
		}
		s.routes[routeName{kindHTTPRoute, types.NamespacedName{Namespace: "tenant", Name: r.Name}}] = r
	}
	for i := range c.policies {
		p := &SecurityPolicy{}
		p.Namespace, p.Name = "tenant", fmt.Sprint("p", i)
		p.Spec.TargetSelectors = []TargetSelector{{Kind: "HTTPRoute"}, {Kind: "Gateway"}}
		for j := range p.Spec.TargetSelectors {
			p.Spec.TargetSelectors[j].MatchLabels = label(i)
		}
		p.Spec.TargetRefs = []Reference{{Kind: "HTTPRoute", Name: "r0", SectionName: "a"}}
		s.policies = append(s.policies, p)
	}
	s.steps = 0
	return s
}

// cost returns the steps and allocations of indexing.
func (c tenant) cost(tb testing.TB) (steps int, allocs float64) {
	tb.Helper()
	s := c.snapshot(tb)
	allocs = testing.AllocsPerRun(1, func() {
		s.steps = 0
		s.index()
	})
	return s.steps, allocs
}

// Twice as many SecurityPolicies, routes and parents, each and together, take at most 2.5 times as many steps and
// allocations, with the same labels, and with more labels than are compared.
func TestFindingBypassesIsASum(t *testing.T) {
	for name, small := range map[string]tenant{
		"the same labels": {policies: 100, routes: 100, parents: 16, labels: 1},
		"many labels":     {policies: 400, routes: 400, parents: 16, labels: 400},
	} {
		steps, allocs := small.cost(t)
		for what, large := range map[string]tenant{
			"policies": {2 * small.policies, small.routes, small.parents, small.labels},
			"routes":   {small.policies, 2 * small.routes, small.parents, small.labels},
			"parents":  {small.policies, small.routes, 2 * small.parents, small.labels},
			"all":      {2 * small.policies, 2 * small.routes, 2 * small.parents, small.labels},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				g := NewWithT(t)
				moreSteps, moreAllocs := large.cost(t)
				t.Logf("%d to %d steps, %v to %v allocations", steps, moreSteps, allocs, moreAllocs)
				g.Expect(moreSteps).To(BeNumerically("<=", steps*5/2))
				g.Expect(moreAllocs).To(BeNumerically("<=", allocs*5/2))
			})
		}
	}
}

// Selectors beyond the bound leave the objects of their Namespace unchecked, and no others.
func TestTooManySelectorsLeaveTheirNamespaceUnchecked(t *testing.T) {
	g := NewWithT(t)
	s := tenant{policies: 400, routes: 400, parents: 1, labels: 400}.snapshot(t)
	s.index()
	g.Expect(s.steps).To(BeNumerically("<", 2*maxComparisons))
	const ofTenant = plan.Target("HTTPRoute/tenant/r7")
	g.Expect(s.Judge([]plan.Target{ofTenant})).To(Equal(Finding{Unchecked, uncheckedMessage}))
	g.Expect(s.Judge([]plan.Target{ofTenant + "/a"})).To(Equal(Finding{Unchecked, uncheckedMessage}), "a rule of it")
	g.Expect(s.Judge([]plan.Target{route}).Result).To(Equal(Bypassed))

	few := tenant{policies: 100, routes: 100, parents: 1, labels: 100}.snapshot(t)
	few.index()
	g.Expect(few.Judge([]plan.Target{ofTenant})).To(BeZero())

	everywhere := tenant{policies: 400, routes: 400, parents: 1, labels: 400}.snapshot(t)
	for _, p := range everywhere.policies {
		if p.Namespace == "tenant" {
			p.Spec.TargetSelectors[0].Namespaces = &struct {
				From string `json:"from"`
			}{"All"}
		}
	}
	everywhere.index()
	g.Expect(everywhere.Judge([]plan.Target{route})).To(Equal(Finding{Unchecked, uncheckedMessage}), "they may select it, too")
}
