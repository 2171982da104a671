// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/forwarded"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The peers of the tests. The stranger, which is httptest's own address, is not trusted.
const (
	proxy    = "10.0.0.1:4711"
	stranger = "192.0.2.1:4711"
)

// sendAuthorize sends a request to the forward-auth frontend from the peer. Headers have the
// form "Name: value".
func sendAuthorize(e Engine, method, target, peer string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = peer
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	New(Options{
		Engine:   e,
		Frontend: limiter.FrontendOptions{PrincipalHeader: "x-user", TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
	}).ServeHTTP(w, r)
	return w
}

func TestAuthorizeReadsForwardedAttributes(t *testing.T) {
	address := netip.MustParseAddr
	traefik := []string{
		"X-Forwarded-Method: POST", "X-Forwarded-Proto: https", "X-Forwarded-Host: shop.example",
		"X-Forwarded-Uri: /login?next=/", "X-Forwarded-For: 203.0.113.9",
	}
	nginx := []string{
		"X-Original-Method: POST", "X-Original-URI: /login?next=/", "X-Forwarded-Host: shop.example",
		"X-Forwarded-For: 203.0.113.9",
	}
	ingress := []string{
		"X-Original-Method: POST", "X-Original-URL: https://Shop.example:443/login?next=/", "X-Forwarded-For: 203.0.113.9",
	}
	login := plan.Attributes{Method: "POST", Host: "shop.example", Path: "/login?next=/", RemoteAddress: address("203.0.113.9")}
	own := plan.Attributes{Method: "PUT", Host: "weir.test", RemoteAddress: address("10.0.0.1")}
	with := func(a plan.Attributes, change func(a *plan.Attributes)) plan.Attributes {
		a.Headers = maps.Clone(a.Headers)
		change(&a)
		return a
	}
	foreign := with(own, func(a *plan.Attributes) { a.RemoteAddress = address("192.0.2.1") })
	path := func(base plan.Attributes, path string) plan.Attributes {
		return with(base, func(a *plan.Attributes) { a.Path = path })
	}
	tests := map[string]struct {
		path    string
		peer    string
		headers []string
		want    plan.Attributes
	}{
		"Traefik and Caddy":          {"", proxy, traefik, login},
		"nginx":                      {"", proxy, nginx, login},
		"ingress-nginx":              {"", proxy, ingress, login},
		"ingress-nginx, both":        {"", proxy, append([]string{"X-Original-URI: /login?next=/"}, ingress...), login},
		"both families, agreeing":    {"", proxy, append([]string{"X-Original-Method: POST", "X-Original-URI: /login?next=/"}, traefik...), login},
		"a path below and forwarded": {"/else", proxy, traefik, login},
		"nothing forwarded":          {"", proxy, nil, own},
		"empty headers":              {"", proxy, []string{"X-Forwarded-Uri: ", "X-Forwarded-Method: ", "X-Forwarded-Host: "}, own},
		"a path below":               {"/login", proxy, nil, path(own, "/login")},
		"a path below, escaped":      {"/a%2Fb/%2e%2e/c", proxy, nil, path(own, "/a%2Fb/%2e%2e/c")},
		"a target below": {"/login?target=HTTPRoute/shop/shop", proxy, nil, with(path(own, "/login"), func(a *plan.Attributes) {
			a.Query = "target=HTTPRoute/shop/shop"
		})},
		"targets": {"?target=Gateway/infra/public&target=HTTPRoute/shop/shop", stranger, nil, with(foreign, func(a *plan.Attributes) {
			a.Targets = []plan.Target{"Gateway/infra/public", "HTTPRoute/shop/shop"}
		})},
		"one target": {"?target=HTTPRoute/shop/shop/checkout", proxy, nil, with(own, func(a *plan.Attributes) {
			a.Targets = []plan.Target{"HTTPRoute/shop/shop/checkout"}
		})},
		"a slash below": {"/", proxy, nil, path(own, "/")},
		"the query of a path below": {"/login?policy=x/y&cost=0&%zz", proxy, nil, with(path(own, "/login"), func(a *plan.Attributes) {
			a.Query = "policy=x/y&cost=0&%zz"
		})},
		"the query of a stranger":           {"/login?a=b", stranger, traefik, with(path(foreign, "/login"), func(a *plan.Attributes) { a.Query = "a=b" })},
		"a query below and a forwarded one": {"/else?a=b", proxy, traefik, login},
		"an asterisk":                       {"", proxy, []string{"X-Forwarded-Uri: *"}, own},
		"an absolute URI":                   {"", proxy, []string{"X-Forwarded-Uri: http://evil.example/login"}, path(own, "/login")},
		"an absolute URI, no path":          {"", proxy, []string{"X-Forwarded-Uri: http://evil.example?x"}, path(own, "/?x")},
		"commas in a path":                  {"", proxy, []string{"X-Forwarded-Uri: /a,b?c,d"}, path(own, "/a,b?c,d")},
		"spoofed, Traefik's":                {"", stranger, traefik, foreign},
		"spoofed, nginx's":                  {"/real", stranger, nginx, path(foreign, "/real")},
		"spoofed twice":                     {"", stranger, []string{"X-Forwarded-Uri: /a", "X-Forwarded-Uri: /b"}, foreign},
		"a principal":                       {"", proxy, []string{"X-User: dave"}, with(own, func(a *plan.Attributes) { a.Principal = "dave" })},
		"a principal, spoofed":              {"", stranger, []string{"X-User: dave"}, foreign},
		"two principals": {"", proxy, []string{"X-User: a", "X-User: b"}, with(own, func(a *plan.Attributes) {
			a.PrincipalRepeated = true
			a.Headers, a.RepeatedHeaders = map[string]string{"x-user": "a,b"}, []string{"x-user"}
		})},
		"other headers": {
			"", proxy,
			[]string{"X-API-Key: k", "Cookie: a=b", "Accept: x", "Accept: y", "Connection: close", "Te: trailers", "X-Forwarded-Proto: https"},
			with(own, func(a *plan.Attributes) {
				a.Headers = map[string]string{"x-api-key": "k", "cookie": "a=b", "accept": "x,y", "x-forwarded-proto": "https"}
				a.RepeatedHeaders = []string{"accept"}
			}),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			engine := &fakeEngine{}
			w := sendAuthorize(engine, http.MethodPut, "http://weir.test"+pathAuthorize+tc.path, tc.peer, tc.headers...)
			g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
			want := tc.want
			if want.Headers == nil { // this case does not concern headers
				want.Headers = engine.received.Attributes.Headers
			}
			g.Expect(engine.received).To(Equal(&limiter.Check{Cost: 1, Attributes: want}))
			for name := range engine.received.Attributes.Headers {
				g.Expect(plan.IsRequestHeader(http.CanonicalHeaderKey(name))).To(BeTrue(), name)
			}
		})
	}
}

