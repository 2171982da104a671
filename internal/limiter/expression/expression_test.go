// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

func someRequest() *plan.Attributes {
	return &plan.Attributes{
		Method: "POST", Host: "shop.example", Path: "/v1/orders/7", Principal: "gold-acme",
		RemoteAddress: netip.MustParseAddr("2001:db8::1"),
		Headers:       map[string]string{"x-tier": "gold", "x-empty": ""},
		Domain:        "edge",
		Descriptors: []plan.Descriptor{
			{{Key: "generic_key", Value: "login"}, {Key: "user", Value: "7"}, {Key: "user", Value: "8"}, {Key: "Bare"}},
			{{Key: "user", Value: "9"}, {Key: "plan", Value: "gold"}},
		},
	}
}

func TestConditions(t *testing.T) {
	for text, want := range map[string]bool{
		`request.method == "POST" && request.host == "shop.example"`:         true,
		`request.path.startsWith("/v1/")`:                                    true,
		`request.path.split("/")[1] == "v1"`:                                 true,
		`request.path.split("/").exists(s, s == "orders")`:                   true,
		`request.path.matches("^/v[0-9]+/orders/.*$")`:                       true,
		`request.path.matches("^/v1/") || request.path.matches("^/v2/")`:     true,
		`principal.startsWith("gold-")`:                                      true,
		`principal.upperAscii() == "GOLD-ACME"`:                              true,
		`principal in ["acme", "globex"]`:                                    false,
		`remoteAddress == "2001:db8::1"`:                                     true,
		`request.headers["x-tier"] == "gold"`:                                true,
		`request.headers["X-Tier"] == "gold"`:                                true,
		`request.headers["x-absent"] == ""`:                                  true,
		`request.headers["x-absent"] != "internal"`:                          true,
		`request.headers.xabsent == ""`:                                      true,
		`"X-Tier" in request.headers && "x-empty" in request.headers`:        true,
		`"x-absent" in request.headers`:                                      false,
		`has(request.headers.xabsent)`:                                       false,
		`request.headers.exists(name, name == "x-tier")`:                     true,
		`request.headers.size() == 2`:                                        true,
		`request.headers == {"x-tier": "gold", "x-empty": ""}`:               true,
		`request.headers.map(n, request.headers[n]).exists(v, v == "gold")`:  true,
		`"V1/a".split("/").map(s, s.lowerAscii()).exists(s, s == "v1")`:      true,
		`int(request.path.split("/")[3]) > 5`:                                true,
		`request.path.replace("/v1/", "/").split("/")[1] == "orders"`:        true,
		`(request.host + "/" + principal).split("/")[1] == "gold-acme"`:      true,
		`request.domain == "edge"`:                                           true,
		`descriptor["generic_key"] == "login" && descriptor.user == "7"`:     true,
		`descriptor["plan"] == "gold"`:                                       true,
		`descriptor["Generic_Key"] == "" && descriptor["absent"] == ""`:      true,
		`"Bare" in descriptor && has(descriptor.Bare)`:                       true,
		`"bare" in descriptor || has(descriptor.absent)`:                     false,
		`size(descriptor) == 4`:                                              true,
		`descriptor.exists(k, k == "user" && descriptor[k] == "7")`:          true,
		`request.headers["x-tier"] == "gold" ? principal != "" : 1 / 0 == 1`: true,
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			compiled, err := expression.Compile[bool](text)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(compiled.Evaluate(someRequest(), someRequest().Descriptors)).To(Equal(want))
		})
	}
}

func TestValues(t *testing.T) {
	for text, want := range map[string]string{
		`request.path.split("/")[2]`:                  "orders",
		`request.headers["x-tier"] + ":" + principal`: "gold:gold-acme",
		`request.headers["x-absent"]`:                 "",
		`principal.substring(5).lowerAscii()`:         "acme",
		`request.domain + "/" + descriptor["user"]`:   "edge/7",
		`descriptor["absent"]`:                        "",
		`principal == "" ? remoteAddress : principal`: "gold-acme",
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			compiled, err := expression.Compile[string](text)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(compiled.Evaluate(someRequest(), someRequest().Descriptors)).To(Equal(want))
		})
	}
}

