// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
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
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/test/clock"
	"github.com/weir-dev/weir/test/testenv"
)

// frontendAnswer is the part of an answer that all frontends share. The status code is not part of it,
// because the rate limit protocol has one code for all denials.
type frontendAnswer struct {
	Allowed bool
	Headers map[string]string
	Body    decision // of a denial
}

// decision is the decision in a body.
type decision struct {
	Code, Reason, Policy, Limit, Detail string
	RetryAfter                          int64
	Limits                              []struct {
		Policy, Limit                               string
		Used, Remaining, RetryAfterMs, ResetAfterMs int64
	}
}

// compared are the headers that all frontends must set to the same values.
var compared = []string{"RateLimit", "RateLimit-Policy", "Retry-After", "Weir-Degraded", "X-RateLimit-Limit", "X-RateLimit-Remaining"}

// fixture is an endpoint with four frontends on a Redis whose clock the test sets.
type fixture struct {
	*endpoint.Server
	t     testing.TB
	redis *testenv.Redis
	clock *clock.Clock
	conn  *grpc.ClientConn
	// parent is the span of the callers, or empty.
	parent string
	// longer is appended to the path of all requests.
	longer    string
	frontends map[string]func(g *WithT, user string) frontendAnswer
}

func newFixture(tb testing.TB, edit func(*endpoint.Options), plans ...*plan.Plan) *fixture {
	tb.Helper()
	g := NewWithT(tb)
	server, clock := testenv.StartRedisWithClock(tb)
	client, err := redisclient.New(server.URL, time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	tb.Cleanup(func() { _ = client.Close() })
	options := endpoint.Options{
		Redis: client, RedisPrefix: "weir:", HTTPAddress: "127.0.0.1:0", GRPCAddress: "127.0.0.1:0",
		Frontend: limiter.FrontendOptions{
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, PrincipalHeader: "x-user", LegacyHeaders: true,
		},
		StoreTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		Now: clock.Now,
	}
	if edit != nil {
		edit(&options)
	}
	f := &fixture{t: tb, redis: server, clock: clock, Server: endpoint.New(options)}
	f.Use(index.NewSnapshot(1, plans))
	ctx, stop := context.WithCancel(tb.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	g.Eventually(f.HTTP.Addr).ShouldNot(BeEmpty())
	g.Eventually(f.GRPC.Addr).ShouldNot(BeEmpty())
	f.conn, err = grpc.NewClient(f.GRPC.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	g.Expect(err).NotTo(HaveOccurred())
	tb.Cleanup(func() {
		_ = f.conn.Close()
		stop()
		NewWithT(tb).Eventually(ended, "30s").Should(Receive(BeNil()))
	})
	f.frontends = map[string]func(*WithT, string) frontendAnswer{
		"check": f.check, "authorize": f.authorize, "ext_authz": f.extAuthz, "ratelimit": f.rateLimit,
	}
	return f
}

// context returns the context of a gRPC caller in the span parent.
func (f *fixture) context() context.Context {
	if f.parent == "" {
		return f.t.Context()
	}
	return metadata.AppendToOutgoingContext(f.t.Context(), "traceparent", f.parent)
}

func (f *fixture) send(g *WithT, r *http.Request) frontendAnswer {
	if f.parent != "" {
		r.Header.Set("Traceparent", f.parent)
	}
	response, err := http.DefaultClient.Do(r)
	g.Expect(err).NotTo(HaveOccurred())
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.Body.Close()).To(Succeed())
	headers := map[string]string{}
	for name, values := range response.Header {
		headers[name] = values[0]
	}
	return newFrontendAnswer(g, response.StatusCode == http.StatusOK, headers, body)
}

// newFrontendAnswer keeps the compared headers. Their case depends on the transport.
func newFrontendAnswer(g *WithT, allowed bool, headers map[string]string, body []byte) frontendAnswer {
	s := frontendAnswer{Allowed: allowed, Headers: map[string]string{}}
	for name, value := range headers {
		if i := slices.IndexFunc(compared, func(c string) bool { return strings.EqualFold(c, name) }); i >= 0 {
			s.Headers[compared[i]] = value
		}
	}
	if !allowed {
		g.Expect(json.Unmarshal(body, &s.Body)).To(Succeed())
	}
	return s
}

func (f *fixture) check(g *WithT, user string) frontendAnswer {
	body := fmt.Sprintf(`{"attributes":{"method":"POST","host":"Shop.Example:443","path":"/a/../login%s?x=1",
		"headers":{"X-User":%q},"principal":%[2]q,"remoteAddress":"192.0.2.1"}}`, f.longer, user)
	r, err := http.NewRequest(http.MethodPost, "http://"+f.HTTP.Addr()+"/v1/check", strings.NewReader(body))
	g.Expect(err).NotTo(HaveOccurred())
	return f.send(g, r)
}

func (f *fixture) authorize(g *WithT, user string) frontendAnswer {
	r, err := http.NewRequest(http.MethodGet, "http://"+f.HTTP.Addr()+"/v1/authorize", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	for name, value := range map[string]string{
		"X-Forwarded-Method": "POST", "X-Forwarded-Host": "Shop.Example:443", "X-Forwarded-Uri": "/a/../login" + f.longer + "?x=1",
		"X-Forwarded-For": "192.0.2.1", "X-User": user,
	} {
		r.Header.Set(name, value)
	}
	return f.send(g, r)
}

func (f *fixture) extAuthz(g *WithT, user string) frontendAnswer {
	address := &corev3.SocketAddress{Address: "192.0.2.1"}
	response, err := authv3.NewAuthorizationClient(f.conn).Check(f.context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: address}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "POST", Host: "Shop.Example:443", Path: "/a/../login" + f.longer + "?x=1", Headers: map[string]string{"x-user": user},
		}},
	}})
	g.Expect(err).NotTo(HaveOccurred())
	headers := map[string]string{}
	for _, o := range append(response.GetOkResponse().GetResponseHeadersToAdd(), response.GetDeniedResponse().GetHeaders()...) {
		headers[o.GetHeader().GetKey()] = o.GetHeader().GetValue()
	}
	allowed := codes.Code(response.GetStatus().GetCode()) == codes.OK
	return newFrontendAnswer(g, allowed, headers, []byte(response.GetDeniedResponse().GetBody()))
}

