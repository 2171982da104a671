// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
)

const bob = "/console/key?policy=shop/login&key=bob-the-builder"

func change(action string) url.Values {
	return url.Values{"policy": {"shop/login"}, "key": {"bob-the-builder"}, "action": {action}, "duration": {"10m"}}
}

func TestReaderReadsAndChangesNothing(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	s.exhaust("shop/login", "bob-the-builder")
	b := s.logIn("reader")
	b.open("/console/")
	g.Expect(b.page).To(And(ContainSubstring(`<code class="part">bob-…</code>`), ContainSubstring("masked"), Not(ContainSubstring("builder"))))
	b.open(bob)
	g.Expect(b.page).To(And(ContainSubstring("Admits again in"), Not(ContainSubstring("/console/confirm"))))
	for _, action := range []string{"block", "lift", "reset", "lift-all"} {
		b.open("/console/try")
		b.submit("/console/change", change(action))
		g.Expect(b.status).To(Equal(http.StatusForbidden), action)
		g.Expect(b.page).To(ContainSubstring("You may not see or do this"), action)
	}
	g.Expect(s.log.String()).NotTo(ContainSubstring(`"user"`))
}

func TestOperatorChangesAKey(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	s.exhaust("shop/login", "bob-the-builder")
	b := s.logIn("operator")
	b.open(bob)
	g.Expect(b.page).To(And(ContainSubstring(`value="lift"`), ContainSubstring(`value="reset"`), ContainSubstring(`value="block"`)))

	b.submit("/console/confirm", change("block"))
	g.Expect(b.page).To(And(ContainSubstring("Block this key?"), ContainSubstring("10m")))
	b.open(bob)
	g.Expect(b.page).NotTo(ContainSubstring("<b>Blocked</b>"), "a question changes nothing")
	b.submit("/console/change", change("block"))
	g.Expect(b.page).To(And(ContainSubstring("The key is blocked."), ContainSubstring("<b>Blocked</b> for another"), ContainSubstring("by an operator")))
	b.submit("/console/change", change("lift"))
	g.Expect(b.page).To(And(ContainSubstring("The block is lifted."), Not(ContainSubstring("<b>Blocked</b>"))))
	b.submit("/console/change", change("lift"))
	g.Expect(b.page).To(ContainSubstring("The key was not blocked."))
	g.Expect(b.page).To(ContainSubstring("Admits again in"), "spent units stay spent")
	b.submit("/console/change", change("reset"))
	g.Expect(b.page).To(And(ContainSubstring("The key is reset."), ContainSubstring("Admits now.")))
	b.submit("/console/change", change("block"))
	b.open("/console/try")
	b.submit("/console/change", change("lift-all"))
	g.Expect(b.page).To(And(ContainSubstring("The blocks are lifted. Number: 1."), ContainSubstring("<h1>shop/login</h1>")))
	g.Expect(s.log.String()).To(MatchRegexp(`"msg":"Blocked a key","policy":"shop/login","keyHash":"[0-9a-f]{16}","user":"operator","claimedUser":"alice <script>","duration":"10m0s"`))
	g.Expect(s.log.String()).NotTo(ContainSubstring("builder"))
}

func TestListedKeyOpensByItsHash(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	s.exhaust("shop/login", "bob-the-builder")
	hash := s.e.KeyHash("bob-the-builder")
	b := s.logIn("operator")
	b.open("/console/policy?policy=shop/login")
	g.Expect(b.page).To(ContainSubstring(`href="/console/key?keyHash=` + hash + `&amp;policy=shop%2Flogin"`))
	b.open("/console/key?policy=shop/login&keyHash=" + hash)
	g.Expect(b.page).To(And(ContainSubstring("bob-…"), Not(ContainSubstring("builder")), ContainSubstring("Admits again in")))
	fields := url.Values{"policy": {"shop/login"}, "keyHash": {hash}, "action": {"reset"}}
	b.submit("/console/change", fields)
	g.Expect(b.page).To(ContainSubstring("The key is reset."))
	b = s.logIn("admin")
	b.open("/console/key?policy=shop/login&keyHash=" + hash)
	g.Expect(b.page).To(ContainSubstring("bob-the-builder"), "the verb reveal")
	b.open("/console/key?policy=shop/login&keyHash=0123456789abcdef")
	g.Expect(b.status).To(Equal(http.StatusNotFound))
}