func TestAbsentFactsAreEmpty(t *testing.T) {
	g := NewWithT(t)
	compiled, err := expression.Compile[bool](`request.method + request.host + request.path + principal + remoteAddress +
		request.domain + request.headers["x"] + descriptor["x"] == "" && request.headers.size() == 0 && !has(request.headers.x) &&
		size(descriptor) == 0 && !("x" in descriptor) && request.query.x + request.cookies["x"] + claims.x["y"] == "" &&
		size(request.query) + size(request.cookies) + size(claims) + size(claims.x) == 0 && !has(request.query.x) &&
		!("x" in request.cookies) && !has(claims.x) && !has(claims.x.y) && !("y" in claims["x"])`)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(compiled.Evaluate(&plan.Attributes{}, nil)).To(BeTrue())
}

func TestCompileRejects(t *testing.T) {
	names := "request.method, request.host, request.path, request.headers, request.query, request.cookies, request.domain, descriptor, claims, principal, remoteAddress"
	for text, want := range map[string]string{
		``:                                   `Syntax error`,
		`principal ==`:                       `1:13: Syntax error`,
		`principal == 1`:                     `1:11: found no matching overload for '_==_' applied to '(string, int)'`,
		"true &&\n user == ''":               `2:2: undeclared reference to 'user'; the variables are ` + names,
		`request.body == ""`:                 `1:1: undeclared reference to 'request.body'; the variables are ` + names,
		`request.hedaers["x"] == ""`:         `1:1: undeclared reference to 'request.hedaers'; did you mean request.headers?`,
		`request.header.x == ""`:             `1:1: undeclared reference to 'request.header'; did you mean request.headers?`,
		`true && header["x"] == ""`:          `1:9: undeclared reference to 'header'; did you mean request.headers?`,
		`request.querry.q == ""`:             `1:1: undeclared reference to 'request.querry'; did you mean request.query?`,
		`cookie["x"] == ""`:                  `1:1: undeclared reference to 'cookie'; did you mean request.cookies?`,
		`claim.jwt.sub == ""`:                `1:1: undeclared reference to 'claim'; did you mean claims?`,
		`request.claims.jwt.sub == ""`:       `1:1: undeclared reference to 'request.claims'; did you mean claims?`,
		`claims.jwt == ""`:                   `1:12: found no matching overload for '_==_' applied to '(map(string, string), string)'`,
		`request.principal == ""`:            `1:1: undeclared reference to 'request.principal'; did you mean principal?`,
		`requets.path == ""`:                 `1:1: undeclared reference to 'requets.path'; did you mean request.path?`,
		`remoteaddress == ""`:                `1:1: undeclared reference to 'remoteaddress'; did you mean remoteAddress?`,
		`principle.size() == 0`:              `1:1: undeclared reference to 'principle'; did you mean principal?`,
		`request.path.startswith("/a")`:      `1:24: undeclared reference to function 'startswith'; did you mean startsWith?`,
		`request.headers["x"].shout() == ""`: `1:27: undeclared reference to function 'shout'`,
		`principal`:                          `must yield bool, not string`,
		`dyn(true)`:                          `must yield bool, not dyn`,
		`principal.matches("(")`:             `1:19: invalid matches argument`,
		`["%s"].join(",") == "x"`:            `function join is not available`,
		`"%d".format([1]) == "1"`:            `function format is not available`,
		`strings.quote(principal) == "x"`:    `function strings.quote is not available`,
		strings.Repeat("!", 1024) + "true":   `is longer than 1024 characters`,
		strings.Repeat("1+", 400) + "1 == 1": `max recursion depth exceeded`,
		`principal.matches(request.path)`:    `the pattern of matches() must be a literal: write a condition for each pattern`,
		`["^/v1/", "^/v2/"].exists(r, request.path.matches(r))`: `the pattern of matches() must be a literal`,
		`request.path.matches("a" + "b")`:                       `the pattern of matches() must be a literal`,
		`principal.matches("(a{1,50}){1,15}z")`:                 `may take 130 ms for the most expensive request, at most 1 ms`,
		`timestamp(principal).getHours("Europe/Berlin") == 1`:   `a time zone must be an offset such as "+02:00"`,
		`timestamp(principal).getHours(request.path) == 1`:      `a time zone must be an offset such as "+02:00"`,
		`{[1]: 2} == {}`: `a map or list as a key is not available`,
		`request.path.split("/").exists(s, s.contains("x"))`:                     `may take`,
		`descriptor.all(a, descriptor.all(b, descriptor[a] != b))`:               `may take`,
		`request.headers.all(a, request.headers.all(b, a != b))`:                 `may take`,
		`request.path.replace("/", request.path) == ""`:                          `may take`,
		`["a"]` + strings.Repeat(".map(a, a+a)", 20) + `[0] == ""`:               `may take`,
		`[[1]]` + strings.Repeat(".map(a, a+a)", 60) + `.exists(a, a == a)`:      `may take`,
		`request.path.split("")` + strings.Repeat(".map(a, a+a)", 20) + ` == []`: `may take`,
		`"a"` + strings.Repeat(`.replace("a", "aaaaaaaa")`, 10) + ` == ""`:       `may take`,
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			_, err := expression.Compile[bool](text)
			g.Expect(err).To(MatchError(ContainSubstring(want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("\n"))
		})
	}
}

