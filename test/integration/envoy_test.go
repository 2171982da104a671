// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	ratelimitfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"
)

// blocks returns the YAML documents of the page, in order.
func blocks(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/integrations", page))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var all []string
	for _, found := range regexp.MustCompile("(?s)```yaml\n(.*?)\n```").FindAllSubmatch(text, -1) {
		all = append(all, strings.Split(string(found[1]), "\n---\n")...)
	}
	return all
}

// read parses a configuration and validates it by Envoy's schema and rules.
func read[M interface {
	proto.Message
	ValidateAll() error
}](g *WithT, text string, m M) M {
	json, err := yaml.YAMLToJSON([]byte(text))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(protojson.Unmarshal(json, m)).To(Succeed(), text)
	g.Expect(m.ValidateAll()).To(Succeed())
	return m
}

// unpack unpacks a typed configuration and validates it by Envoy's rules.
func unpack[M interface {
	proto.Message
	ValidateAll() error
}](g *WithT, config *anypb.Any, m M) M {
	g.Expect(config.UnmarshalTo(m)).To(Succeed())
	g.Expect(m.ValidateAll()).To(Succeed())
	return m
}

// envoy is the parsed bootstrap configuration of a page.
type envoy struct {
	routes *routev3.VirtualHost
	filter *anypb.Any // the first one, which calls Weir
	weir   *corev3.SocketAddress
}

func readBootstrap(g *WithT, text string) *envoy {
	b := read(g, text, &bootstrapv3.Bootstrap{}).GetStaticResources()
	chain := b.GetListeners()[0].GetFilterChains()[0].GetFilters()[0]
	hcm := unpack(g, chain.GetTypedConfig(), &hcmv3.HttpConnectionManager{})
	cluster := b.GetClusters()[0]
	g.Expect(cluster.GetName()).To(Equal("weir"))
	for _, options := range cluster.GetTypedExtensionProtocolOptions() {
		_, err := options.UnmarshalNew() // it must set HTTP/2
		g.Expect(err).NotTo(HaveOccurred())
	}
	endpoint := cluster.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint()
	return &envoy{
		routes: hcm.GetRouteConfig().GetVirtualHosts()[0],
		filter: hcm.GetHttpFilters()[0].GetTypedConfig(),
		weir:   endpoint.GetAddress().GetSocketAddress(),
	}
}

// descriptorsOf returns the descriptors of a request like the filter: each rate limit
// gives one with an entry per action, or none if an action has no entry.
func descriptorsOf(limits []*routev3.RateLimit, client string, headers map[string]string) (all []*commonv3.RateLimitDescriptor) {
	for _, limit := range limits {
		d := &commonv3.RateLimitDescriptor{}
		complete := true
		add := func(key, value string) {
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		for _, action := range limit.GetActions() {
			switch {
			case action.GetRemoteAddress() != nil:
				add("remote_address", client)
			case action.GetGenericKey() != nil:
				add("generic_key", action.GetGenericKey().GetDescriptorValue())
			case action.GetRequestHeaders() != nil:
				h := action.GetRequestHeaders()
				if value, given := headers[h.GetHeaderName()]; given {
					add(h.GetDescriptorKey(), value)
				} else if !h.GetSkipIfAbsent() {
					complete = false
				}
			}
		}
		if complete {
			all = append(all, d)
		}
	}
	return all
}

func dial(t *testing.T, w *world) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(w.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestEnvoyRateLimit(t *testing.T) {
	g := NewWithT(t)
	pages := blocks(t, "envoy.md")
	e := readBootstrap(g, pages[2])
	g.Expect(e.weir.GetPortValue()).To(BeEquivalentTo(8081))
	filter := unpack(g, e.filter, &ratelimitfilterv3.RateLimit{})
	limits := e.routes.GetRoutes()[0].GetRoute().GetRateLimits()

	w := newWorld(t, pages[3])
	client := ratelimitv3.NewRateLimitServiceClient(dial(t, w))
	ask := func(from string, headers map[string]string) *ratelimitv3.RateLimitResponse {
		response, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{
			Domain: filter.GetDomain(), Descriptors: descriptorsOf(limits, from, headers),
		})
		g.Expect(err).NotTo(HaveOccurred())
		return response
	}
	const ok, over = ratelimitv3.RateLimitResponse_OK, ratelimitv3.RateLimitResponse_OVER_LIMIT
	for range 3 {
		g.Expect(ask("192.0.2.1", nil).GetOverallCode()).To(Equal(ok))
	}
	denied := ask("192.0.2.1", map[string]string{"x-user-id": "alice"})
	g.Expect(denied.GetOverallCode()).To(Equal(over))
	g.Expect(denied.GetStatuses()).To(HaveLen(2))
	g.Expect(denied.GetStatuses()[1].GetCode()).To(Equal(ok))
	g.Expect(denied.GetStatuses()[1].GetCurrentLimit().GetName()).To(Equal("shop/edge-writes-minute"), "of config/samples")
	g.Expect(denied.GetStatuses()[1].GetLimitRemaining()).To(BeEquivalentTo(300), "unspent")
	g.Expect(string(denied.GetRawBody())).To(ContainSubstring(`"policy":"shop/edge-clients"`))
	internal := ask("192.0.2.2", map[string]string{"x-user-id": "alice", "x-plan": "internal"})
	g.Expect(internal.GetStatuses()[1].GetCurrentLimit()).To(BeNil(), "its expression exempts that plan")
}

func TestEnvoyExtAuthz(t *testing.T) {
	g := NewWithT(t)
	pages := blocks(t, "envoy.md")
	e := readBootstrap(g, pages[0])
	g.Expect(e.weir.GetPortValue()).To(BeEquivalentTo(8081))
	filter := unpack(g, e.filter, &extauthzv3.ExtAuthz{})
	g.Expect(filter.GetGrpcService().GetEnvoyGrpc().GetClusterName()).To(Equal("weir"))
	const name = "envoy.filters.http.ext_authz"
	settings := unpack(g, e.routes.GetTypedPerFilterConfig()[name], &extauthzv3.ExtAuthzPerRoute{})
	probe := unpack(g, e.routes.GetRoutes()[0].GetTypedPerFilterConfig()[name], &extauthzv3.ExtAuthzPerRoute{})
	g.Expect(probe.GetDisabled()).To(BeTrue())

	w := newWorld(t, pages[1])
	client := authv3.NewAuthorizationClient(dial(t, w))
	ask := func(from string) *authv3.CheckResponse {
		response, err := client.Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
				SocketAddress: &corev3.SocketAddress{Address: from},
			}}},
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
				Method: "GET", Host: "shop.example", Path: "/cart?page=2",
				Headers: map[string]string{":path": "/cart?page=2", "x-forwarded-for": "203.0.113.9," + from},
			}},
			ContextExtensions: settings.GetCheckSettings().GetContextExtensions(),
		}})
		g.Expect(err).NotTo(HaveOccurred())
		return response
	}
	for range 3 {
		g.Expect(ask("192.0.2.1").GetOkResponse()).NotTo(BeNil())
	}
	denied := ask("192.0.2.1").GetDeniedResponse()
	g.Expect(denied.GetStatus().GetCode()).To(BeEquivalentTo(429))
	g.Expect(denied.GetBody()).To(ContainSubstring(`"policy":"shop/shop-clients"`))
	g.Expect(ask("192.0.2.2").GetOkResponse()).NotTo(BeNil(), "another client")
}

