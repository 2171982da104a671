// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv"
)

// discard is a ResponseWriter that discards the body.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// repeated is a request that is sent again and again without allocating.
type repeated struct {
	handler http.Handler
	request *http.Request
	body    *strings.Reader
	text    string
	answer  discard
}

func repeat(handler http.Handler, r *http.Request, body string) *repeated {
	q := &repeated{handler: handler, request: r, body: strings.NewReader(body), text: body, answer: discard{http.Header{}}}
	r.Body, r.ContentLength = io.NopCloser(q.body), int64(len(body))
	return q
}

func (q *repeated) send() {
	q.body.Reset(q.text)
	clear(q.answer.header)
	q.handler.ServeHTTP(q.answer, q.request)
}

func (q *repeated) bench(b *testing.B) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		q.send()
	}
}

// deciding is an Engine with one decision. It allocates nothing.
type deciding struct {
	Engine

	decision *limiter.Decision
}

func (e *deciding) Decide(context.Context, *limiter.Check) (*limiter.Decision, error) {
	return e.decision, nil
}

// Decisions with two limits.
func benchDecisions() (allowed, denied limiter.Decision) {
	states := []limiter.LimitState{
		{Policy: "shop/login", Limit: "burst", Allowed: true, Used: 3, Threshold: 5, Remaining: 2, ResetAfter: time.Minute},
		{Policy: "shop/login", Limit: "daily", Allowed: true, Used: 3, Threshold: 20, Remaining: 17, ResetAfter: time.Hour},
	}
	allowed = limiter.Decision{Allowed: true, Reason: limiter.ReasonAllowed, Limits: states, Revision: 42}
	denied = limiter.Decision{
		Reason: limiter.ReasonLimitExceeded, Policy: "shop/login", Limit: "burst", Limits: states,
		Denial: plan.Denial{Code: "RateLimited", Message: "Too many requests."}, RetryAfter: 12 * time.Second,
	}
	return allowed, denied
}

func newCheckRequest() *http.Request { return httptest.NewRequest(http.MethodPost, pathCheck, nil) }

const benchCheck = `{"policies":["shop/login"],"key":"user-42"}`

func BenchmarkCheck(b *testing.B) {
	const matching = `{"attributes":{"method":"POST","host":"shop.example","path":"/login","remoteAddress":"192.0.2.1",
		"headers":{"x-api-key":"k","user-agent":"curl/8"}}}`
	allowed, denied := benchDecisions()
	for name, bc := range map[string]struct {
		body     string
		decision limiter.Decision
	}{
		"named-allowed":    {benchCheck, allowed},
		"named-denied":     {benchCheck, denied},
		"matching-allowed": {matching, allowed},
		"malformed":        {`{"policies":["shop/login"],"key":""}`, allowed},
	} {
		b.Run(name, func(b *testing.B) {
			repeat(newHandler(&deciding{decision: &bc.decision}), newCheckRequest(), bc.body).bench(b)
		})
	}
}

// newProxiedRequest returns a request as a proxy sends it to /v1/authorize.
func newProxiedRequest(query string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, pathAuthorize+query, nil)
	r.RemoteAddr = proxy
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// newProxiedHandler trusts the proxy.
func newProxiedHandler(e Engine) http.Handler {
	return New(Options{Engine: e, Frontend: limiter.FrontendOptions{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}})
}

func BenchmarkAuthorize(b *testing.B) {
	traefik := []string{
		"X-Forwarded-Method: POST", "X-Forwarded-Proto: https", "X-Forwarded-Host: shop.example", "X-Forwarded-Uri: /login?next=/",
		"X-Forwarded-For: 203.0.113.9", "Accept: */*", "Accept-Encoding: gzip", "User-Agent: curl/8", "X-Api-Key: k",
	}
	allowed, denied := benchDecisions()
	for name, bc := range map[string]struct {
		request  *http.Request
		decision limiter.Decision
	}{
		"named-allowed":   {newProxiedRequest("?policy=shop/login", "X-User: user-42", "User-Agent: curl/8"), allowed},
		"named-denied":    {newProxiedRequest("?policy=shop/login", "X-User: user-42", "User-Agent: curl/8"), denied},
		"traefik-allowed": {newProxiedRequest("", traefik...), allowed},
		"nginx-allowed":   {newProxiedRequest("?policy=shop/login&deny=403", "X-Original-Uri: /login", "X-Api-Key: k"), allowed},
	} {
		b.Run(name, func(b *testing.B) {
			repeat(newProxiedHandler(&deciding{decision: &bc.decision}), bc.request, "").bench(b)
		})
	}
}

// TestAllocations bounds what a request allocates beside net/http and the engine.
func TestAllocations(t *testing.T) {
	allowed, _ := benchDecisions()
	engine := &deciding{decision: &allowed}
	for name, tc := range map[string]struct {
		q    *repeated
		most int
	}{
		"check":     {repeat(newHandler(engine), newCheckRequest(), benchCheck), 5},
		"authorize": {repeat(newProxiedHandler(engine), newProxiedRequest("?policy=shop/login", "X-User: user-42", "User-Agent: curl/8"), ""), 3},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(testenv.FewestAllocations(tc.q.send)).To(BeNumerically("<=", tc.most))
		})
	}
}
