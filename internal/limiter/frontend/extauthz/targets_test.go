// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package extauthz_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/extauthz"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// metadataOf returns metadata with the resources in the namespace.
func metadataOf(t *testing.T, namespace, resources string) *corev3.Metadata {
	t.Helper()
	m := &corev3.Metadata{}
	NewWithT(t).Expect(protojson.Unmarshal([]byte(`{"filterMetadata": {"`+namespace+`": {"resources": `+resources+`}}}`), m)).To(Succeed())
	return m
}

func TestTargetsOfARequest(t *testing.T) {
	const checkout = `{"kind": "HTTPRoute", "namespace": "shop", "name": "shop", "sectionName": "checkout"}`
	route := func(namespace, resources string) func(*authv3.AttributeContext) {
		return func(a *authv3.AttributeContext) { a.RouteMetadataContext = metadataOf(t, namespace, resources) }
	}
	extension := func(name, value string) func(*authv3.AttributeContext) {
		return func(a *authv3.AttributeContext) {
			if a.ContextExtensions == nil {
				a.ContextExtensions = map[string]string{}
			}
			a.ContextExtensions[name] = value
		}
	}
	type edits []func(*authv3.AttributeContext)
	for name, tc := range map[string]struct {
		edits edits
		trust bool
		want  []plan.Target
	}{
		"nothing":                {edits{}, true, nil},
		"a route":                {edits{route("envoy-gateway", `[{"kind": "GRPCRoute", "namespace": "shop", "name": "orders"}]`)}, false, []plan.Target{"GRPCRoute/shop/orders"}},
		"a named rule":           {edits{route("envoy-gateway", `[`+checkout+`]`)}, false, []plan.Target{"HTTPRoute/shop/shop/checkout"}},
		"several resources":      {edits{route("envoy-gateway", `[{"kind": "TCPRoute", "namespace": "a", "name": "b"}, `+checkout+`, 7, null, {}]`)}, false, []plan.Target{"HTTPRoute/shop/shop/checkout"}},
		"names of another form":  {edits{route("envoy-gateway", `[{"kind": "HTTPRoute", "namespace": "shop", "name": "a/b"}, {"kind": "HTTPRoute/x", "namespace": "shop", "name": "a"}]`)}, false, nil},
		"another namespace":      {edits{route("other", `[`+checkout+`]`)}, true, nil},
		"no list":                {edits{route("envoy-gateway", checkout)}, true, nil},
		"metadata of filters":    {edits{func(a *authv3.AttributeContext) { a.MetadataContext = metadataOf(t, "envoy-gateway", `[`+checkout+`]`) }}, true, nil},
		"headers":                {edits{header("weir.gateway", "infra/public"), header("weir.route", "HTTPRoute/shop/shop")}, true, nil},
		"a Gateway":              {edits{extension("weir.gateway", "infra/public")}, false, []plan.Target{"Gateway/infra/public"}},
		"a listener":             {edits{extension("weir.gateway", "infra/public/https")}, false, []plan.Target{"Gateway/infra/public/https"}},
		"an extension's route":   {edits{extension("weir.route", "HTTPRoute/shop/shop/checkout")}, true, []plan.Target{"HTTPRoute/shop/shop/checkout"}},
		"one that has no trust":  {edits{extension("weir.route", "HTTPRoute/shop/shop")}, false, nil},
		"both, by an extension":  {edits{extension("weir.route", "HTTPRoute/shop/shop"), extension("weir.gateway", "infra/public")}, true, []plan.Target{"HTTPRoute/shop/shop", "Gateway/infra/public"}},
		"metadata and extension": {edits{route("envoy-gateway", `[`+checkout+`]`), extension("weir.route", "HTTPRoute/bank/pay")}, true, []plan.Target{"HTTPRoute/shop/shop/checkout"}},
		"empty metadata and extension": {
			edits{route("envoy-gateway", `[]`), extension("weir.route", "HTTPRoute/bank/pay")}, true, nil,
		},
		"a hundred resources": {
			edits{route("envoy-gateway", `[`+strings.Repeat(checkout+`, `, 99)+checkout+`]`), extension("weir.gateway", "infra/public")},
			false,
			append(repeated("HTTPRoute/shop/shop/checkout", plan.MaxTargets-1), "Gateway/infra/public"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			e := &engine{decision: limiter.Decision{Allowed: true}}
			_, err := extauthz.New(extauthz.Options{Engine: e, Frontend: limiter.FrontendOptions{TrustRouteExtensions: tc.trust}}).Check(t.Context(), request(tc.edits...))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(e.received.Attributes.Targets).To(Equal(tc.want))
		})
	}
}

func repeated(target plan.Target, n int) (all []plan.Target) {
	for range n {
		all = append(all, target)
	}
	return all
}

// Without the target no policy of the route would apply, so a wrong extension must be noticed.
func TestInvalidExtensionsAreRejected(t *testing.T) {
	for name, value := range map[string]string{
		"weir.gateway": "public",
		"weir.route":   "shop/shop",
	} {
		g := NewWithT(t)
		e := &engine{}
		r := request(func(a *authv3.AttributeContext) { a.ContextExtensions = map[string]string{name: value} })
		response, err := extauthz.New(extauthz.Options{Engine: e, Frontend: limiter.FrontendOptions{TrustRouteExtensions: true}}).Check(t.Context(), r)
		g.Expect(err).NotTo(HaveOccurred())
		a := readAnswer(g, response)
		g.Expect(a.status).To(Equal(http.StatusBadRequest))
		g.Expect(a.body).To(ContainSubstring(fmt.Sprintf(`"field":"context_extensions[\"%s\"]"`, name)))
		g.Expect(e.received).To(BeNil(), "the engine must not be called")
	}
}
