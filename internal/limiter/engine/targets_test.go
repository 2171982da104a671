// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Policies of the Gateway, the route and its rule all apply; policies of other targets do not. A check that names a
// policy ignores its targets.
func TestPoliciesOfTargets(t *testing.T) {
	targets := func(all ...plan.Target) func(*plan.Plan) { return matching(plan.Match{Targets: all}) }
	f := newFixture(
		makePlan("infra/floor", targets("Gateway/infra/public")),
		makePlan("infra/listener", targets("Gateway/infra/public/admin")),
		makePlan("shop/checkout", targets("HTTPRoute/shop/shop/checkout")),
		makePlan("shop/other", targets("HTTPRoute/shop/other", "HTTPRoute/shop/shop/cart")),
		makePlan("shop/route", targets("HTTPRoute/shop/shop")),
		makePlan("shop/search", matching(plan.Match{Targets: []plan.Target{"HTTPRoute/shop/shop"}, Paths: []string{"/search"}})),
	)
	for _, tc := range []struct {
		path    string
		targets []plan.Target
		want    []string
	}{
		{"/", nil, nil},
		{"/", []plan.Target{"Gateway/infra/public"}, []string{"infra/floor"}},
		{"/", []plan.Target{"Gateway/infra/public/admin"}, []string{"infra/floor", "infra/listener"}},
		{"/", []plan.Target{"HTTPRoute/shop/shop/checkout", "Gateway/infra/public"}, []string{"infra/floor", "shop/checkout", "shop/route"}},
		{"/search", []plan.Target{"HTTPRoute/shop/shop"}, []string{"shop/route", "shop/search"}},
		{"/search", []plan.Target{"HTTPRoute/bank/shop"}, nil},
	} {
		var applied []string
		for _, p := range f.explain(t, &limiter.Check{Cost: 1, Attributes: plan.Attributes{Path: tc.path, Targets: tc.targets}}).Policies {
			applied = append(applied, p.Policy)
		}
		NewWithT(t).Expect(applied).To(Equal(tc.want), "%s %v", tc.path, tc.targets)
	}
	g := NewWithT(t)
	for range 3 {
		g.Expect(f.decide(t, named("shop/checkout")).Allowed).To(BeTrue())
	}
	g.Expect(f.decide(t, named("shop/checkout")).Allowed).To(BeFalse())
}