func TestCompileRejectsOtherType(t *testing.T) {
	_, err := expression.Compile[string](`true`)
	NewWithT(t).Expect(err).To(MatchError("must yield string, not bool"))
}

func TestEvaluateFails(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		edit func(*plan.Attributes)
		want string
	}{
		"an index out of bounds": {`request.path.split("/")[9] == ""`, nil, "index out of bounds: 9"},
		"not a number":           {`int(principal) > 1`, nil, "type conversion error"},
		"a division by zero":     {`1 / request.headers.size() > 1`, func(a *plan.Attributes) { a.Headers = nil }, "division by zero"},
		"a long value":           {`principal == ""`, func(a *plan.Attributes) { a.Principal = strings.Repeat("x", 8193) }, "a value of 8193 bytes is longer than 8192"},
		"a long header": {
			`request.headers["x-tier"] == ""`,
			func(a *plan.Attributes) { a.Headers["x-tier"] = strings.Repeat("x", 8193) }, "a value of 8193 bytes is longer than 8192",
		},
		"a long entry": {
			`descriptor["user"] == ""`,
			func(a *plan.Attributes) { a.Descriptors[0][1].Value = strings.Repeat("x", 8193) }, "a value of 8193 bytes is longer than 8192",
		},
		"many entries": {
			`descriptor.exists(key, key == "x")`,
			func(a *plan.Attributes) {
				for i := range 129 {
					a.Descriptors = append(a.Descriptors, plan.Descriptor{{Key: strconv.Itoa(i)}})
				}
			}, "there are more than 128 headers, descriptor entries or claims",
		},
		"many headers": {
			`request.headers.exists(name, name == "x")`,
			func(a *plan.Attributes) {
				for i := range 129 {
					a.Headers[strconv.Itoa(i)] = ""
				}
			}, "there are more than 128 headers, descriptor entries or claims",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a := someRequest()
			if tc.edit != nil {
				tc.edit(a)
			}
			compiled, err := expression.Compile[bool](tc.text)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = compiled.Evaluate(a, a.Descriptors)
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

// Headers and entries can be read by name, however many there are.
func TestReadingOneOfManyEntries(t *testing.T) {
	a := someRequest()
	a.Headers, a.Descriptors = map[string]string{}, nil
	for i := range 1000 {
		name := strconv.Itoa(i)
		a.Headers[name] = "h" + name
		a.Descriptors = append(a.Descriptors, plan.Descriptor{{Key: name, Value: "d" + name}, {Key: name, Value: "later"}})
	}
	for text, want := range map[string]string{
		`request.headers["777"] + descriptor["777"]`:                                 "h777d777",
		`request.headers["none"] + descriptor["none"]`:                               "",
		`"777" in request.headers && "777" in descriptor ? "both" : "not both"`:      "both",
		`"none" in request.headers || "none" in descriptor ? "one" : "none"`:         "none",
		`size(request.headers) == 1000 && size(descriptor) == 1000 ? "all" : "some"`: "all",
	} {
		compiled, err := expression.Compile[string](text)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(compiled.Evaluate(a, a.Descriptors)).To(Equal(want), text)
	}
	for _, text := range []string{
		`request.headers.exists(name, name == "777")`, `descriptor.all(key, key != "777")`,
		`request.headers == {"a": "b"}`,
	} {
		compiled, err := expression.Compile[bool](text)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		_, err = compiled.Evaluate(a, a.Descriptors)
		NewWithT(t).Expect(err).To(MatchError(expression.ErrUnreadable), text)
	}
}

// Queries, cookies and claims are read like headers. What servers may read in different ways is an error.
func TestValuesOfRequests(t *testing.T) {
	a := &plan.Attributes{
		Query: "q=a+b&page=2&x=1&x=2&z=1;q2", Headers: map[string]string{"cookie": `tier="gold"; id=%41; d=1; d=2`},
		Claims: map[string]map[string]string{"jwt": {"sub": "7", "https://a.example/t": "acme", "a.b": "c"}},
	}
	clean := &plan.Attributes{Query: "q=1", Headers: map[string]string{"cookie": "tier=gold"}, Claims: a.Claims}
	for text, want := range map[string]struct{ readable, clean bool }{
		`request.query.q == "a b" && request.query["page"] == "2"`:                                   {true, true},
		`request.cookies.tier == "gold" && request.cookies["id"] == "A"`:                             {true, true},
		`claims.jwt.sub == "7" && claims["jwt"]["https://a.example/t"] == "acme"`:                    {true, true},
		`claims.jwt["a.b"] == "c" && has(claims.jwt.sub) && "jwt" in claims && !has(claims.x)`:       {true, true},
		`claims.exists(p, claims[p].exists(n, n == "sub")) && size(claims) == 1 && claims.jwt != {}`: {true, true},
		`request.query.x == "" || request.query.x != ""`:                                             {false, true},
		`request.query.z == "" || request.query.z != ""`:                                             {false, true},
		`request.cookies.d == "" || "d" in request.cookies || true`:                                  {true, true},
		`request.query.Q == "" || request.query.Q != ""`:                                             {false, false},
		`request.query.exists(n, n == "q") || size(request.query) == 0`:                              {false, true},
		`request.cookies == {"tier": "gold"}`:                                                        {false, true},
	} {
		compiled, err := expression.Compile[bool](text)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), text)
		for attributes, readable := range map[*plan.Attributes]bool{a: want.readable, clean: want.clean} {
			_, err := compiled.Evaluate(attributes, nil)
			if readable {
				NewWithT(t).Expect(err).NotTo(HaveOccurred(), text)
			} else {
				NewWithT(t).Expect(err).To(MatchError(expression.ErrUnreadable), text)
			}
		}
		if want.readable {
			NewWithT(t).Expect(compiled.Evaluate(a, nil)).To(BeTrue(), text)
		}
	}
	oversized := &plan.Attributes{Query: strings.Repeat("&", plan.MaxReadValues), Headers: map[string]string{"cookie": strings.Repeat("x", plan.MaxReadBytes+1)}}
	for i := range 5 {
		oversized.Claims = map[string]map[string]string{}
		for j := range i + 1 {
			oversized.Claims[strconv.Itoa(j)] = map[string]string{"a": "b"}
		}
	}
	for _, text := range []string{`request.query.q == ""`, `request.cookies.tier == ""`, `claims.exists(p, p == "x")`, `"q" in request.query`} {
		compiled, err := expression.Compile[bool](text)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), text)
		_, err = compiled.Evaluate(oversized, nil)
		NewWithT(t).Expect(err).To(MatchError(expression.ErrUnreadable), text)
	}
}

