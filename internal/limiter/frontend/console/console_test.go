// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/console"
	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/test/testenv"
)

// team is an Authorizer whose tokens are names of roles. Its rights are for the Namespace shop.
type team map[string][]httpapi.Verb

var roles = team{
	"reader": {httpapi.VerbInspect, httpapi.VerbList},
	"operator": {
		httpapi.VerbInspect, httpapi.VerbList, httpapi.VerbBlock, httpapi.VerbUnblock, httpapi.VerbReset,
	},
	"admin": {
		httpapi.VerbInspect, httpapi.VerbList, httpapi.VerbBlock, httpapi.VerbUnblock, httpapi.VerbReset, httpapi.VerbReveal,
	},
	"stranger": {},
	"lister":   {httpapi.VerbList},
	"5ecret":   {httpapi.VerbInspect, httpapi.VerbList},
}

func (t team) Authorize(_ context.Context, token string, verb httpapi.Verb, namespace, _ string) (httpapi.Caller, error) {
	verbs, known := t[token]
	if !known {
		return httpapi.Caller{}, httpapi.ErrUnauthenticated
	}
	for _, v := range verbs {
		if v == verb && namespace == "shop" {
			return httpapi.Caller{User: token}, nil
		}
	}
	return httpapi.Caller{}, httpapi.ErrForbidden
}

// site is a running endpoint with a console.
type site struct {
	t   *testing.T
	e   *endpoint.Server
	log *testenv.Log
	url string
}