func TestForeignPoliciesAreCountedNotNamed(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	s.exhaust("bank/vault", "eve")
	b := s.logIn("reader")
	for _, path := range []string{"/console/", "/console/policies", "/console/policies?search=bank"} {
		b.open(path)
		g.Expect(b.page).To(And(ContainSubstring("you may not list"), Not(ContainSubstring("vault"))), path)
	}
	for _, path := range []string{"/console/policy?policy=bank/vault", "/console/policy?policy=bank/nonesuch", "/console/key?policy=bank/vault&key=eve"} {
		b.open(path)
		g.Expect(b.status).To(Equal(http.StatusForbidden), path)
	}
	b.open("/console/policy?policy=shop/nonesuch")
	g.Expect(b.status).To(Equal(http.StatusNotFound))
	b.open("/console/policy?policy=shop")
	g.Expect(b.status).To(Equal(http.StatusNotFound))
	b = s.logIn("stranger")
	b.open("/console/policies")
	g.Expect(b.page).To(And(ContainSubstring("You may list no policy"), Not(ContainSubstring("shop/login"))))
}

// The plan needs the verb of GET /v1/plan.
func TestListerSeesNoPlan(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	s.exhaust("shop/login", "bob-the-builder")
	b := s.logIn("lister")
	b.open("/console/policy?policy=shop/login")
	g.Expect(b.page).To(And(ContainSubstring("bob-…"), ContainSubstring("may not read the plan"), Not(ContainSubstring("x-account"))))
	b.open(bob)
	g.Expect(b.status).To(Equal(http.StatusForbidden))
	b = s.logIn("reader")
	b.open("/console/policy?policy=shop/login")
	g.Expect(b.page).To(ContainSubstring("x-account"))
}

// Keys that an override selects may be values of headers as well.
func TestKeysOfOverridesAreMasked(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	p := policy("shop", "login", plan.KeyPart{Type: plan.KeyHeader, Header: "x-account"})
	p.Overrides = []plan.Override{{Name: "partners", Keys: []string{"partner-secret"}, Action: plan.ActionAllow}}
	s.e.Use(index.NewSnapshot(8, []*plan.Plan{p}))
	b := s.logIn("reader")
	b.open("/console/policy?policy=shop/login")
	g.Expect(b.page).To(And(ContainSubstring("part…"), Not(ContainSubstring("partner-secret"))))
	b = s.logIn("admin")
	b.open("/console/policy?policy=shop/login")
	g.Expect(b.page).To(ContainSubstring("partner-secret"))
}

func TestGuestsReadOnLoopback(t *testing.T) {
	g := NewWithT(t)
	s := start(t, func(o *endpoint.Options) { o.Authorizer, o.ConsoleGuests = nil, true })
	s.exhaust("shop/login", "bob-the-builder")
	b := s.browser()
	for _, path := range paths {
		b.open(path)
		g.Expect(b.status).To(Equal(http.StatusOK), path)
		g.Expect(b.page).NotTo(MatchRegexp("Log out|/console/confirm"), path)
	}
	b.open("/console/")
	g.Expect(b.page).To(ContainSubstring("bob-the-builder"), "keys are not masked on this machine")
	b.open("/console/try")
	for _, action := range []string{"block", "lift", "reset", "lift-all"} {
		b.submit("/console/change", change(action))
		g.Expect(b.status).To(Equal(http.StatusForbidden), action)
		b.open("/console/try")
	}
	b.submit("/console/try", url.Values{"url": {"/login"}, "method": {"GET"}})
	g.Expect(b.status).To(Equal(http.StatusOK))
	b.open("/console/try")
	b.submit("/console/login", url.Values{"token": {"operator"}})
	g.Expect(b.status).To(Equal(http.StatusUnauthorized))
	status, _ := s.send(http.MethodGet, "/v1/blocks", "operator")
	g.Expect(status).To(Equal(http.StatusNotFound), "the API stays off")
	status, _ = s.send(http.MethodPost, "/v1/console", "operator")
	g.Expect(status).To(Equal(http.StatusNotFound))
}

