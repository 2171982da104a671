// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package extauthz_test

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/extauthz"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// engine returns decision and err, and keeps the last check.
type engine struct {
	decision limiter.Decision
	err      error
	received *limiter.Check
}

func (e *engine) Decide(_ context.Context, check *limiter.Check) (*limiter.Decision, error) {
	e.received = check
	return &e.decision, e.err
}

// request returns a request from 192.0.2.1 as Envoy sends it.
func request(edits ...func(*authv3.AttributeContext)) *authv3.CheckRequest {
	a := &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: addressOf("192.0.2.1"), Principal: "spiffe://mesh/shop"},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "GET", Host: "shop.example", Path: "/api/items?x=1",
			Headers: map[string]string{
				":authority": "shop.example", ":path": "/api/items?x=1", ":method": "GET", "x-user": "alice",
				"connection": "close", "x-forwarded-host": "evil.example", "x-original-uri": "/else", "te": "trailers",
			},
		}},
	}
	for _, edit := range edits {
		edit(a)
	}
	return &authv3.CheckRequest{Attributes: a}
}

func addressOf(literal string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: literal}}}
}

func header(name, value string) func(*authv3.AttributeContext) {
	return func(a *authv3.AttributeContext) { a.Request.Http.Headers[name] = value }
}

func from(literal string) func(*authv3.AttributeContext) {
	return func(a *authv3.AttributeContext) { a.Source.Address = addressOf(literal) }
}

// metadata sets dynamic metadata of a filter.
func metadata(tb testing.TB, namespace string, fields map[string]any) func(*authv3.AttributeContext) {
	tb.Helper()
	values, err := structpb.NewStruct(fields)
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	return func(a *authv3.AttributeContext) {
		a.MetadataContext = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{namespace: values}}
	}
}

// checkFrom sends the request from an Envoy at the address.
func checkFrom(t *testing.T, e *engine, envoy string, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	t.Helper()
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(envoy))})
	return extauthz.New(extauthz.Options{
		Engine: e,
		Frontend: limiter.FrontendOptions{
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, PrincipalHeader: "X-User", LegacyHeaders: true,
		},
	}).Check(ctx, r)
}