// Requests of an untrusted peer that has headers of a proxy are counted, each once.
func TestAuthorizeCountsIgnoredHeaders(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	h := New(Options{
		Engine: &fakeEngine{}, Ignored: forwarded.NewIgnored(registry, slog.New(slog.DiscardHandler)),
		Frontend: limiter.FrontendOptions{PrincipalHeader: "x-user", TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
	})
	requests := []struct {
		peer    string
		headers http.Header
		counts  bool
	}{
		{stranger, http.Header{"X-Forwarded-Uri": {"/a"}}, true},
		{stranger, http.Header{"X-User": {"dave"}}, true},
		{stranger, http.Header{"X-User": {"dave"}, "X-Forwarded-For": {"203.0.113.9"}}, true},
		{stranger, http.Header{"X-Api-Key": {"k"}}, false},
		{proxy, http.Header{"X-User": {"dave"}, "X-Forwarded-Uri": {"/a"}}, false},
	}
	counted := 0
	for _, request := range requests {
		r := httptest.NewRequest(http.MethodGet, pathAuthorize, nil)
		r.RemoteAddr, r.Header = request.peer, request.headers
		h.ServeHTTP(httptest.NewRecorder(), r)
		if request.counts {
			counted++
		}
		expected := fmt.Sprintf("# HELP %[1]s %[2]s\n# TYPE %[1]s counter\n%[1]s %[3]d\n", "weir_forwarded_headers_ignored_total",
			"Requests whose forwarding headers were ignored because the peer is not in --trusted-proxies.", counted)
		g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(expected))).To(Succeed(), "%v", request)
	}
}

