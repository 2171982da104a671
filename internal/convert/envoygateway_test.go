// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/convert"
	"github.com/weir-dev/weir/internal/wiring"
)

const edgeAndShop = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec: {gatewayClassName: envoy, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: toys, namespace: shop}
spec: {parentRefs: [{name: edge}], hostnames: [toys.example]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: books, namespace: shop}
spec: {parentRefs: [{name: edge}], hostnames: [books.example]}
`

// trafficPolicyOf returns a BackendTrafficPolicy of Namespace shop.
func trafficPolicyOf(name, spec string) string {
	return "---\napiVersion: gateway.envoyproxy.io/v1alpha1\nkind: BackendTrafficPolicy\nmetadata: {name: " + name + ", namespace: shop}\nspec: " + spec + "\n"
}

func convertEnvoyGateway(t *testing.T, text string) ([]*v1alpha1.RateLimitPolicy, []wiring.Manifest, []convert.Note) {
	t.Helper()
	policies, manifests, notes, err := convert.EnvoyGateway(t.Context(), fileOf([]byte(text)), convert.EnvoyGatewayOptions{
		Namespace: "shop", Replicas: 2, WeirNamespace: "weir-system", Service: "weir", EnvoyNamespace: "envoy",
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return policies, manifests, notes
}

// The policy of a route merges with the one of its Gateway, or replaces it.
func TestMergedTrafficPolicies(t *testing.T) {
	const (
		gateway = `{targetRefs: [{kind: Gateway, name: edge}], rateLimit: {
  global: {rules: [{limit: {requests: 11, unit: Hour}}]},
  local: {rules: [{limit: {requests: 21, unit: Hour}}, {clientSelectors: [{methods: [{value: GET}]}], limit: {requests: 22, unit: Hour}}]}}}`
		global   = `global: {rules: [{limit: {requests: 31, unit: Hour}}]}`
		local    = `local: {rules: [{limit: {requests: 41, unit: Hour}}, {clientSelectors: [{methods: [{value: PUT}]}], limit: {requests: 42, unit: Hour}}]}`
		noRest   = `local: {rules: [{clientSelectors: [{methods: [{value: PUT}]}], limit: {requests: 42, unit: Hour}}]}`
		restOnly = `local: {rules: [{limit: {requests: 41, unit: Hour}}]}`
	)
	// two pods share the local limits
	for name, tc := range map[string]struct {
		merge, limits string
		want          []int64
	}{
		"no merge, no limits":       {"", "", nil},
		"no merge":                  {"", global, []int64{31}},
		"strategic, no limits":      {"StrategicMerge", "", []int64{11, 42, 44}},
		"strategic, global":         {"StrategicMerge", global, []int64{11, 31, 42, 44}},
		"strategic, local":          {"StrategicMerge", local, []int64{11, 44, 82, 84}},
		"strategic, local, no rest": {"StrategicMerge", noRest, []int64{11, 44, 84}},
		"JSON, no limits":           {"JSONMerge", "", []int64{11, 42, 44}},
		"JSON, global":              {"JSONMerge", global, []int64{31, 42, 44}},
		"JSON, local":               {"JSONMerge", local, []int64{11, 82, 84}},
		"JSON, local, no rest":      {"JSONMerge", noRest, []int64{11, 84}},
		"JSON, local, only rest":    {"JSONMerge", restOnly, []int64{11, 44, 82}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := "{targetRefs: [{kind: HTTPRoute, name: toys}]"
			if tc.merge != "" {
				spec += ", mergeType: " + tc.merge
			}
			if tc.limits != "" {
				spec += ", rateLimit: {" + tc.limits + "}"
			}
			policies, _, _ := convertEnvoyGateway(t, edgeAndShop+trafficPolicyOf("all", gateway)+trafficPolicyOf("toys", spec+"}"))
			var of []int64
			for _, p := range policies {
				if p.Spec.TargetRefs[0].Name == "toys" {
					of = append(of, p.Spec.Limits[0].Threshold)
				}
			}
			slices.Sort(of)
			NewWithT(t).Expect(of).To(Equal(tc.want))
		})
	}
}

// A shared rule is one policy: for the Gateway if all its routes have the rule, else for these routes.
func TestSharedRules(t *testing.T) {
	g := NewWithT(t)
	const shared = `{targetRefs: [{kind: Gateway, name: edge}], rateLimit: {global: {rules: [{limit: {requests: 5, unit: Hour}, shared: true}]}}}`
	policies, _, notes := convertEnvoyGateway(t, edgeAndShop+trafficPolicyOf("all", shared))
	g.Expect(notes).NotTo(ContainElement(HaveField("Loss", true)))
	g.Expect(policies).To(HaveLen(1))
	g.Expect(policies[0].Spec.TargetRefs).To(ConsistOf(And(HaveField("Kind", BeEquivalentTo("Gateway")), HaveField("Name", BeEquivalentTo("edge")))))
	policies, _, _ = convertEnvoyGateway(t, edgeAndShop+trafficPolicyOf("all", shared)+trafficPolicyOf("none", "{targetRefs: [{kind: HTTPRoute, name: toys}]}"))
	g.Expect(policies).To(HaveLen(1))
	g.Expect(policies[0].Spec.TargetRefs).To(ConsistOf(And(HaveField("Kind", BeEquivalentTo("HTTPRoute")), HaveField("Name", BeEquivalentTo("books")))))
	g.Expect(policies[0].Spec.Key).To(BeEmpty())
}

// The manifests let the Gateway of a policy ask Weir, or the route. SecurityPolicies of the files are completed.
func TestManifestsOfEnvoyGateway(t *testing.T) {
	const limits = "rateLimit: {global: {rules: [{limit: {requests: 5, unit: Hour}}]}}}"
	const security = "---\napiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\nmetadata: {name: own, namespace: shop}\nspec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: toys}], %s}\n"
	names := func(manifests []wiring.Manifest) (all []string) {
		for _, m := range manifests {
			all = append(all, m.Object.GetKind()+" "+m.Object.GetNamespace()+"/"+m.Object.GetName())
		}
		return all
	}
	g := NewWithT(t)
	route := trafficPolicyOf("toys", "{targetRefs: [{kind: HTTPRoute, name: toys}], "+limits)
	gateway := trafficPolicyOf("all", "{targetRefs: [{kind: Gateway, name: edge}], "+limits)

	_, manifests, _ := convertEnvoyGateway(t, edgeAndShop+route)
	g.Expect(names(manifests)).To(Equal([]string{"SecurityPolicy shop/weir-toys", "ReferenceGrant weir-system/weir-shop", "Namespace /envoy"}))
	_, manifests, _ = convertEnvoyGateway(t, edgeAndShop+route+gateway+fmt.Sprintf(security, "cors: {}"))
	g.Expect(names(manifests)).To(Equal([]string{
		"SecurityPolicy shop/weir-edge", "ReferenceGrant weir-system/weir-shop", "Namespace /envoy", "SecurityPolicy shop/own",
	}))
	var text bytes.Buffer
	g.Expect(wiring.Write(&text, manifests)).To(Succeed())
	g.Expect(text.String()).To(And(ContainSubstring("value: shop/edge\n"), ContainSubstring("mergeType: StrategicMerge"), Not(ContainSubstring("status"))))
	_, manifests, _ = convertEnvoyGateway(t, edgeAndShop+route+fmt.Sprintf(security, "cors: {}"))
	g.Expect(names(manifests)[0]).To(Equal("SecurityPolicy shop/own"))

	_, manifests, notes := convertEnvoyGateway(t, edgeAndShop+route+fmt.Sprintf(security, "extAuth: {grpc: {backendRefs: [{name: other, port: 1}]}}"))
	g.Expect(manifests).To(BeEmpty())
	g.Expect(notes).To(ContainElement(And(
		HaveField("Loss", true), HaveField("Text", ContainSubstring("HTTPRoute shop/toys does not call Weir: SecurityPolicy shop/own sends checks to another service")),
	)))
}

// Of several selectors of a rule, Envoy Gateway keeps all headers and methods, and the last path and sourceCIDR.
func TestJoinedSelectors(t *testing.T) {
	g := NewWithT(t)
	policies, _, notes := convertEnvoyGateway(t, edgeAndShop+trafficPolicyOf("toys", `{targetRefs: [{kind: HTTPRoute, name: toys}], rateLimit: {global: {rules: [{
  limit: {requests: 5, unit: Hour}, clientSelectors: [
    {headers: [{name: A, value: "1"}], methods: [{value: GET}], path: {value: /a}, sourceCIDR: {value: 10.0.0.0/8}},
    {headers: [{name: B, type: Distinct}], methods: [{value: PUT}], path: {value: /b}, sourceCIDR: {value: 11.0.0.0/8}}]}]}}}`))
	g.Expect(notes).NotTo(ContainElement(HaveField("Loss", true)))
	g.Expect(policies).To(HaveLen(1))
	m := policies[0].Spec.Matches[0]
	g.Expect(m.Methods).To(Equal([]string{"GET", "PUT"}))
	g.Expect(m.Paths).To(Equal([]string{"/b", "/b/*", "/b;*"}))
	g.Expect(m.Headers).To(HaveLen(1))
	g.Expect(m.When).To(Equal(`request.headers["a"] == "1"`))
	g.Expect(policies[0].Spec.Overrides[0].CIDRs).To(Equal([]string{"11.0.0.0/8"}))
}

// Patterns of paths are converted if they do not depend on the query.
func TestPatternsOfPaths(t *testing.T) {
	const withoutQuery = " && size(request.query) == 0"
	for pattern, want := range map[string]string{
		"/a/.*":            `request.path.matches("^(?:/a/.*)$")`,
		"^/v[0-9]+/(a|b)$": `(request.path.matches("^(?:^/v[0-9]+/(a|b)$)$")` + withoutQuery + ")",
		"/a.*b":            "", "/a[^/]+": "", "/a\\?b": "", "/a(/.*)?": "", "/a\\b.*": "",
	} {
		policies, _, notes := convertEnvoyGateway(t, edgeAndShop+trafficPolicyOf("toys", `{targetRefs: [{kind: HTTPRoute, name: toys}], rateLimit: {global: {rules: [{
  limit: {requests: 5, unit: Hour}, clientSelectors: [{path: {type: RegularExpression, value: '`+pattern+`'}}]}]}}}`))
		g := NewWithT(t)
		if want == "" {
			g.Expect(policies).To(BeEmpty(), pattern)
			g.Expect(notes).To(ContainElement(And(HaveField("Loss", true), HaveField("At", HaveSuffix("clientSelectors[0].path")))), pattern)
			continue
		}
		g.Expect(policies).To(HaveLen(1), pattern)
		g.Expect(policies[0].Spec.Matches[0].When).To(Equal(want))
	}
}

// Files with names give the notes their places.
func TestPlacesOfTrafficPolicies(t *testing.T) {
	g := NewWithT(t)
	text := edgeAndShop + trafficPolicyOf("toys", "{targetRefs: [{kind: HTTPRoute, name: toys}], rateLimit: {global: {rules: [{limit: {requests: 5, unit: Hour}, speed: 1}]}}}")
	_, _, notes, err := convert.EnvoyGateway(t.Context(), filesOf(text), convert.EnvoyGatewayOptions{Namespace: "shop", Replicas: 1})
	g.Expect(err).NotTo(HaveOccurred())
	before, _, _ := strings.Cut(text, "kind: BackendTrafficPolicy")
	line := strings.Count(before, "\n")
	g.Expect(notes).To(ContainElement(convert.Note{
		At: fmt.Sprintf("a.yaml:%d: BackendTrafficPolicy shop/toys", line), Text: `lost: unknown field "spec.rateLimit.global.rules[0].speed"`, Loss: true,
	}))
}

// A host of a route belongs to the listener that names it, of several with one port.
func TestListenersOfTrafficPolicies(t *testing.T) {
	g := NewWithT(t)
	objects := strings.NewReplacer(
		"{name: http, port: 80, protocol: HTTP}", `{name: wide, port: 80, protocol: HTTP, hostname: "*.example"}, {name: toys, port: 80, protocol: HTTP, hostname: toys.example}`,
	).Replace(edgeAndShop)
	of := func(listener string, requests int) string {
		return trafficPolicyOf(listener, fmt.Sprintf("{targetRefs: [{kind: Gateway, name: edge, sectionName: %s}], rateLimit: {global: {rules: [{limit: {requests: %d, unit: Hour}}]}}}", listener, requests))
	}
	policies, _, notes := convertEnvoyGateway(t, objects+of("wide", 1)+of("toys", 2))
	g.Expect(notes).NotTo(ContainElement(HaveField("Loss", true)))
	thresholds := map[string]int64{}
	for _, p := range policies {
		thresholds[string(p.Spec.TargetRefs[0].Name)] = p.Spec.Limits[0].Threshold
	}
	g.Expect(thresholds).To(Equal(map[string]int64{"toys": 2, "books": 1}))
}
