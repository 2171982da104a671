// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
)

// readingPlans are policies that read everything that a client chooses.
func readingPlans() []*plan.Plan {
	when := func(p *plan.Plan) {
		p.Namespace, p.Name = "shop", "expressions"
		p.Matches = []plan.Match{
			{Hosts: []string{"*.example"}, When: `request.headers.exists(n, request.headers[n].contains("a")) || request.path.matches("^/(a|b)+$")`},
			{Domain: "edge", When: `descriptor.exists(k, descriptor[k] != "")`},
		}
		p.Overrides = []plan.Override{
			{Name: "agent", When: `request.headers["user-agent"] == "evilbot"`, Action: plan.ActionDeny},
			{Name: "local", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Action: plan.ActionAllow},
		}
		p.Key = append(p.Key, plan.KeyPart{Type: plan.KeyHeader, Header: "x-user"}, plan.KeyPart{Type: plan.KeyPrincipal}, plan.KeyPart{Type: plan.KeyRemoteAddress})
	}
	closed := func(p *plan.Plan) {
		p.Name, p.FailureMode, p.OnMissingKey = "closed", plan.FailClosed, plan.MissingKeyDeny
	}
	values := func(p *plan.Plan) {
		p.Name, p.FailureMode = "values", plan.FailClosed
		p.Matches = []plan.Match{
			{Headers: []plan.Entry{{Key: "x-user"}, {Key: "accept", Value: "text/html, */*"}}},
			{QueryParameters: []plan.Entry{{Key: "x", Value: "1"}}, When: `claims.exists(p, claims[p].a != "") || request.query != {}`},
		}
		p.Key = []plan.KeyPart{
			{Type: plan.KeyCookie, Cookie: "id"},
			{Type: plan.KeyQueryParameter, QueryParameter: "x"},
			{Type: plan.KeyClaim, Claim: &plan.Claim{Payload: "jwt", Name: "a.b"}},
			{Type: plan.KeyExpression, Expression: `request.cookies["id"] + request.query.y`},
		}
	}
	return []*plan.Plan{loginPlan(), loginPlan(when), loginPlan(closed), loginPlan(values)}
}

// problemOfHTTP sends the bytes of one request, and returns what is wrong with the response, or "". A client can
// cause neither a 5xx, nor a decision by a failure mode, nor a connection that is closed without a response.
// An incomplete request, for whose rest a server waits, is not sent.
func problemOfHTTP(address string, wire []byte) string {
	sent, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(wire)))
	if err != nil || sent.Method == "PRI" { // HTTP/2
		return ""
	}
	if _, err := io.Copy(io.Discard, sent.Body); err != nil {
		return ""
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := conn.Write(wire); err != nil {
		return err.Error()
	}
	for answers := bufio.NewReader(conn); ; {
		response, err := http.ReadResponse(answers, sent)
		if err != nil {
			return err.Error()
		}
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		switch {
		case err != nil:
			return err.Error()
		case response.StatusCode < http.StatusOK: // another one follows
			continue
		case response.StatusCode >= http.StatusInternalServerError:
			return response.Status
		case response.Header.Get("Weir-Degraded") != "":
			return "degraded"
		}
		return ""
	}
}