// The answer names the invalid header or parameter.
func TestAuthorizeRejectsInvalidRequests(t *testing.T) {
	tests := map[string]struct {
		target  string
		headers []string
		field   string
	}{
		"methods differ":                 {"", []string{"X-Forwarded-Method: GET", "X-Original-Method: POST"}, "X-Forwarded-Method"},
		"paths differ":                   {"", []string{"X-Forwarded-Uri: /a", "X-Original-URI: /b"}, "X-Forwarded-Uri"},
		"paths differ in case":           {"", []string{"X-Forwarded-Uri: /a", "X-Original-URI: /A"}, "X-Forwarded-Uri"},
		"a method of another family":     {"", []string{"X-Forwarded-Method: GET", "X-Original-URI: /a"}, "X-Forwarded-Method"},
		"a path of another family":       {"", []string{"X-Forwarded-Uri: /a", "X-Original-Method: GET"}, "X-Forwarded-Method"},
		"a second method without a path": {"", []string{"X-Forwarded-Uri: /a", "X-Forwarded-Method: GET", "X-Original-Method: GET"}, "X-Forwarded-Uri"},
		"hosts differ":                   {"", []string{"X-Forwarded-Host: a.example", "X-Original-URL: https://b.example/"}, "X-Forwarded-Host"},
		"nginx's paths differ":           {"", []string{"X-Original-URI: /a", "X-Original-URL: https://b.example/b"}, "X-Original-Url"},
		"two methods":                    {"", []string{"X-Forwarded-Method: GET", "X-Forwarded-Method: POST"}, "X-Forwarded-Method"},
		"a list of methods":              {"", []string{"X-Forwarded-Method: GET, POST"}, "X-Forwarded-Method"},
		"two paths":                      {"", []string{"X-Forwarded-Uri: /a", "X-Forwarded-Uri: /a"}, "X-Forwarded-Uri"},
		"two hosts":                      {"", []string{"X-Forwarded-Host: a", "X-Forwarded-Host: b"}, "X-Forwarded-Host"},
		"a list of hosts":                {"", []string{"X-Forwarded-Host: a.example, b.example"}, "X-Forwarded-Host"},
		"two original methods":           {"", []string{"X-Original-Method: GET", "X-Original-Method: GET"}, "X-Original-Method"},
		"two original paths":             {"", []string{"X-Original-URI: /a", "X-Original-URI: /b"}, "X-Original-Uri"},
		"two original URLs":              {"", []string{"X-Original-URL: http://a/", "X-Original-URL: http://a/"}, "X-Original-Url"},
		"no path":                        {"", []string{"X-Forwarded-Uri: login"}, "X-Forwarded-Uri"},
		"a URI in a query":               {"", []string{"X-Forwarded-Uri: login?http://a/b"}, "X-Forwarded-Uri"},
		"an unknown parameter":           {"?policies=a/b", nil, "policies"},
		"a cost":                         {"?cost=2", nil, "cost"},
		"another status":                 {"?deny=429", nil, "deny"},
		"no status":                      {"?deny=", nil, "deny"},
		"two statuses":                   {"?deny=403&deny=403", nil, "deny"},
		"an unqualified policy":          {"?policy=a/b&policy=b", nil, "policy[1]"},
		"a policy twice":                 {"?policy=a/b&policy=a/b", nil, "policy[1]"},
		"a bad target":                   {"?target=Gateway/a/b&target=shop", nil, "target[1]"},
		"17 targets":                     {"?" + strings.ReplaceAll(many(17, "target=Gateway/a/b%d"), ",", "&"), nil, "target"},
		"17 policies":                    {"?" + strings.ReplaceAll(many(17, "policy=a/p%d"), ",", "&"), nil, "policy"},
		"an escape cut short":            {"?policy=%2", nil, "query"},
		"a semicolon":                    {"?policy=a/b;deny=403", nil, "query"},
		"parameters before headers":      {"?cost=2", []string{"X-Forwarded-Uri: x"}, "cost"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			engine := &fakeEngine{}
			w := sendAuthorize(engine, http.MethodGet, pathAuthorize+tc.target, proxy, tc.headers...)
			g.Expect(w.Code).To(Equal(http.StatusBadRequest))
			p := decodeProblem(g, w)
			g.Expect(p.Code).To(Equal("InvalidRequest"))
			g.Expect(p.Field).To(Equal(tc.field), p.Detail)
			g.Expect(engine.received).To(BeNil(), "the engine must not be called")
		})
	}
}