// start starts an endpoint without Redis. configure may be nil.
func start(t *testing.T, configure func(*endpoint.Options)) *site {
	t.Helper()
	s := &site{t: t, log: &testenv.Log{}}
	bound := make(chan string, 1)
	o := endpoint.Options{
		OperatorAddress: "127.0.0.1:0", Console: true, Authorizer: roles, Observe: true, LocalKeys: 10_000, ReplicaName: "me",
		OnConsole: func(url string) { bound <- url },
		Logger:    slog.New(slog.NewJSONHandler(s.log, nil)), Registry: prometheus.NewRegistry(),
	}
	if configure != nil {
		configure(&o)
	}
	s.e = endpoint.New(o)
	s.e.Use(index.NewSnapshot(7, []*plan.Plan{
		policy("shop", "login", plan.KeyPart{Type: plan.KeyHeader, Header: "x-account"}),
		policy("shop", "search", plan.KeyPart{Type: plan.KeyRemoteAddress, IPv4PrefixLength: 32, IPv6PrefixLength: 64}),
		policy("bank", "vault", plan.KeyPart{Type: plan.KeyPrincipal}),
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-ended).To(Succeed())
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	select {
	case address := <-bound:
		s.url = strings.TrimSuffix(address, "/console/")
	case err := <-ended:
		t.Fatal(err)
	}
	return s
}

// policy admits two units an hour.
func policy(namespace, name string, key ...plan.KeyPart) *plan.Plan {
	return &plan.Plan{
		Namespace: namespace, Name: name, Mode: plan.ModeEnforce, Key: key, OnMissingKey: plan.MissingKeyShare,
		Limits:   []plan.Limit{{Name: "hourly", Algorithm: plan.FixedWindow, Threshold: 2, WindowMillis: 3_600_000}},
		Counting: plan.CountAdmitted, DenyWhen: plan.ThresholdExceeded, FailureMode: plan.FailOpen,
		Denial: plan.Denial{Code: "RateLimited", Message: "Too many requests."},
	}
}

// exhaust checks the key until it is denied three times.
func (s *site) exhaust(policy string, key ...string) {
	s.t.Helper()
	for range 5 {
		_, err := s.e.Decide(s.t.Context(), &limiter.Check{Policies: []string{policy}, Key: key, Cost: 1})
		NewWithT(s.t).Expect(err).NotTo(HaveOccurred())
	}
}

// code returns the path of a code for the token.
func (s *site) code(token string) string {
	s.t.Helper()
	status, body := s.send(http.MethodPost, "/v1/console", token)
	g := NewWithT(s.t)
	g.Expect(status).To(Equal(http.StatusOK), body)
	var answer struct {
		Path             string
		ExpiresInSeconds int
	}
	g.Expect(json.Unmarshal([]byte(body), &answer)).To(Succeed())
	g.Expect(answer.ExpiresInSeconds).To(Equal(30))
	return answer.Path
}

// send sends a request with a token.
func (s *site) send(method, path, token string) (status int, body string) {
	s.t.Helper()
	g := NewWithT(s.t)
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Weir-Claimed-User", "alice <script>")
	response, err := http.DefaultClient.Do(r)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(text)
}

var paths = []string{
	"/console/", "/console/policies", "/console/policy?policy=shop/login", "/console/key?policy=shop/login&key=bob", "/console/try",
}

func TestPagesNeedASession(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	b := s.browser()
	for _, path := range paths {
		b.open(path)
		g.Expect(b.status).To(Equal(http.StatusUnauthorized), path)
		g.Expect(b.page).To(And(ContainSubstring("kubectl weir console"), Not(ContainSubstring("shop/login"))))
	}
	b = s.logIn("reader")
	for _, path := range paths {
		b.open(path)
		g.Expect(b.status).To(Equal(http.StatusOK), path)
		g.Expect(b.page).To(And(ContainSubstring("alice &lt;script&gt;"), Not(ContainSubstring("bank")), Not(ContainSubstring("<script"))))
	}
	b.open("/console/policies")
	b.submit("/console/logout", url.Values{})
	b.open("/console/")
	g.Expect(b.status).To(Equal(http.StatusUnauthorized))
}

func TestEveryResponseHasTheHeaders(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	b := s.logIn("operator")
	for _, path := range append([]string{
		"/console/nonesuch", "/console/static/style.css", "/console/static/icon.svg", "/console/static/nonesuch", "/console/login?code=forged",
	}, paths...) {
		b.open(path)
		g.Expect(b.header.Get("Content-Security-Policy")).To(Equal(
			"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"), path)
		g.Expect(b.header.Get("Cache-Control")).To(Equal("no-store"), path)
		g.Expect(b.header.Get("X-Content-Type-Options")).To(Equal("nosniff"), path)
		g.Expect(b.header.Get("X-Frame-Options")).To(Equal("DENY"), path)
		g.Expect(b.page).NotTo(MatchRegexp(`(?i)<script|style=|javascript:|https?://[^"]*\.(css|js)|\son[a-z]+=`), path)
	}
}

func TestCodeGivesASessionOnce(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	path := s.code("reader")
	b := s.browser()
	b.open(path)
	g.Expect(b.status).To(Equal(http.StatusOK))
	address, err := url.Parse(s.url)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.client.Jar.Cookies(address)).To(BeEmpty(), "the cookie is only for the console")
	other := s.browser()
	other.open(path)
	g.Expect(other.status).To(Equal(http.StatusUnauthorized))
	g.Expect(other.page).To(ContainSubstring("used already"))
	b.open("/console/")
	g.Expect(b.status).To(Equal(http.StatusOK), "the session stays")

	for token, want := range map[string]int{"": http.StatusUnauthorized, "forged": http.StatusUnauthorized, "stranger": http.StatusOK} {
		status, _ := s.send(http.MethodPost, "/v1/console", token)
		g.Expect(status).To(Equal(want), token)
	}
	status, _ := s.send(http.MethodGet, "/v1/console", "reader")
	g.Expect(status).To(Equal(http.StatusMethodNotAllowed))
}

// A link that another person sent does not replace a session, nor begin one from another site, unless the reader confirms it.
func TestLinksReplaceNoSession(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	b := s.logIn("operator")
	first := b.csrf()
	link := s.code("reader")
	b.open(link)
	g.Expect(b.status).To(Equal(http.StatusOK))
	g.Expect(b.page).To(ContainSubstring("in place of yours"))
	b.open("/console/")
	g.Expect(b.csrf()).To(Equal(first), "the session stays")
	code := strings.TrimPrefix(link, "/console/login?code=")
	b.submit("/console/login", url.Values{"code": {code}})
	g.Expect(b.status).To(Equal(http.StatusOK))
	g.Expect(b.csrf()).NotTo(Equal(first), "the reader confirmed the link")

	fresh := s.browser()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+s.code("reader"), http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	fresh.do(r)
	g.Expect(fresh.page).To(ContainSubstring("Begin the session"))
	g.Expect(fresh.header.Get("Set-Cookie")).To(BeEmpty())
	fresh.open("/console/")
	g.Expect(fresh.status).To(Equal(http.StatusUnauthorized))
}

func TestCookie(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	b := s.browser()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	b.open(s.code("reader"))
	g.Expect(b.status).To(Equal(http.StatusSeeOther))
	g.Expect(b.header.Get("Location")).To(Equal("/console/"), "the code leaves the address")
	g.Expect(b.header.Get("Set-Cookie")).To(MatchRegexp(`^weir-console-[0-9a-f]{8}=[\w-]{43}; Path=/console; Max-Age=(600|599); HttpOnly; SameSite=Strict$`))
}

// A cookie of an ended or forged session is worth nothing, and the page reports why.
func TestEndedSession(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	b := s.logIn("operator")
	address, err := url.Parse(s.url + "/console/")
	g.Expect(err).NotTo(HaveOccurred())
	cookies := b.client.Jar.Cookies(address)
	g.Expect(cookies).To(HaveLen(1))
	first := b.csrf()
	b.submit("/console/logout", url.Values{})
	for _, value := range []string{cookies[0].Value, "forged", ""} {
		b.client.Jar.SetCookies(address, []*http.Cookie{{Name: cookies[0].Name, Value: value, Path: "/console"}})
		b.open("/console/")
		g.Expect(b.status).To(Equal(http.StatusUnauthorized))
		g.Expect(b.page).To(ContainSubstring("Your session has ended."))
		b.submit("/console/change", url.Values{"policy": {"shop/login"}, "key": {"bob"}, "action": {"reset"}, "csrf": {first}})
		g.Expect(b.status).To(Equal(http.StatusUnauthorized))
	}
}

// Two tabs share a session; forms that one opened stay valid in the other. A thousand further sessions
// end it.
func TestManySessions(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	b := s.logIn("operator")
	b.open("/console/try")
	first := b.csrf()
	b.open("/console/try")
	g.Expect(b.csrf()).To(Equal(first))
	for range 1000 {
		other := s.browser()
		other.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		other.open(s.code("reader"))
		g.Expect(other.status).To(Equal(http.StatusSeeOther))
	}
	b.open("/console/")
	g.Expect(b.status).To(Equal(http.StatusUnauthorized))
}

func TestCookieIsSecureWithTLS(t *testing.T) {
	g := NewWithT(t)
	c := console.New(console.Options{API: httpapi.Options{Authorizer: roles}})
	path, _ := c.NewCode("reader", "")
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.TLS = &tls.ConnectionState{}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	g.Expect(w.Code).To(Equal(http.StatusSeeOther))
	g.Expect(w.Header().Get("Set-Cookie")).To(HaveSuffix("; HttpOnly; Secure; SameSite=Strict"))
	path, _ = c.NewCode("reader", "")
	w = httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodHead, path, http.NoBody))
	g.Expect(w.Header().Get("Set-Cookie")).To(BeEmpty())
	w = httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	g.Expect(w.Header().Get("Set-Cookie")).NotTo(BeEmpty(), "a HEAD does not use the code")
}