// FuzzHTTPFrontend sends any complete request to the HTTP port.
func FuzzHTTPFrontend(f *testing.F) {
	post := func(body string) string {
		return fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	for _, seed := range []string{
		post(`{"attributes":{"method":"POST","host":"shop.example","path":"/login","headers":{"X-User":"alice"},"remoteAddress":"192.0.2.1"}}`),
		post(`{"attributes":{"domain":"edge","descriptors":[{"entries":[{"key":"path","value":"/login"},{"key":"user","value":"a"}]}]}}`),
		post(`{"attributes":{"path":"/login?x=1;y=%zz&x[]=a+b#c","headers":{"X-User":["a","b,c"],"accept":"*/*, text/html","cookie":"id=\"1\"; ID=2, a b"},"claims":{"jwt":{"a":{"b":1},"a.b":"c"}}}}`),
		"GET /v1/authorize/login?x=1&%78=2;y HTTP/1.1\r\nHost: a\r\nCookie: id=1\r\nCookie: id=2\r\nX-User: a\r\nAccept: text/html,*/*\r\n\r\n",
		post(`{"policies":["shop/login"],"key":"alice","cost":3}`), post(`{"policies":["shop/none"]}`), post(`[`), post("\xff"),
		"GET /v1/authorize HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: POST\r\nX-Forwarded-Host: shop.example\r\nX-Forwarded-Uri: /login\r\nX-User: a\r\n\r\n",
		"GET /v1/authorize?deny=403&policy=shop/login HTTP/1.1\r\nHost: a\r\nX-Original-URI: /\xff\r\nX-User: a\r\nX-User: b\r\n\r\n",
		"GET /v1/authorize/a%2Fb HTTP/1.0\r\nX-Forwarded-For: 1.2.3.4, ::1, x\r\nForwarded: for=\"[::1]:1\"\r\n\r\n",
		"POST /v1/check HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nA: b\r\n\r\n",
		"POST /v1/reserve HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
		"POST /v1/state HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\nContent-Length: 2\r\n\r\n{}",
		"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
		"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "GET http://a/v1/policies HTTP/1.1\r\nHost: b\r\nTraceparent: 00-x\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/9.9\r\nHost: a\r\n\r\n",
		post(`{"attributes":{"host":"shop.example","headers":{"user-agent":"` + strings.Repeat("e", 9000) + `"}}}`),
	} {
		f.Add([]byte(seed))
	}
	server := newFixture(f, inMemory, readingPlans()...)
	f.Fuzz(func(t *testing.T, wire []byte) {
		NewWithT(t).Expect(problemOfHTTP(server.HTTP.Addr(), wire)).To(BeEmpty())
	})
}

// inMemory lets decisions be made without Redis, whose answers a busy machine can delay.
func inMemory(o *endpoint.Options) { o.Redis, o.LocalKeys = nil, 1_000_000 }

// problemOfCall returns what is wrong with the answer of a gRPC frontend, or "". Only a caller that sends other
// bytes than the message, or a proxy with a wrong configuration, gets an error.
func problemOfCall(valid bool, err error, headers []*corev3.HeaderValue, httpStatus int32) string {
	switch code := status.Code(err); {
	case !valid && code == codes.Internal && !strings.Contains(err.Error(), "UTF-8"): // Envoy sends invalid UTF-8
		return ""
	case code != codes.OK && code != codes.InvalidArgument:
		return err.Error()
	case httpStatus >= http.StatusInternalServerError:
		return fmt.Sprint("status ", httpStatus)
	}
	for _, h := range headers {
		if strings.EqualFold(h.GetKey(), "Weir-Degraded") {
			return "degraded"
		}
	}
	return ""
}

// FuzzGRPCFrontends sends any bytes to both gRPC frontends.
func FuzzGRPCFrontends(f *testing.F) {
	long := strings.Repeat("e", 9000)
	for _, seed := range []proto.Message{
		&ratelimitv3.RateLimitRequest{Domain: "edge", HitsAddend: 2, Descriptors: []*commonv3.RateLimitDescriptor{
			{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "path", Value: "/login"}, {Key: "user", Value: "a"}, {Key: "header", Value: long}}},
		}},
		&ratelimitv3.RateLimitRequest{},
		&authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
				Path: "/login?x=1;y=%zz&x[]=a+b#c", Headers: map[string]string{"x-user": "a", "accept": "*/*, text/html", "cookie": `id="1"; ID=2, a b`},
			}},
			MetadataContext: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.filters.http.jwt_authn": {Fields: map[string]*structpb.Value{
				"jwt": structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a.b": structpb.NewNumberValue(1e300), "n": nil}}),
			}}}},
		}},
		&authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "POST", Host: "shop.example", Path: "/login?x=1", Headers: map[string]string{"x-user": "a", "user-agent": long},
		}}}},
	} {
		wire, err := proto.Marshal(seed)
		NewWithT(f).Expect(err).NotTo(HaveOccurred())
		f.Add(wire)
	}
	f.Add([]byte{0xff})
	server := newFixture(f, inMemory, readingPlans()...)
	f.Fuzz(func(t *testing.T, wire []byte) {
		g := NewWithT(t)
		limited := &ratelimitv3.RateLimitResponse{}
		err := server.conn.Invoke(t.Context(), ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, wire, limited, grpc.ForceCodec(rawCodec{}))
		g.Expect(problemOfCall(isMessage(wire, &ratelimitv3.RateLimitRequest{}), err, limited.GetResponseHeadersToAdd(), 0)).To(BeEmpty())

		authorized := &authv3.CheckResponse{}
		err = server.conn.Invoke(t.Context(), authv3.Authorization_Check_FullMethodName, wire, authorized, grpc.ForceCodec(rawCodec{}))
		var headers []*corev3.HeaderValue
		for _, o := range append(authorized.GetOkResponse().GetResponseHeadersToAdd(), authorized.GetDeniedResponse().GetHeaders()...) {
			headers = append(headers, o.GetHeader())
		}
		denied := int32(authorized.GetDeniedResponse().GetStatus().GetCode())
		g.Expect(problemOfCall(isMessage(wire, &authv3.CheckRequest{}), err, headers, denied)).To(BeEmpty())
	})
}

// isMessage reports whether the bytes are the message.
func isMessage(wire []byte, message proto.Message) bool { return proto.Unmarshal(wire, message) == nil }

// Without this, the fuzz tests could pass because they find nothing: Redis is stopped.
func TestProblemsOfFrontendsAreFound(t *testing.T) {
	g := NewWithT(t)
	closed := loginPlan(func(p *plan.Plan) { p.FailureMode = plan.FailClosed })
	for name, p := range map[string]*plan.Plan{"503": closed, "degraded": loginPlan()} {
		s := newFixture(t, func(o *endpoint.Options) { o.Registry = prometheus.NewRegistry() }, p)
		s.redis.Stop()
		g.Expect(problemOfHTTP(s.HTTP.Addr(), []byte("GET /v1/authorize HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: POST\r\n"+
			"X-Forwarded-Host: shop.example\r\nX-Forwarded-Uri: /login\r\nX-User: a\r\n\r\n"))).To(ContainSubstring(name))
		limited, err := ratelimitv3.NewRateLimitServiceClient(s.conn).ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{
			Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{
				{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "path", Value: "/login"}, {Key: "user", Value: "a"}}},
			},
		})
		g.Expect(problemOfCall(true, err, limited.GetResponseHeadersToAdd(), 0)).To(Equal("degraded"))
	}
	g.Expect(problemOfCall(true, status.Error(codes.Unavailable, "x"), nil, 0)).NotTo(BeEmpty())
}