// A part of a key cannot come from a repeated header or principal; conditions read the joined
// values.
func TestRepeatedHeadersInKeys(t *testing.T) {
	a := someRequest()
	a.Headers = map[string]string{"x-api-key": "secret,nonce", "x-tier": "gold"}
	a.RepeatedHeaders, a.PrincipalRepeated = []string{"x-api-key"}, true
	for text, readable := range map[string]bool{
		`request.headers["X-Api-Key"]`: false, `request.headers["x-tier"]`: true, `principal`: false,
		`"x-api-key" in request.headers ? "yes" : "no"`: true,
	} {
		compiled, err := expression.Compile[string](text)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		if _, err = compiled.Evaluate(a, nil); readable {
			NewWithT(t).Expect(err).NotTo(HaveOccurred(), text)
		} else {
			NewWithT(t).Expect(err).To(MatchError(expression.ErrUnreadable), text)
		}
	}
	condition, err := expression.Compile[bool](`request.headers["x-api-key"] == "secret,nonce"`)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(condition.Evaluate(a, nil)).To(BeTrue())
}

// What a price does not cover is an error that a client can cause.
func TestBoundsOfReading(t *testing.T) {
	short, long := strings.Repeat("x", 512), strings.Repeat("x", 513)
	for name, tc := range map[string]struct {
		text     string
		readable plan.Attributes
		not      plan.Attributes
		want     string
	}{
		"parts":            {`principal.split("x").size() > 0`, plan.Attributes{Principal: short[1:]}, plan.Attributes{Principal: short}, "a text has 513 parts, more than 512"},
		"characters":       {`principal.split("").size() > 0`, plan.Attributes{Principal: short}, plan.Attributes{Principal: long}, "more than 512"},
		"a limit of parts": {`principal.split("x", 600).size() > 0`, plan.Attributes{Principal: short[1:]}, plan.Attributes{Principal: short}, "more than 512"},
		"the name of a header": {
			`request.headers.exists(n, n != "")`,
			plan.Attributes{Headers: map[string]string{short[:256]: ""}},
			plan.Attributes{Headers: map[string]string{short[:257]: ""}},
			"longer than 256 bytes",
		},
		"descriptor entries": {
			`descriptor["b"] == ""`,
			plan.Attributes{Descriptors: repeated("a", 2048)},
			plan.Attributes{Descriptors: repeated("a", 2049)},
			"more than 2048 descriptor entries",
		},
		"counted entries": {
			`size(descriptor) == 1`,
			plan.Attributes{Descriptors: repeated("a", 2048)},
			plan.Attributes{Descriptors: repeated("a", 2049)},
			"more than 2048 descriptor entries",
		},
		"keys of entries": {
			`!("b" in descriptor)`,
			plan.Attributes{Descriptors: repeated(short, 128)},
			plan.Attributes{Descriptors: repeated(short, 129)},
			"more than 65536 bytes in their keys",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			compiled, err := expression.Compile[bool](tc.text)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(compiled.Evaluate(&tc.readable, tc.readable.Descriptors)).To(BeTrue())
			_, err = compiled.Evaluate(&tc.not, tc.not.Descriptors)
			g.Expect(err).To(MatchError(expression.ErrUnreadable))
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

// repeated returns a descriptor with equal entries.
func repeated(key string, count int) []plan.Descriptor {
	return []plan.Descriptor{slices.Repeat(plan.Descriptor{{Key: key}}, count)}
}

// A limit bounds the parts, so the text may have any number.
func TestSplitWithLimit(t *testing.T) {
	a := &plan.Attributes{Path: strings.Repeat("/a", 4096)}
	for text, want := range map[string]string{
		`request.path.split("/", 3)[1]`:                            "a",
		`request.path.split("/", 0).size() == 0 ? "none" : "some"`: "none",
	} {
		compiled, err := expression.Compile[string](text)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(compiled.Evaluate(a, nil)).To(Equal(want), text)
	}
}

// Many reads by key use an index.
func TestReadingManyEntries(t *testing.T) {
	var text, want strings.Builder
	a := plan.Attributes{}
	for i := range 12 {
		fmt.Fprintf(&text, `descriptor["%d"] + `, i)
		a.Descriptors = append(a.Descriptors, plan.Descriptor{{Key: strconv.Itoa(i), Value: strconv.Itoa(i)}, {Key: strconv.Itoa(i), Value: "later"}})
		want.WriteString(strconv.Itoa(i))
	}
	compiled, err := expression.Compile[string](text.String() + `descriptor["none"]`)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(compiled.Evaluate(&a, a.Descriptors)).To(Equal(want.String()))
}

func TestEvaluateConcurrently(t *testing.T) {
	g := NewWithT(t)
	compiled, err := expression.Compile[string](`request.headers["x-n"] + request.path.split("/")[1]`)
	g.Expect(err).NotTo(HaveOccurred())
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			n := strconv.Itoa(i)
			a := &plan.Attributes{Path: "/" + n, Headers: map[string]string{"x-n": n}}
			for range 200 {
				if got, err := compiled.Evaluate(a, a.Descriptors); got != n+n || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkEvaluate(b *testing.B) {
	for _, text := range []string{
		`principal.startsWith("gold-")`,
		`request.headers["x-tier"] != "internal"`,
		`request.path.split("/")[1] == "v1"`,
	} {
		b.Run(text, func(b *testing.B) {
			compiled, err := expression.Compile[bool](text)
			if err != nil {
				b.Fatal(err)
			}
			a := someRequest()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := compiled.Evaluate(a, a.Descriptors); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := expression.Compile[bool](`request.headers["x-tier"] != "internal" && principal.startsWith("gold-")`); err != nil {
			b.Fatal(err)
		}
	}
}