func TestLoginWithToken(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	b := s.browser()
	for _, token := range []string{"", "forged", "a b", "a\nb"} {
		b.open("/console/login")
		b.submit("/console/login", url.Values{"token": {token}})
		g.Expect(b.status).To(Equal(http.StatusUnauthorized), token)
	}
	b.open("/console/login")
	b.submit("/console/login", url.Values{"token": {" 5ecret "}})
	g.Expect(b.status).To(Equal(http.StatusOK))
	g.Expect(b.page).To(ContainSubstring("<h1>Overview</h1>"))
	g.Expect(b.page).NotTo(ContainSubstring("5ecret"), "the token does not reach the browser")
	b.submit("/console/login", url.Values{"token": {"5ecret"}, "csrf": {"x"}})
	g.Expect(b.status).To(Equal(http.StatusForbidden))
}

func TestFormsNeedTheSecretOfTheSession(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	b, other := s.logIn("operator"), s.logIn("operator")
	fields := func(csrf string) url.Values {
		return url.Values{"policy": {"shop/login"}, "key": {"bob"}, "action": {"block"}, "duration": {"10m"}, "csrf": {csrf}}
	}
	other.open("/console/try")
	for _, csrf := range []string{"", "forged", other.csrf()} {
		for _, path := range []string{"/console/change", "/console/confirm", "/console/key", "/console/try", "/console/logout"} {
			b.submit(path, fields(csrf))
			g.Expect(b.status).To(Equal(http.StatusForbidden), path)
		}
	}
	b.open("/console/try")
	genuine := b.csrf()
	// A page of another site, or of another port of this machine.
	for header, value := range map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/console/change", strings.NewReader(fields(genuine).Encode()))
		g.Expect(err).NotTo(HaveOccurred())
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set(header, value)
		b.do(r)
		g.Expect(b.status).To(Equal(http.StatusForbidden), header)
	}
	b.open("/console/key?policy=shop/login&key=bob")
	g.Expect(b.page).NotTo(ContainSubstring("<b>Blocked</b>"))
	b.submit("/console/change", fields(genuine))
	g.Expect(b.page).To(ContainSubstring("<b>Blocked</b>"), "the same form of this session works")
}

func TestForeignHostIsRejected(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	b := s.logIn("operator")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/console/", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	r.Host = "weir.evil.example"
	b.do(r)
	g.Expect(b.status).To(Equal(http.StatusMisdirectedRequest))
}