func TestAttributesOfARequest(t *testing.T) {
	plain := plan.Attributes{
		Method: "GET", Host: "shop.example", Path: "/api/items?x=1", Headers: map[string]string{"x-user": "alice"},
		RemoteAddress: netip.MustParseAddr("192.0.2.1"), Principal: "alice",
	}
	with := func(edit func(*plan.Attributes)) plan.Attributes {
		a := plain
		edit(&a)
		return a
	}
	address := func(literal string) plan.Attributes {
		return with(func(a *plan.Attributes) { a.RemoteAddress = netip.MustParseAddr(literal) })
	}
	raw := func(a *authv3.AttributeContext) {
		value := func(name, value string) *corev3.HeaderValue {
			return &corev3.HeaderValue{Key: name, RawValue: []byte(value)}
		}
		a.Request.Http.Headers = nil
		a.Request.Http.HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
			value(":path", "/x"), value("X-User", "alice"), value("accept", "a"), value("accept", "\xff"),
		}}
	}
	for name, tc := range map[string]struct {
		envoy   string
		request *authv3.CheckRequest
		want    plan.Attributes
	}{
		"a trusted Envoy":              {"10.0.0.9:1", request(), plain},
		"an Envoy that is not trusted": {"203.0.113.1:1", request(), with(func(a *plan.Attributes) { a.Principal = "spiffe://mesh/shop" })},
		"a domain": {
			"10.0.0.9:1", request(func(a *authv3.AttributeContext) { a.ContextExtensions = map[string]string{"domain": "edge", "x": "y"} }),
			with(func(a *plan.Attributes) { a.Domain = "edge" }),
		},
		"a client behind proxies":         {"10.0.0.9:1", request(from("10.0.0.1"), header("x-forwarded-for", "198.51.100.7, 10.0.0.2")), address("198.51.100.7")},
		"a client with invented proxies":  {"10.0.0.9:1", request(header("x-forwarded-for", "198.51.100.7")), address("192.0.2.1")},
		"invented proxies behind a proxy": {"10.0.0.9:1", request(from("10.0.0.1"), header("x-forwarded-for", "198.51.100.7, 192.0.2.9")), address("192.0.2.9")},
		"mapped IPv4":                     {"[::ffff:10.0.0.9]:1", request(from("::ffff:192.0.2.1")), plain},
		"no IP address":                   {"10.0.0.9:1", request(from("/run/envoy.sock")), with(func(a *plan.Attributes) { a.RemoteAddress = netip.Addr{} })},
		"raw headers": {"10.0.0.9:1", request(raw), with(func(a *plan.Attributes) {
			a.Headers, a.RepeatedHeaders = map[string]string{"x-user": "alice", "accept": "a,\xff"}, []string{"accept"}
		})},
		"two principals": {"10.0.0.9:1", request(raw, func(a *authv3.AttributeContext) {
			headers := a.GetRequest().GetHttp().GetHeaderMap()
			headers.Headers = append(headers.Headers, &corev3.HeaderValue{Key: "x-user", Value: "bob"})
		}), with(func(a *plan.Attributes) {
			a.Headers = map[string]string{"x-user": "alice,bob", "accept": "a,\xff"}
			a.RepeatedHeaders, a.Principal, a.PrincipalRepeated = []string{"accept", "x-user"}, "", true
		})},
		"claims": {"10.0.0.9:1", request(metadata(t, "envoy.filters.http.jwt_authn", map[string]any{
			"jwt":    map[string]any{"sub": "42", "level": 3, "org": map[string]any{"id": 7}, "roles": []any{"a"}},
			"header": "eyJ", "second": map[string]any{},
		})), with(func(a *plan.Attributes) {
			a.Claims = map[string]map[string]string{"jwt": {"sub": "42", "level": "3", "org.id": "7"}, "second": {}}
		})},
		"metadata of another filter": {"10.0.0.9:1", request(
			metadata(t, "envoy.filters.http.lua", map[string]any{"jwt": map[string]any{"sub": "42"}, "weir.route": "HTTPRoute/shop/shop"})), plain},
		"a header that looks like claims": {
			"10.0.0.9:1", request(header("envoy.filters.http.jwt_authn", `{"jwt":{"sub":"42"}}`)),
			with(func(a *plan.Attributes) {
				a.Headers = map[string]string{"x-user": "alice", "envoy.filters.http.jwt_authn": `{"jwt":{"sub":"42"}}`}
			}),
		},
		"spaces around values": {"10.0.0.9:1", request(header("x-user", " \talice ")), plain},
		"an empty request":     {"10.0.0.9:1", &authv3.CheckRequest{}, plan.Attributes{Headers: map[string]string{}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			e := &engine{decision: limiter.Decision{Allowed: true}}
			_, err := checkFrom(t, e, tc.envoy, tc.request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(e.received).To(Equal(&limiter.Check{Cost: 1, Attributes: tc.want}))
		})
	}
}

// answer is the answer as Envoy reads it.
type answer struct {
	code    codes.Code
	status  int
	headers map[string]string
	body    string
}

func readAnswer(g *WithT, r *authv3.CheckResponse) answer {
	a := answer{code: codes.Code(r.GetStatus().GetCode()), status: 200, headers: map[string]string{}}
	options := r.GetOkResponse().GetResponseHeadersToAdd()
	if denied := r.GetDeniedResponse(); denied != nil {
		a.status, a.body = int(denied.GetStatus().GetCode()), denied.GetBody()
		options = denied.GetHeaders()
	}
	for _, o := range options {
		g.Expect(o.GetAppendAction()).To(Equal(corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD))
		a.headers[o.GetHeader().GetKey()] = o.GetHeader().GetValue()
	}
	return a
}