func TestEnvoyTransportSocket(t *testing.T) {
	g := NewWithT(t)
	inner := struct {
		TransportSocket map[string]any `json:"transport_socket"`
	}{}
	g.Expect(yaml.UnmarshalStrict([]byte(blocks(t, "envoy.md")[4]), &inner)).To(Succeed())
	text, err := yaml.Marshal(inner.TransportSocket)
	g.Expect(err).NotTo(HaveOccurred())
	socket := read(g, string(text), &corev3.TransportSocket{})
	tls, err := socket.GetTypedConfig().UnmarshalNew()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(tls.(interface{ ValidateAll() error }).ValidateAll()).To(Succeed())
}

// The patches that Istio passes to Envoy unchanged.
func TestIstioPatches(t *testing.T) {
	g := NewWithT(t)
	var kinds []string
	for _, text := range blocks(t, "istio.md") {
		var filter struct {
			Kind string `json:"kind"`
			Spec struct {
				ConfigPatches []struct {
					ApplyTo string `json:"applyTo"`
					Patch   struct {
						Value map[string]any `json:"value"`
					} `json:"patch"`
				} `json:"configPatches"`
			} `json:"spec"`
		}
		g.Expect(yaml.Unmarshal([]byte(text), &filter)).To(Succeed())
		if filter.Kind != "EnvoyFilter" {
			continue
		}
		for _, p := range filter.Spec.ConfigPatches {
			kinds = append(kinds, p.ApplyTo)
			value, err := yaml.Marshal(p.Patch.Value)
			g.Expect(err).NotTo(HaveOccurred())
			switch p.ApplyTo {
			case "HTTP_FILTER":
				f := read(g, string(value), &hcmv3.HttpFilter{})
				g.Expect(unpack(g, f.GetTypedConfig(), &ratelimitfilterv3.RateLimit{}).GetDomain()).To(Equal("edge"))
			case "VIRTUAL_HOST": // a partial one: it is merged into the generated one
				p.Patch.Value["name"], p.Patch.Value["domains"] = "merged", []string{"*"}
				value, err = yaml.Marshal(p.Patch.Value)
				g.Expect(err).NotTo(HaveOccurred())
				limits := read(g, string(value), &routev3.VirtualHost{}).GetRateLimits()
				g.Expect(descriptorsOf(limits, "192.0.2.1", map[string]string{"x-user-id": "alice"})).To(HaveLen(2))
			}
		}
	}
	g.Expect(kinds).To(Equal([]string{"HTTP_FILTER", "VIRTUAL_HOST"}))
}

// All addresses on these pages are the Service's.
func TestEnvoyPagesNameTheService(t *testing.T) {
	g := NewWithT(t)
	for _, page := range []string{"envoy.md", "istio.md", "envoy-gateway.md"} {
		all := strings.Join(blocks(t, page), "\n")
		g.Expect(all).To(ContainSubstring("weir-system"), page)
		g.Expect(all).To(MatchRegexp(`(port|port_value): 8081\b`), page)
	}
}
