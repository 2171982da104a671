// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// login returns the request that the policies here match.
func login() plan.Attributes {
	return plan.Attributes{
		Method: "POST", Host: "shop.example", Path: "/login", Domain: "edge", Descriptors: descriptors("generic_key=login"),
		RemoteAddress: netip.MustParseAddr("192.0.2.7"),
	}
}

// spelling is one way to write the request of login().
type spelling struct {
	edit func(*plan.Attributes)
	// distinct is why this is another request, or empty if it is the same one.
	distinct string
}

func path(text, distinct string) spelling {
	return spelling{func(a *plan.Attributes) { a.Path = text }, distinct}
}

func host(text, distinct string) spelling {
	return spelling{func(a *plan.Attributes) { a.Host = text }, distinct}
}

func method(text, distinct string) spelling {
	return spelling{func(a *plan.Attributes) { a.Method = text }, distinct}
}

func domain(text, distinct string) spelling {
	return spelling{func(a *plan.Attributes) { a.Domain = text }, distinct}
}

func sent(distinct string, texts ...string) spelling {
	return spelling{func(a *plan.Attributes) { a.Descriptors = descriptors(texts...) }, distinct}
}

// A client cannot bypass a policy by spelling a request differently. The intended
// distinctions are in docs/spec/ratelimitpolicy.md.
func TestSpellingsOfARequestMatchAlike(t *testing.T) {
	const (
		separates = "an escaped slash, a backslash and a semicolon separate nothing"
		exact     = "a path is compared whole, and in its case"
		data      = "an escaped character that a path cannot contain is part of the name"
		once      = "escapes are decoded once"
		proxies   = "values from proxies are compared unchanged"
	)
	policy := makePlan("a/x", matching(plan.Match{
		Hosts: []string{"shop.example", "192.0.2.1"}, Methods: []string{"POST"}, Paths: []string{"/login"},
		Domain: "edge", Descriptors: matchingDescriptor("generic_key=login").Descriptors, When: `request.path == "/login"`,
	}))
	for i, tc := range []spelling{
		path("//login", ""), path("///login", ""), path("/.//login", ""), path("login", ""), path("./login", ""),
		path("/./login", ""), path("/../login", ""), path("/x/../login", ""), path("/x//../login", ""), path("/x/y/../../login", ""),
		path("/%2e/login", ""), path("/x/%2e%2e/login", ""), path("/x/.%2E/login", ""), path("/x/%2E./login", ""), path("/%2e%2E//login", ""),
		path("/%6cogin", ""), path("/%6Cogin", ""), path("/%6c%6F%67%69%6e", ""),
		path("/login?", ""), path("/login?a=/x/../", ""), path("/login#", ""), path("/login#?x", ""), path("/login?#x", ""),
		path("/login?%00", ""), path("//x/..//login?\x00", ""),

		path("/login/", exact), path("/LOGIN", exact), path("/login.", exact), path("/login..", exact), path("/login/.", exact), path("/login/x/..", exact),
		path("/login%2F", separates), path("/login%2f", separates), path("/x/..%2Flogin", separates), path("/%2Flogin", separates),
		path(`\login`, separates), path("/%5Clogin", separates), path(`/x\..\login`, separates), path("/%5c..%5clogin", separates),
		path("/login;", separates), path("/login;v=1", separates), path("/login%3Bv=1", separates), path("/x/..;/login", separates),
		path("/login%00", data), path("/login\x00", data), path("/login%20", data), path("/login%09", data), path("/login%3Fx", data), path("/login%23x", data),
		path("/%C0%AFlogin", data), path("/%c0%ae%c0%ae/login", data), path("/%E0%80%AFlogin", data), path("/lo\xc1\xa7in", data), path("/login\xff", data),
		path("/%256cogin", once), path("/x/%252e%252e/login", once), path("/%%36cogin", once), path("/login%", once),

		host("SHOP.Example", ""), host("shop.example:443", ""), host("shop.example.", ""), host("shop.example.:443", ""), host("SHOP.EXAMPLE.:0", ""),
		host("shop.example..", ""), host("shop.example:80:443", ""), host("shop.example:x", ""), host(" shop.example ", ""), host("shop.example :80", ""),
		host("192.0.2.1", ""), host("192.0.2.1:80", ""), host("192.0.2.1.", ""), host("[::ffff:192.0.2.1]", ""), host("[::FFFF:c000:0201]:443", ""), host("::ffff:192.0.2.1", ""),
		host("www.shop.example", "another name"), host("example", "another name"), host("shop.example\x00", "no name"),
		host("3221225985", "no address"), host("192.0.2.01", "no address"), host("[2001:db8::1]:80", "another address"),

		method("post", ""), method("Post", ""), method("POSTS", "another method"), method("", "no method"),
		domain("Edge", proxies), domain("edge ", proxies), domain("", proxies),
		sent("", "generic_key=login", "generic_key=login"), sent("", "a=1", "generic_key=login"), sent("", "generic_key=x generic_key=login"),
		sent("", "generic_key=login generic_key=x"), sent("", "a=1 generic_key=login b=2"),
		sent(proxies, "generic_key=Login"), sent(proxies, "Generic_Key=login"), sent(proxies, "generic_key", "login"), sent(proxies),
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			a := login()
			tc.edit(&a)
			as, want := tc.distinct, limiter.ReasonNoPolicy
			if tc.distinct == "" {
				as, want = "the same", limiter.ReasonAllowed
			}
			d := newFixture(policy).decide(t, &limiter.Check{Cost: 1, Attributes: a})
			NewWithT(t).Expect(d.Reason).To(Equal(want), "%+v: %s", a, as)
		})
	}
}