// Whatever a client or the author of a policy writes is text in every page.
func TestHostileTextStaysText(t *testing.T) {
	const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`
	g, s := NewWithT(t), start(t, nil)
	p := policy("shop", "hostile", plan.KeyPart{Type: plan.KeyPrincipal})
	p.Matches = []plan.Match{{Hosts: []string{hostile}, Paths: []string{hostile}, Domain: hostile, Descriptors: []plan.EntryMatch{{Key: hostile, Value: hostile}}, When: hostile}}
	p.Denial = plan.Denial{Code: hostile, Message: hostile}
	p.Overrides = []plan.Override{{Name: "o", Keys: []string{hostile}, Action: plan.ActionDeny}}
	s.e.Use(index.NewSnapshot(8, []*plan.Plan{p, policy("shop", "login", plan.KeyPart{Type: plan.KeyPrincipal})}))
	s.exhaust("shop/login", hostile)
	b := s.logIn("admin")
	expect := func(what string) {
		t.Helper()
		g.Expect(b.page).NotTo(MatchRegexp(`<script|<img src=x|onerror=alert\(1\)>[^&]`), what)
		g.Expect(b.page).To(ContainSubstring("alert(1)"), what)
	}
	quoted := url.QueryEscape(hostile)
	for _, path := range []string{
		"/console/", "/console/policy?policy=shop/hostile", "/console/policy?policy=shop/login", "/console/policies?search=" + quoted,
		"/console/key?policy=shop/login&key=" + quoted,
	} {
		b.open(path)
		expect(path)
	}
	b.submit("/console/confirm", url.Values{"policy": {"shop/login"}, "key": {hostile}, "action": {"block"}, "duration": {"1m"}})
	expect("the confirmation")
	b.submit("/console/change", url.Values{"policy": {"shop/login"}, "key": {hostile}, "action": {"block"}, "duration": {"1m"}})
	expect("the change")
	for _, field := range []string{"url", "method", "remoteAddress", "headers", "principal", "domain", "descriptors"} {
		b.open("/console/try")
		b.submit("/console/try", url.Values{"url": {"/x"}, field: {hostile}})
		expect(field)
	}
	// The policy of a query is not a link to elsewhere.
	b.open("/console/key?policy=" + quoted)
	g.Expect(b.status).To(BeElementOf(http.StatusBadRequest, http.StatusForbidden))
	b.open("/console/policy?policy=javascript:alert(1)/x")
	g.Expect(b.page).NotTo(ContainSubstring("href=\"javascript"))
}

func TestTryExplains(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	p := policy("shop", "login", plan.KeyPart{Type: plan.KeyHeader, Header: "x-account"})
	p.Matches = []plan.Match{{Hosts: []string{"shop.example"}, Methods: []string{"POST"}, Paths: []string{"/login"}}}
	s.e.Use(index.NewSnapshot(8, []*plan.Plan{p, policy("shop", "named")}))
	b := s.logIn("reader")
	b.open("/console/try")
	b.submit("/console/try", url.Values{"method": {"POST"}, "url": {"https://shop.example/login"}, "headers": {"X-Account: bob\r\n\r\nX-B: c"}})
	g.Expect(b.page).To(And(ContainSubstring("Policies that apply"), ContainSubstring(`<code class="part">bob</code>`), ContainSubstring("shop/login")))
	b.submit("/console/try", url.Values{"method": {"GET"}, "url": {"https://shop.example/login"}})
	g.Expect(b.page).To(And(ContainSubstring("Near misses"), ContainSubstring("another value of methods"), ContainSubstring(">POST<"),
		MatchRegexp(`Policies without matches: \d+\. They apply only to checks that name them`), Not(ContainSubstring("ByNameOnly"))))
	for field, value := range map[string]string{"url": "x", "headers": "novalue", "descriptors": "=1", "remoteAddress": "x"} {
		b.open("/console/try")
		fields := url.Values{"url": {"/login"}}
		fields.Set(field, value)
		b.submit("/console/try", fields)
		g.Expect(b.status).To(Equal(http.StatusBadRequest), field)
		g.Expect(b.page).To(ContainSubstring(`role="alert"`), field)
	}
}

func TestInvalidForms(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	b := s.logIn("operator")
	for _, duration := range []string{"", "x", "-1m", "0"} {
		b.open("/console/try")
		fields := change("block")
		fields.Set("duration", duration)
		b.submit("/console/confirm", fields)
		g.Expect(b.page).To(ContainSubstring("For: must be a time such as 15m or 1h30m."), duration)
	}
	fields := change("block")
	fields.Set("duration", "7d")
	b.submit("/console/confirm", fields)
	g.Expect(b.page).To(ContainSubstring(`name="duration" value="168h"`))
	fields = change("block")
	fields.Set("duration", "9999h")
	b.submit("/console/change", fields)
	g.Expect(b.page).To(MatchRegexp(`role="alert">duration: `))
	for _, path := range []string{"/console/confirm", "/console/change"} {
		b.open("/console/try")
		b.submit(path, change("nonesuch"))
		g.Expect(b.status).To(Equal(http.StatusBadRequest))
	}
	b.open("/console/try")
	b.submit("/console/try", url.Values{"url": {strings.Repeat("x", 100_000)}})
	g.Expect(b.status).To(Equal(http.StatusForbidden), "a form is bounded")
}

// 16 limits, and a key of 4 KiB.
func TestLargestKeyAndPolicy(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	p := policy("shop", "large", make([]plan.KeyPart, 8)...)
	for i := range p.Key {
		p.Key[i] = plan.KeyPart{Type: plan.KeyPrincipal}
	}
	for i := range 15 {
		limit := p.Limits[0]
		limit.Name += string(rune('a' + i))
		p.Limits = append(p.Limits, limit)
	}
	s.e.Use(index.NewSnapshot(8, []*plan.Plan{p}))
	parts := make([]string, 8)
	for i := range parts {
		parts[i] = strings.Repeat("é", 256)
	}
	s.exhaust("shop/large", parts...)
	b := s.logIn("operator")
	b.open("/console/policy?policy=shop/large")
	g.Expect(b.status).To(Equal(http.StatusOK))
	b.submit("/console/key", url.Values{"policy": {"shop/large"}, "key": parts})
	g.Expect(b.status).To(Equal(http.StatusOK), b.page)
	g.Expect(strings.Count(b.page, `<article class="limit">`)).To(Equal(16))
	b.submit("/console/change", url.Values{"policy": {"shop/large"}, "key": parts, "action": {"block"}, "duration": {"1m"}})
	g.Expect(b.page).To(ContainSubstring("<b>Blocked</b>"))
	_, err := s.e.Decide(t.Context(), &limiter.Check{Policies: []string{"shop/large"}, Key: parts, Cost: 1})
	g.Expect(err).NotTo(HaveOccurred())
}

func TestWithoutObservation(t *testing.T) {
	g := NewWithT(t)
	s := start(t, func(o *endpoint.Options) { o.Observe = false })
	b := s.logIn("operator")
	for _, path := range paths {
		b.open(path)
		g.Expect(b.status).To(Equal(http.StatusOK), path)
	}
	b.open("/console/")
	g.Expect(b.page).To(ContainSubstring("--observe=false"))
}

func TestNoLeader(t *testing.T) {
	g := NewWithT(t)
	var unready *plan.Unready
	s := start(t, func(o *endpoint.Options) { o.Unready = func() *plan.Unready { return unready } })
	b := s.logIn("reader")
	for _, path := range []string{"/console/", "/console/policies", "/console/policy?policy=shop/login"} {
		b.open(path)
		g.Expect(b.page).To(MatchRegexp("(?i)no leader reports"), path)
	}
	unready = &plan.Unready{Count: 3, Policies: []plan.UnreadyPolicy{
		{ID: "bank/broken", Reason: "Invalid"}, {ID: "shop/broken", Reason: "Invalid"}, {ID: "shop/login", Reason: "NotAccepted"},
	}}
	b.open("/console/")
	g.Expect(b.page).To(And(ContainSubstring("shop/broken"), Not(ContainSubstring("bank/")), MatchRegexp(`Others that are not ready: <span class="num">1<`)))
	b.open("/console/policies")
	g.Expect(b.page).To(And(ContainSubstring("not loaded"), ContainSubstring("NotAccepted"), Not(ContainSubstring("bank/"))))
	b.open("/console/policy?policy=shop/login")
	g.Expect(b.page).To(ContainSubstring("Not ready: NotAccepted"))
	b.open("/console/policy?policy=shop/broken")
	g.Expect(b.page).To(And(ContainSubstring("Not ready: Invalid"), ContainSubstring("No plan of this policy is in force")))
	b.open("/console/policy?policy=shop/search")
	g.Expect(b.page).To(ContainSubstring(`<span class="badge good">Ready</span>`))
}