func (f *fixture) rateLimit(g *WithT, user string) frontendAnswer {
	response, err := ratelimitv3.NewRateLimitServiceClient(f.conn).ShouldRateLimit(f.context(), &ratelimitv3.RateLimitRequest{
		Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{
			{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "path", Value: "/login" + f.longer}, {Key: "user", Value: user}}},
		},
	})
	g.Expect(err).NotTo(HaveOccurred())
	headers := map[string]string{}
	for _, o := range response.GetResponseHeadersToAdd() {
		headers[o.GetKey()] = o.GetValue()
	}
	allowed := response.GetOverallCode() == ratelimitv3.RateLimitResponse_OK
	g.Expect(response.GetStatuses()[0].GetCode()).To(Equal(response.GetOverallCode()))
	g.Expect(bytes.TrimSpace(response.GetRawBody()) == nil || !allowed).To(BeTrue())
	return newFrontendAnswer(g, allowed, headers, response.GetRawBody())
}

// loginPlan matches the login request of each frontend.
func loginPlan(edits ...func(*plan.Plan)) *plan.Plan {
	p := &plan.Plan{
		Namespace: "shop", Name: "login", Mode: plan.ModeEnforce, OnMissingKey: plan.MissingKeyShare,
		Counting: plan.CountAdmitted, DenyWhen: plan.ThresholdExceeded, FailureMode: plan.FailOpen,
		Denial: plan.Denial{Code: "TooManyAttempts", Message: "Too many login attempts."},
		Matches: []plan.Match{
			{Methods: []string{"POST"}, Hosts: []string{"shop.example"}, Paths: []string{"/login"}},
			{Domain: "edge", Descriptors: []plan.EntryMatch{{Key: "path", Value: "/login"}}},
		},
		Key: []plan.KeyPart{{
			Type: plan.KeyExpression, Expression: `"user" in descriptor ? descriptor["user"] : request.headers["x-user"]`,
		}},
		Limits: []plan.Limit{
			{Name: "burst", Algorithm: plan.SlidingLog, Threshold: 3, WindowMillis: 60_000},
			{Name: "daily", Algorithm: plan.FixedWindow, Threshold: 20, WindowMillis: 86_400_000},
		},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// A sequence of equal requests has the same decisions, reasons, remaining units and headers at
// every frontend.
func TestFrontendsAgree(t *testing.T) {
	block := func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 }
	for name, tc := range map[string]struct {
		plan    *plan.Plan
		user    string
		want    []string // "allowed" or the reason of each request
		stopped bool     // Redis is stopped
	}{
		"over the limit": {loginPlan(), "alice", []string{"allowed", "allowed", "allowed", "LimitExceeded", "LimitExceeded"}, false},
		"blocked":        {loginPlan(block), "alice", []string{"allowed", "allowed", "allowed", "LimitExceeded", "Blocked"}, false},
		"refilling limits": {loginPlan(func(p *plan.Plan) {
			p.Limits = []plan.Limit{
				{Name: "t", Algorithm: plan.TokenBucket, Threshold: 1, Burst: 2, WindowMillis: 1000},
				{Name: "g", Algorithm: plan.GCRA, Threshold: 1, Burst: 3, WindowMillis: 5000},
				{Name: "w", Algorithm: plan.SlidingWindow, Threshold: 9, WindowMillis: 60_000, BucketMicros: 1_000_000},
			}
		}), "alice", []string{"allowed", "allowed", "LimitExceeded"}, false},
		"shadow":             {loginPlan(func(p *plan.Plan) { p.Mode = plan.ModeShadow }), "alice", []string{"allowed", "allowed", "allowed", "allowed"}, false},
		"disabled":           {loginPlan(func(p *plan.Plan) { p.Mode = plan.ModeDisabled }), "alice", []string{"allowed"}, false},
		"no policy matches":  {loginPlan(func(p *plan.Plan) { p.Matches = p.Matches[:0] }), "alice", []string{"allowed"}, false},
		"no key":             {loginPlan(func(p *plan.Plan) { p.OnMissingKey = plan.MissingKeyDeny }), "", []string{"MissingKey"}, false},
		"shared without key": {loginPlan(), "", []string{"allowed", "allowed", "allowed", "LimitExceeded"}, false},
		"banned": {loginPlan(func(p *plan.Plan) {
			p.Overrides = []plan.Override{{Name: "banned", Keys: []string{"eve"}, Action: plan.ActionDeny}}
		}), "eve", []string{"DeniedByOverride"}, false},
		"open without Redis":   {loginPlan(), "alice", []string{"allowed"}, true},
		"closed without Redis": {loginPlan(func(p *plan.Plan) { p.FailureMode = plan.FailClosed }), "alice", []string{"StoreUnavailable"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			all := map[string][]frontendAnswer{}
			for _, frontend := range []string{"check", "authorize", "ext_authz", "ratelimit"} {
				f := newFixture(t, nil, tc.plan)
				f.clock.Set(time.Unix(1_900_000_000, 0))
				if tc.stopped {
					f.redis.Stop()
				}
				for range tc.want {
					all[frontend] = append(all[frontend], f.frontends[frontend](g, tc.user))
					f.clock.Advance(10 * time.Millisecond)
				}
			}
			var got []string
			for _, s := range all["check"] {
				if s.Allowed {
					got = append(got, "allowed")
				} else {
					got = append(got, s.Body.Reason)
				}
			}
			g.Expect(got).To(Equal(tc.want))
			for frontend := range maps.Keys(all) {
				g.Expect(all[frontend]).To(Equal(all["check"]), frontend)
			}
		})
	}
}

func TestFrontendsShareCounters(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(t, nil, loginPlan())
	for i, frontend := range []string{"check", "authorize", "ext_authz"} {
		first := f.frontends[frontend](g, "alice")
		g.Expect(first.Allowed).To(BeTrue())
		g.Expect(first.Headers).To(HaveKeyWithValue("RateLimit", ContainSubstring(fmt.Sprintf(`"shop/login-burst";r=%d;t=60`, 2-i))))
		g.Expect(first.Headers).To(HaveKeyWithValue("X-RateLimit-Limit", "3"))
	}
	for frontend, send := range f.frontends {
		g.Expect(send(g, "alice").Body.Code).To(Equal("TooManyAttempts"), frontend)
	}
	g.Expect(f.rateLimit(g, "bob").Allowed).To(BeTrue())
}

// A client cannot cause an error of the rate limit protocol by bytes that are not UTF-8.
func TestBytesThatAreNotUTF8AreLimited(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(t, nil, loginPlan())
	value := "####"
	wire, err := proto.Marshal(&ratelimitv3.RateLimitRequest{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{
		{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "path", Value: "/login" + f.longer}, {Key: "user", Value: value}}},
	}})
	g.Expect(err).NotTo(HaveOccurred())
	wire = bytes.ReplaceAll(wire, []byte(value), []byte("\xffab\xc0"))
	var answers []ratelimitv3.RateLimitResponse_Code
	for range 4 {
		r := &ratelimitv3.RateLimitResponse{}
		g.Expect(f.conn.Invoke(t.Context(), ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, wire, r, grpc.ForceCodec(rawCodec{}))).To(Succeed())
		answers = append(answers, r.GetOverallCode())
	}
	const ok, over = ratelimitv3.RateLimitResponse_OK, ratelimitv3.RateLimitResponse_OVER_LIMIT
	g.Expect(answers).To(Equal([]ratelimitv3.RateLimitResponse_Code{ok, ok, ok, over}))
}

// rawCodec sends bytes unchanged, as Envoy does.
type rawCodec struct{}

func (rawCodec) Name() string                       { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)      { return v.([]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error { return proto.Unmarshal(data, v.(proto.Message)) }
