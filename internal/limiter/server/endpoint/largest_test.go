// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// envoyHeaderBytes is the most that Envoy accepts of headers by default, with the path.
const envoyHeaderBytes = 60 << 10

// Envoy admits a request if the call fails, so the largest message that it sends must be decided.
func TestLargestMessagesOfEnvoyAreDecided(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(t, nil, loginPlan())
	long := strings.Repeat("a", envoyHeaderBytes)

	limits := &ratelimitv3.RateLimitRequest{Domain: "edge"}
	for range 64 {
		limits.Descriptors = append(limits.Descriptors, &commonv3.RateLimitDescriptor{Entries: []*commonv3.RateLimitDescriptor_Entry{
			{Key: "path", Value: "/login"}, {Key: "user", Value: "alice"}, {Key: "header", Value: long},
		}})
	}
	g.Expect(proto.Size(limits)).To(BeNumerically(">", 3800<<10))
	var decisions []ratelimitv3.RateLimitResponse_Code
	for range 4 {
		response, err := ratelimitv3.NewRateLimitServiceClient(f.conn).ShouldRateLimit(t.Context(), limits)
		g.Expect(err).NotTo(HaveOccurred())
		decisions = append(decisions, response.GetOverallCode())
	}
	const ok, over = ratelimitv3.RateLimitResponse_OK, ratelimitv3.RateLimitResponse_OVER_LIMIT
	g.Expect(decisions).To(Equal([]ratelimitv3.RateLimitResponse_Code{ok, ok, ok, over}))

	path := "/login?" + long[:envoyHeaderBytes/2]
	check := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: "192.0.2.1"},
		}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "POST", Host: "shop.example", Path: path,
			Headers: map[string]string{"x-user": "bob", ":path": path, "x-long": long[:envoyHeaderBytes/2]},
		}},
	}}
	var allowed []bool
	for range 4 {
		response, err := authv3.NewAuthorizationClient(f.conn).Check(t.Context(), check)
		g.Expect(err).NotTo(HaveOccurred())
		allowed = append(allowed, codes.Code(response.GetStatus().GetCode()) == codes.OK)
	}
	g.Expect(allowed).To(Equal([]bool{true, true, true, false}))
}
