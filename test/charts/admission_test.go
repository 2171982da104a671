// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/test/testenv/kube"
)

// gatewayServer is an API server with the kinds of Envoy Gateway and the Namespaces shop, with domains, and infra.
func gatewayServer(t *testing.T) client.Client {
	t.Helper()
	api := kube.StartAPIServer(t, func(e *envtest.Environment) {
		folder := kube.GatewayCRDs(t)
		e.CRDDirectoryPaths, e.ErrorIfCRDPathMissing = []string{folder, filepath.Join(folder, "generated")}, true
	}).Client()
	for name, domains := range map[string]string{"shop": "edge, apis", "infra": "", "ops": "*"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if domains != "" {
			namespace.Annotations = map[string]string{"ratelimit.weir.dev/domains": domains}
		}
		NewWithT(t).Expect(api.Create(t.Context(), namespace)).To(Succeed())
	}
	return api
}

// admit creates the rendered ValidatingAdmissionPolicy and its binding, and waits until they are in force.
func admit(t *testing.T, api client.Client, values ...string) {
	t.Helper()
	g := NewWithT(t)
	m := render(t, "weir", append([]string{redisURL}, values...)...)
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		g.Expect(api.Create(t.Context(), m.find(t, kind+"/weir-securitypolicies"))).To(Succeed())
	}
	g.Eventually(func() error {
		return api.Create(t.Context(), securityPolicy(t, "shop", "{name: weir.gateway, type: Value, value: infra/public}"), client.DryRunAll)
	}, "30s").Should(MatchError(ContainSubstring("weir.gateway must be a Gateway of this Namespace")))
}

// securityPolicy returns a SecurityPolicy with the context extensions, in YAML.
func securityPolicy(t *testing.T, namespace, extensions string) *unstructured.Unstructured {
	t.Helper()
	policy := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(`
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: SecurityPolicy
metadata: {name: weir, namespace: `+namespace+`}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}]
  extAuth:
    grpc: {backendRefs: [{name: weir, namespace: weir-system, port: 8081}]}
    contextExtensions: [`+extensions+`]
`), &policy.Object)).To(Succeed())
	return policy
}

// Authors of a SecurityPolicy cannot name a Gateway, a route or a domain of others.
func TestSecurityPoliciesNameOnlyTheirOwn(t *testing.T) {
	api := gatewayServer(t)
	g := NewWithT(t)
	older := securityPolicy(t, "shop", "{name: domain, type: Value, value: bank}")
	older.SetName("older")
	g.Expect(api.Create(t.Context(), older)).To(Succeed())
	admit(t, api)

	const at, other = "spec.extAuth.contextExtensions[0].", "{name: x, type: Value, value: other}, "
	gateway := func(value string) string { return "{name: weir.gateway, type: Value, value: " + value + "}" }
	route := func(value string) string { return "{name: weir.route, type: Value, value: " + value + "}" }
	domain := func(value string) string { return "{name: domain, type: Value, value: '" + value + "'}" }
	reference := func(name string) string {
		return "{name: " + name + `, type: ValueRef, valueRef: {group: "", kind: ConfigMap, name: c, key: k}}`
	}
	for name, tc := range map[string]struct{ namespace, extensions, want string }{
		"no extension":                {"shop", "", ""},
		"another one by reference":    {"shop", reference("tenant"), ""},
		"its Gateway":                 {"shop", other + gateway("shop/public"), ""},
		"its listener":                {"shop", gateway("shop/public.x/https-1"), ""},
		"its route":                   {"shop", route("HTTPRoute/shop/cart/checkout"), ""},
		"a granted domain":            {"shop", domain("apis"), ""},
		"no domain":                   {"infra", domain(""), ""},
		"any domain":                  {"ops", domain("bank"), ""},
		"a Gateway of another":        {"shop", gateway("infra/public"), at + "value: weir.gateway must be a Gateway of this Namespace: shop/NAME or shop/NAME/LISTENER"},
		"the second one":              {"shop", other + gateway("infra/public"), "spec.extAuth.contextExtensions[1].value: weir.gateway must be"},
		"a longer Namespace":          {"shop", gateway("shop-2/public"), at + "value: weir.gateway must be"},
		"a Namespace within":          {"shop", gateway("x/shop/public"), at + "value: weir.gateway must be"},
		"a second line":               {"shop", gateway(`"shop/a\ninfra/public"`), at + "value: weir.gateway must be"},
		"no Gateway":                  {"shop", gateway("shop"), at + "value: weir.gateway must be"},
		"too many parts":              {"shop", gateway("shop/a/b/c"), at + "value: weir.gateway must be"},
		"a Gateway by reference":      {"shop", reference("weir.gateway"), at + "valueRef: weir.gateway must be set by value"},
		"a route of another":          {"shop", route("HTTPRoute/bank/pay"), at + "value: weir.route must be a route of this Namespace: KIND/shop/NAME or KIND/shop/NAME/RULE"},
		"a Gateway as route":          {"shop", route("Gateway/shop/public"), at + "value: weir.route must be"},
		"a route by reference":        {"shop", reference("weir.route"), at + "valueRef: weir.route must be set by value"},
		"a domain of another":         {"shop", domain("bank"), at + "value: the domain is not granted to the Namespace by its annotation ratelimit.weir.dev/domains"},
		"the list of granted domains": {"shop", domain("edge, apis"), at + "value: the domain is not granted"},
		"a domain without a grant":    {"infra", domain("edge"), at + "value: the domain is not granted"},
		"a domain by reference":       {"ops", reference("domain"), at + "valueRef: domain must be set by value"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := api.Create(t.Context(), securityPolicy(t, tc.namespace, tc.extensions), client.DryRunAll)
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}

	t.Run("an older one keeps its spec", func(t *testing.T) {
		g := NewWithT(t)
		older.SetLabels(map[string]string{"team": "shop"})
		g.Expect(api.Update(t.Context(), older)).To(Succeed())
		g.Expect(unstructured.SetNestedField(older.Object, true, "spec", "extAuth", "failOpen")).To(Succeed())
		g.Expect(api.Update(t.Context(), older)).To(MatchError(ContainSubstring("the domain is not granted")))
		unstructured.RemoveNestedField(older.Object, "spec", "extAuth", "contextExtensions")
		g.Expect(api.Update(t.Context(), older)).To(Succeed())
		g.Expect(api.Delete(t.Context(), older)).To(Succeed())
	})
}

// With tenancy Cluster every domain is granted, and Gateways still are of their Namespace.
func TestSecurityPoliciesWithTenancyCluster(t *testing.T) {
	api := gatewayServer(t)
	admit(t, api, "tenancy=Cluster")
	NewWithT(t).Expect(api.Create(t.Context(), securityPolicy(t, "infra", "{name: domain, type: Value, value: bank}"), client.DryRunAll)).To(Succeed())
}

func TestAdmissionPolicyIsOptional(t *testing.T) {
	for _, value := range []string{"gatewayAPI.enabled=false", "gatewayAPI.admissionPolicy=false"} {
		for _, object := range render(t, "weir", redisURL, value) {
			NewWithT(t).Expect(object.GetKind()).NotTo(HavePrefix("ValidatingAdmissionPolicy"), value)
		}
	}
}