func TestAuthorizeByName(t *testing.T) {
	g := NewWithT(t)
	engine := &fakeEngine{}
	w := sendAuthorize(engine, http.MethodGet, pathAuthorize+"?policy=shop/login&policy=shop%2Fapi", stranger)
	g.Expect(w.Code).To(Equal(http.StatusOK))
	g.Expect(engine.received.Policies).To(Equal([]string{"shop/login", "shop/api"}))
}

func TestAuthorizeReportsAnUnknownPolicy(t *testing.T) {
	g := NewWithT(t)
	w := sendAuthorize(failing(&limiter.UnknownPolicyError{Policy: "shop/api"}), http.MethodGet,
		pathAuthorize+"?policy=shop/login&policy=shop/api", stranger)
	g.Expect(w.Code).To(Equal(http.StatusNotFound))
	g.Expect(decodeProblem(g, w).Field).To(Equal("policy[1]"))
}

// The frontend accepts every method and does not read the body.
func TestAuthorizeAcceptsAnyMethod(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "made-up"} {
		t.Run(method, func(t *testing.T) {
			g := NewWithT(t)
			for _, tc := range []struct {
				decision limiter.Decision
				status   int
			}{
				{limiter.Decision{Allowed: true, Reason: limiter.ReasonNoPolicy}, http.StatusOK},
				{limiter.Decision{Reason: limiter.ReasonLimitExceeded, RetryAfter: time.Second}, http.StatusTooManyRequests},
			} {
				engine := answering(tc.decision)
				w := httptest.NewRecorder()
				r := httptest.NewRequest(method, pathAuthorize, iotest.ErrReader(errors.New("the body was read")))
				newHandler(engine).ServeHTTP(w, r)
				g.Expect(w.Code).To(Equal(tc.status))
				g.Expect(engine.received.Attributes.Method).To(Equal(method))
			}
		})
	}
}

func TestAuthorizeStatusOfEachReason(t *testing.T) {
	tests := map[string]struct {
		decision   limiter.Decision
		status     int
		retryAfter string
	}{
		"allowed":          {limiter.Decision{Allowed: true, Reason: limiter.ReasonAllowed}, 200, ""},
		"no store, open":   {limiter.Decision{Allowed: true, Reason: limiter.ReasonStoreUnavailable, Degraded: plan.FailOpen}, 200, ""},
		"limit exceeded":   {limiter.Decision{Reason: limiter.ReasonLimitExceeded, RetryAfter: 1500 * time.Millisecond}, 429, "2"},
		"cost above quota": {limiter.Decision{Reason: limiter.ReasonCostExceedsThreshold}, 429, ""},
		"missing key":      {limiter.Decision{Reason: limiter.ReasonMissingKey}, 403, ""},
		"no store, closed": {limiter.Decision{Reason: limiter.ReasonStoreUnavailable, Degraded: plan.FailClosed}, 503, "1"},
	}
	for name, tc := range tests {
		for _, query := range []string{"", "?deny=403"} {
			t.Run(name+query, func(t *testing.T) {
				g := NewWithT(t)
				w := sendAuthorize(answering(tc.decision), http.MethodGet, pathAuthorize+query, stranger)
				status := tc.status
				if query != "" && status != http.StatusOK {
					status = http.StatusForbidden
				}
				g.Expect(w.Code).To(Equal(status))
				g.Expect(w.Header().Get(answer.HeaderRetryAfter)).To(Equal(tc.retryAfter))
				g.Expect(w.Header().Get(answer.HeaderDegraded)).To(Equal(strings.ToLower(string(tc.decision.Degraded))))
				if status == http.StatusOK {
					g.Expect(w.Body.Len()).To(BeZero())
					return
				}
				p := decodeProblem(g, w)
				g.Expect(p.Title).To(Equal(http.StatusText(status)))
				g.Expect(w.Body.String()).To(ContainSubstring(fmt.Sprintf(`"reason":%q`, tc.decision.Reason)))
			})
		}
	}
}

