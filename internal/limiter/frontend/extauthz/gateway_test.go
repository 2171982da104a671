// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package extauthz_test

import (
	"net/netip"
	"os"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The file is a check of Envoy 1.40 behind Envoy Gateway 1.9.1, for the rule checkout of the HTTPRoute
// shop/named with the annotation gateway.envoyproxy.io/foo, by a SecurityPolicy of the Gateway with
// includeRouteMetadata and contextExtensions.
func TestCheckOfEnvoyGateway(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile("testdata/envoy-gateway.json")
	g.Expect(err).NotTo(HaveOccurred())
	r := &authv3.CheckRequest{}
	g.Expect(protojson.Unmarshal(text, r)).To(Succeed())
	metadata := r.GetAttributes().GetRouteMetadataContext().GetFilterMetadata()["envoy-gateway"]
	g.Expect(metadata.AsMap()).To(Equal(map[string]any{"resources": []any{map[string]any{
		"kind": "HTTPRoute", "namespace": "shop", "name": "named", "sectionName": "checkout", "annotations": map[string]any{"foo": "bar"},
	}}}))

	e := &engine{}
	_, err = checkFrom(t, e, "10.244.0.32:1", r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(e.received.Attributes).To(Equal(plan.Attributes{
		Targets: []plan.Target{"HTTPRoute/shop/named/checkout", "Gateway/shop/shop"},
		Method:  "GET", Host: "named.example", Path: "/checkout",
		RemoteAddress: netip.MustParseAddr("10.244.0.29"),
		Headers: map[string]string{
			"accept-encoding": "gzip", "user-agent": "Go-http-client/1.1", "x-envoy-external-address": "10.244.0.29",
			"x-forwarded-proto": "http", "x-request-id": "49b687bd-8050-4978-bdbb-7fcf7b515c6b",
		},
	}))
}
