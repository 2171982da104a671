// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/internal/gatewayapi"
)

// maxParents is the most parents of a route that the API server accepts, and of listeners, ancestors and rules.
const maxParents = 32

var gatewayRows = map[string]row{
	"Gateways, routes, SecurityPolicies": {
		dimensions: []dimension{
			{name: "SecurityPolicies", first: 2},
			{name: "selectors", of: "SecurityPolicies", first: 1, most: 16},
			{name: "values of a selector", of: "selectors", first: 1},
			{name: "routes", first: 2},
			{name: "parents", of: "routes", first: 1, most: maxParents},
			{name: "rules", of: "routes", first: 1, most: 16},
			{name: "Gateways", first: 1},
			{name: "listeners", of: "Gateways", first: 1, most: 64},
			{name: "ancestors", of: "SecurityPolicies", first: 1, most: maxParents},
			{name: "objects with the same labels", most: 64, shape: true},
		},
		attacks: [][]int{
			{50, 2, 1, 50, 32, 1, 1, 1, 1, 64}, // SecurityPolicies x routes x parents
			{256, 1, 1, 256, 1, 1, 1, 1, 1, 1}, // labels that all differ
		},
		build: func(tb testing.TB, n []int) instance {
			tb.Helper()
			all := wired(n)
			encoded := encodedBytes(tb, all...)
			var built *gatewayapi.Snapshot
			return instance{
				encoded: encoded,
				use: func(testing.TB) any {
					built = gatewayapi.NewSnapshot([]types.NamespacedName{{Namespace: "weir-system", Name: "weir"}}, all...)
					return built
				},
				steps: func(testing.TB) int { return built.Steps() },
			}
		},
	},
}

// wired returns objects of one Namespace. The Gateways ask Weir, and every SecurityPolicy with selectors keeps the requests of the
// routes that it selects from it.
func wired(n []int) (all []client.Object) {
	labels := func(i int) map[string]string { return map[string]string{"app": strconv.Itoa(i / n[9])} }
	object := func(kind string, i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "t", Name: fmt.Sprint(kind, i), Generation: 1, Labels: labels(i)}
	}
	for i := range n[6] {
		g := &gatewayapi.Gateway{ObjectMeta: object("g", i)}
		for _, name := range formatted(n[7], "l%d") {
			g.Spec.Listeners = append(g.Spec.Listeners, gatewayapi.Section{Name: name})
		}
		asks := &gatewayapi.SecurityPolicy{ObjectMeta: object("w", i)}
		asks.Spec.TargetRefs = []gatewayapi.Reference{{Kind: "Gateway", Name: g.Name}}
		asks.Spec.ExtAuth = &gatewayapi.ExtAuth{GRPC: &gatewayapi.AuthService{BackendRefs: []gatewayapi.Reference{{Namespace: "weir-system", Name: "weir"}}}}
		all = append(all, g, asks)
	}
	for i := range n[3] {
		r := &gatewayapi.HTTPRoute{Route: gatewayapi.Route{ObjectMeta: object("r", i)}}
		for j := range n[4] {
			r.Spec.ParentRefs = append(r.Spec.ParentRefs, gatewayapi.Reference{Name: fmt.Sprint("g", j%n[6]), SectionName: fmt.Sprint("l", j/n[6]%n[7])})
		}
		for _, name := range formatted(n[5], "rule%d") {
			r.Spec.Rules = append(r.Spec.Rules, gatewayapi.Section{Name: name})
		}
		all = append(all, r)
	}
	for i := range n[0] {
		all = append(all, bypassing(n, object("s", i), i, labels(i)))
	}
	return all
}

// bypassing returns a SecurityPolicy without extAuth, which applies on every parent.
func bypassing(n []int, meta metav1.ObjectMeta, i int, labels map[string]string) *gatewayapi.SecurityPolicy {
	p := &gatewayapi.SecurityPolicy{ObjectMeta: meta}
	for j := range n[1] {
		selector := gatewayapi.TargetSelector{Kind: []string{"HTTPRoute", "Gateway"}[j%2]}
		selector.MatchExpressions = []metav1.LabelSelectorRequirement{{
			Key: "app", Operator: metav1.LabelSelectorOpIn, Values: append(formatted(n[2]-1, "v%d-%d", j), labels["app"]),
		}}
		p.Spec.TargetSelectors = append(p.Spec.TargetSelectors, selector)
	}
	p.Spec.TargetRefs = []gatewayapi.Reference{{Kind: "HTTPRoute", Name: fmt.Sprint("r", i%n[3]), SectionName: "rule0"}}
	for j := range n[8] {
		p.Status.Ancestors = append(p.Status.Ancestors, gatewayapi.Ancestor{
			AncestorRef: gatewayapi.Reference{Name: fmt.Sprint("g", j%n[6]), SectionName: fmt.Sprint("l", j/n[6])},
			Conditions:  []gatewayapi.Condition{{Type: "Accepted", Status: "True", ObservedGeneration: 1}},
		})
	}
	return p
}