// ownDenial is what a policy may set for denials.
var ownDenial = plan.Denial{
	Code: "RateLimited", Message: "Slow down.", Status: 503, Headers: []plan.DenialHeader{{Name: "Cache-Control", Value: "no-store"}},
	Body: plan.DenialBody{ContentType: "text/html", Template: "<p>{{policy}} {{limit}}: {{retryAfter}}"},
}

func TestAuthorizeSendsThePolicysDenial(t *testing.T) {
	limited := limiter.Decision{
		Reason: limiter.ReasonLimitExceeded, Policy: "shop/api", Limit: "burst", RetryAfter: 1500 * time.Millisecond, Denial: ownDenial,
	}
	blocked, missing, closed := limited, limited, limited
	blocked.Reason, missing.Reason, closed.Reason = limiter.ReasonBlocked, limiter.ReasonMissingKey, limiter.ReasonStoreUnavailable
	for name, tc := range map[string]struct {
		decision limiter.Decision
		query    string
		status   int
		isOwn    bool
	}{
		"limit exceeded":      {limited, "", 503, true},
		"blocked":             {blocked, "", 503, true},
		"one status of nginx": {limited, "?deny=403", 403, true},
		"missing key":         {missing, "", 403, false},
		"no store":            {closed, "", 503, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := sendAuthorize(answering(tc.decision), http.MethodGet, pathAuthorize+tc.query, stranger)
			g.Expect(w.Code).To(Equal(tc.status))
			if !tc.isOwn {
				g.Expect(w.Header().Get("Cache-Control")).To(BeEmpty())
				g.Expect(w.Header().Get(answer.HeaderContentType)).To(Equal(answer.TypeProblem))
				return
			}
			g.Expect(w.Header().Get("Cache-Control")).To(Equal("no-store"))
			g.Expect(w.Header().Get(answer.HeaderContentType)).To(Equal("text/html; charset=utf-8"))
			g.Expect(w.Header().Get(answer.HeaderRetryAfter)).To(Equal("2"))
			g.Expect(w.Body.String()).To(Equal("<p>shop/api burst: 2"))
		})
	}
}

// Callers of the decision API parse its answers.
func TestCheckKeepsItsProblemDocument(t *testing.T) {
	g := NewWithT(t)
	w := sendCheck(answering(limiter.Decision{Reason: limiter.ReasonLimitExceeded, Denial: ownDenial}), namedCheck)
	g.Expect(w.Code).To(Equal(http.StatusTooManyRequests))
	g.Expect(w.Header().Get("Cache-Control")).To(BeEmpty())
	g.Expect(decodeProblem(g, w).Detail).To(Equal("Slow down."))
}

func TestAuthorizeRoutes(t *testing.T) {
	for path, status := range map[string]int{
		"/v1/authorize": 200, "/v1/authorize/": 200, "/v1/authorize/a/b": 200, "/v1/authorize//": 200,
		"/v1/authorized": 404, "/v1/authorize%2Fa": 404, "/v1/%61uthorize/a": 404, "//v1/authorize": 404,
	} {
		NewWithT(t).Expect(sendAuthorize(&fakeEngine{}, http.MethodGet, "http://weir.test"+path, stranger).Code).To(Equal(status), path)
	}
}