func TestAnswerToEachDecision(t *testing.T) {
	burst := limiter.LimitState{Policy: "shop/api", Limit: "burst", Allowed: true, Quota: 5, Window: time.Minute, Remaining: 3, ResetAfter: time.Minute}
	limits := map[string]string{
		"RateLimit": `"shop/api-burst";r=3;t=60`, "RateLimit-Policy": `"shop/api-burst";q=5;w=60`,
		"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "60",
	}
	for name, tc := range map[string]struct {
		decision limiter.Decision
		want     answer
		problem  map[string]any
	}{
		"allowed":   {limiter.Decision{Allowed: true, Limits: []limiter.LimitState{burst}}, answer{codes.OK, 200, limits, ""}, nil},
		"no policy": {limiter.Decision{Allowed: true, Reason: limiter.ReasonNoPolicy}, answer{codes.OK, 200, map[string]string{}, ""}, nil},
		"open":      {limiter.Decision{Allowed: true, Degraded: plan.FailOpen}, answer{codes.OK, 200, map[string]string{"Weir-Degraded": "open"}, ""}, nil},
		"over": {
			limiter.Decision{Reason: limiter.ReasonLimitExceeded, RetryAfter: 1500 * time.Millisecond, Denial: plan.Denial{Code: "Slow"}},
			answer{codes.ResourceExhausted, 429, map[string]string{"Retry-After": "2", "Content-Type": "application/problem+json"}, ""},
			map[string]any{"status": 429.0, "code": "Slow", "retryAfter": 2.0, "reason": "LimitExceeded"},
		},
		"over, as the policy sets": {
			limiter.Decision{Reason: limiter.ReasonLimitExceeded, Policy: "shop/api", RetryAfter: time.Second, Denial: plan.Denial{
				Status: 403, Headers: []plan.DenialHeader{{Name: "X-Why", Value: "limit"}},
				Body: plan.DenialBody{ContentType: "application/json", Template: `{"by": "{{policy}}"}`},
			}},
			answer{
				codes.PermissionDenied, 403,
				map[string]string{"Retry-After": "1", "X-Why": "limit", "Content-Type": "application/json"},
				`{"by": "shop/api"}`,
			},
			nil,
		},
		"denied": {
			limiter.Decision{Reason: limiter.ReasonDeniedByOverride},
			answer{codes.PermissionDenied, 403, map[string]string{"Content-Type": "application/problem+json"}, ""},
			map[string]any{"status": 403.0, "reason": "DeniedByOverride"},
		},
		"closed": {
			limiter.Decision{Reason: limiter.ReasonStoreUnavailable, Degraded: plan.FailClosed},
			answer{codes.Unavailable, 503, map[string]string{"Weir-Degraded": "closed", "Retry-After": "1", "Content-Type": "application/problem+json"}, ""},
			map[string]any{"status": 503.0, "reason": "StoreUnavailable"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r, err := checkFrom(t, &engine{decision: tc.decision}, "10.0.0.9:1", request())
			g.Expect(err).NotTo(HaveOccurred())
			got := readAnswer(g, r)
			if tc.problem != nil {
				var body map[string]any
				g.Expect(json.Unmarshal([]byte(got.body), &body)).To(Succeed())
				for member, value := range tc.problem {
					g.Expect(body).To(HaveKeyWithValue(member, value))
				}
				got.body = ""
			}
			g.Expect(got).To(Equal(tc.want))
		})
	}
}

func TestCheckNeedsPlans(t *testing.T) {
	_, err := checkFrom(t, &engine{err: limiter.ErrNotReady}, "10.0.0.9:1", request())
	NewWithT(t).Expect(status.Code(err)).To(Equal(codes.Unavailable))
}

func TestCanceledCheckIsReported(t *testing.T) {
	_, err := checkFrom(t, &engine{err: context.Canceled}, "10.0.0.9:1", request())
	NewWithT(t).Expect(status.Code(err)).To(Equal(codes.Canceled))
}

// Envoy may be configured to allow requests whose check fails, so an invalid request is denied
// and is not an error.
func TestInvalidRequestIsDenied(t *testing.T) {
	g := NewWithT(t)
	r, err := checkFrom(t, &engine{err: &limiter.FieldError{Field: "headers", Problem: "are invalid"}}, "10.0.0.9:1", request())
	g.Expect(err).NotTo(HaveOccurred())
	got := readAnswer(g, r)
	g.Expect([]any{got.code, got.status, got.headers["Content-Type"]}).To(Equal([]any{codes.InvalidArgument, 400, "application/problem+json"}))
	g.Expect(got.body).To(And(ContainSubstring(`"field":"headers"`), ContainSubstring(`"detail":"headers: are invalid"`)))
}

// FuzzCheck sends every request that can be decoded. Each has an answer.
func FuzzCheck(f *testing.F) {
	for _, seed := range []*authv3.CheckRequest{{}, request(), request(from("10.0.0.1"), header("x-forwarded-for", ",[::1]:8,")), request(metadata(f, "envoy.filters.http.jwt_authn", map[string]any{"jwt": map[string]any{"a": 1e300}}))} {
		wire, err := proto.Marshal(seed)
		NewWithT(f).Expect(err).NotTo(HaveOccurred())
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		g := NewWithT(t)
		r := &authv3.CheckRequest{}
		if proto.Unmarshal(wire, r) != nil {
			t.Skip()
		}
		e := &engine{decision: limiter.Decision{Allowed: true}}
		_, err := checkFrom(t, e, "10.0.0.9:1", r)
		g.Expect(err).NotTo(HaveOccurred())
		for name := range e.received.Attributes.Headers {
			g.Expect(name).NotTo(HavePrefix(":"))
		}
	})
}