// A server may treat more spellings as one path than Weir does. A prefix matches those
// that continue after it.
func TestPrefixMatchesLongerSpellings(t *testing.T) {
	policy := makePlan("a/x", matching(plan.Match{Paths: []string{"/login*"}}))
	for _, text := range []string{
		"/login/", "/login.", "/login/x/..", "/login%2F", "/login%5C", "/login;v=1", "/login%3Bv=1", "/login%00", "/login%20", "/login%3Fx", "/login\xff", "/login%",
	} {
		d := newFixture(policy).decide(t, &limiter.Check{Cost: 1, Attributes: plan.Attributes{Path: text}})
		NewWithT(t).Expect(d.Reason).To(Equal(limiter.ReasonAllowed), text)
	}
}

// An address is one key, however it is written.
func TestSpellingsOfAnAddressShareAKey(t *testing.T) {
	address := plan.KeyPart{Type: plan.KeyRemoteAddress, IPv4PrefixLength: 32, IPv6PrefixLength: 64}
	f := newFixture(makePlan("a/x", keyed(address, expression("remoteAddress"), user)))
	spellings := map[string][]string{
		"192.0.2.7|192.0.2.7|x": {"192.0.2.7", "::ffff:192.0.2.7", "::ffff:c000:207", "0:0:0:0:0:FFFF:192.0.2.7", "::ffff:192.0.2.7%eth0"},
		"fe80%3A%3A/64|fe80%3A%3A1|x": {
			"fe80::1", "FE80:0:0:0:0:0:0:1", "fe80::1%eth0", "fe80::1%1",
		},
	}
	for want, addresses := range spellings {
		for _, text := range addresses {
			t.Run(text, func(t *testing.T) {
				a := plan.Attributes{RemoteAddress: netip.MustParseAddr(text), Descriptors: descriptors("user=x user=y", "user=z")}
				f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Peek: true, Attributes: a})
				NewWithT(t).Expect(f.evaluatedKeys()).To(Equal([]string{want}))
			})
		}
	}
}

func TestSpellingsOfAnAddressSelectAnOverride(t *testing.T) {
	f := newFixture(makePlan("a/x", overridden(allow(cidrs("10.0.0.0/8")))))
	for _, text := range []string{"10.0.0.1", "::ffff:10.0.0.1", "::ffff:a00:1"} {
		d := f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Attributes: from(text)})
		NewWithT(t).Expect(d.Reason).To(Equal(limiter.ReasonExempt), text)
	}
}