func TestAuthorizeReadsThePrincipalOfACertificate(t *testing.T) {
	spiffe, err := url.Parse("spiffe://shop/sa/cart")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, tc := range map[string]struct {
		peer string
		leaf *x509.Certificate
		want string
	}{
		"SPIFFE id":       {stranger, &x509.Certificate{URIs: []*url.URL{spiffe}, DNSNames: []string{"cart"}}, "spiffe://shop/sa/cart"},
		"DNS name":        {stranger, &x509.Certificate{DNSNames: []string{"cart", "b"}}, "cart"},
		"no name":         {stranger, &x509.Certificate{}, ""},
		"not verified":    {stranger, nil, ""},
		"the proxy's own": {proxy, &x509.Certificate{DNSNames: []string{"ingress"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			engine := &fakeEngine{}
			r := httptest.NewRequest(http.MethodGet, pathAuthorize, nil)
			r.RemoteAddr, r.TLS = tc.peer, &tls.ConnectionState{}
			if tc.leaf != nil {
				r.TLS.VerifiedChains = [][]*x509.Certificate{{tc.leaf}}
			}
			New(Options{Engine: engine, Frontend: limiter.FrontendOptions{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}).
				ServeHTTP(httptest.NewRecorder(), r)
			NewWithT(t).Expect(engine.received.Attributes.Principal).To(Equal(tc.want))
		})
	}
}

// FuzzAuthorize sends arbitrary requests of a proxy's client. No answer is a server error,
// and no header of the client changes an attribute that the proxy forwards.
func FuzzAuthorize(f *testing.F) {
	f.Add("/v1/authorize?policy=a/b&deny=403", "X-Original-Uri", "/else")
	f.Add("/v1/authorize/a%2Fb", "X-Forwarded-Host", "b.example")
	f.Add("/v1/authorize", "X-Original-Url", "http://b.example/else")
	f.Add("/v1/authorize", "X-Original-Method", "POST")
	f.Add("/v1/authorize", "X-Api-Key", "\xff\x00")
	f.Fuzz(func(t *testing.T, target, name, value string) {
		g := NewWithT(t)
		u, err := url.ParseRequestURI(target)
		if err != nil {
			u = &url.URL{Path: pathAuthorize}
		}
		if _, ok := belowAuthorize(u); !ok {
			u = &url.URL{Path: pathAuthorize}
		}
		r := httptest.NewRequest(http.MethodGet, pathAuthorize, nil)
		r.URL, r.RemoteAddr = u, proxy
		// A proxy like Traefik overwrites these headers and forwards the others.
		r.Header.Set(name, value)
		for header, value := range map[string]string{
			plan.HeaderMethod: "PUT", plan.HeaderURI: "/login", plan.HeaderHost: "a.example", plan.HeaderFor: "192.0.2.1",
		} {
			r.Header.Set(header, value)
		}
		engine := &fakeEngine{}
		w := httptest.NewRecorder()
		New(Options{Engine: engine, Frontend: limiter.FrontendOptions{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}).ServeHTTP(w, r)
		g.Expect(w.Code).To(BeElementOf(200, 400))
		if engine.received != nil {
			a := engine.received.Attributes
			g.Expect([]string{a.Method, a.Path, a.Host, a.RemoteAddress.String(), a.Principal}).
				To(Equal([]string{"PUT", "/login", "a.example", "192.0.2.1", ""}))
		}
	})
}

// A proxy that passes the query of its client to Weir would let the client name policies.
func TestTheQueryOfTheClientNamesNoPolicies(t *testing.T) {
	g := NewWithT(t)
	engine := &fakeEngine{}
	w := sendAuthorize(engine, http.MethodGet, "http://weir.test"+pathAuthorize+"?policy=a/b", proxy, "X-Forwarded-Uri: /x?policy=a/b")
	g.Expect(w.Code).To(Equal(http.StatusBadRequest))
	g.Expect(decodeProblem(g, w)).To(HaveField("Field", "query"))
	g.Expect(engine.received).To(BeNil())
	w = sendAuthorize(engine, http.MethodGet, "http://weir.test"+pathAuthorize+"?policy=a/b", proxy, "X-Forwarded-Uri: /x?policy=c/d")
	g.Expect(w.Code).To(Equal(http.StatusOK))
}