// A client cannot leave its budget by repeating the header of the key, or with values that are too
// large to be read: the policy denies, with any onMissingKey. Overrides that need no key apply.
func TestAnAmbiguousKeyIsDenied(t *testing.T) {
	repeated := withKey("secret,nonce")
	repeated.RepeatedHeaders = []string{"x-api-key"}
	principals := plan.Attributes{PrincipalRepeated: true}
	repeatedValues := plan.Attributes{
		Path: "/x?account=a&account=b", Headers: map[string]string{"cookie": "account=a; account=b"},
	}
	unread := plan.Attributes{
		Path: "/x?account=a&" + strings.Repeat("x", plan.MaxReadBytes), Headers: map[string]string{"cookie": "account=a" + strings.Repeat(";x", plan.MaxReadValues)},
	}
	cookie := plan.KeyPart{Type: plan.KeyCookie, Cookie: "account"}
	parameter := plan.KeyPart{Type: plan.KeyQueryParameter, QueryParameter: "account"}
	large := withKey(strings.Repeat("x", 9000))
	many := withKey("secret")
	for i := range 200 {
		many.Headers["x-"+strconv.Itoa(i)] = ""
	}
	for name, tc := range map[string]struct {
		part plan.KeyPart
		a    plan.Attributes
	}{
		"a header":                        {apiKey, repeated},
		"a principal":                     {plan.KeyPart{Type: plan.KeyPrincipal}, principals},
		"a header of an expression":       {expression(`"v" + request.headers["x-api-key"]`), repeated},
		"a cookie":                        {cookie, repeatedValues},
		"a query parameter":               {parameter, repeatedValues},
		"a cookie of many":                {cookie, unread},
		"a long query":                    {parameter, unread},
		"a cookie of an expression":       {expression("request.cookies.account"), repeatedValues},
		"a parameter of an expression":    {expression("request.query.account"), unread},
		"a principal of an expression":    {expression("principal"), principals},
		"a large value of an expression":  {expression(`request.headers["x-api-key"].lowerAscii()`), large},
		"an expression over many headers": {expression(`request.headers.exists(name, name == "x-api-key") ? "a" : "b"`), many},
	} {
		for _, onMissing := range []plan.OnMissingKey{plan.MissingKeySkip, plan.MissingKeyShare, plan.MissingKeyDeny} {
			t.Run(name+" "+string(onMissing), func(t *testing.T) {
				g := NewWithT(t)
				d := newFixture(makePlan("a/x", keyed(tc.part), missing(onMissing))).decide(t, &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Attributes: tc.a})
				g.Expect([]any{d.Allowed, d.Reason}).To(Equal([]any{false, limiter.ReasonMissingKey}))
			})
		}
	}
	repeated.RemoteAddress = netip.MustParseAddr("10.0.0.1")
	office := newFixture(makePlan("a/x", keyed(apiKey), overridden(allow(cidrs("10.0.0.0/8")))))
	NewWithT(t).Expect(office.decide(t, &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Attributes: repeated}).Reason).To(Equal(limiter.ReasonExempt))
}

// One of many headers is read as one of few.
func TestManyHeadersDoNotChangeTheKey(t *testing.T) {
	f := newFixture(makePlan("a/x", keyed(expression(`request.headers["x-api-key"]`)), missing(plan.MissingKeySkip)))
	for range 4 {
		a := withKey("secret")
		for i := range 200 {
			a.Headers["x-"+strconv.Itoa(i)] = ""
		}
		f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Attributes: a})
		NewWithT(t).Expect(f.evaluatedKeys()).To(Equal([]string{"secret"}))
	}
}

// Frontends convert header names to lower case, and policies are compiled with lower-case
// names, so a policy finds a header in any case.
func TestHeaderNamesMatchInAnyCase(t *testing.T) {
	f := newFixture(makePlan("a/x", keyed(apiKey, expression(`request.headers["X-API-Key"]`)), matching(plan.Match{When: `"X-Api-KEY" in request.headers`})))
	f.decide(t, &limiter.Check{Cost: 1, Attributes: withKey("k")})
	NewWithT(t).Expect(f.evaluatedKeys()).To(Equal([]string{"k|k"}))
}
