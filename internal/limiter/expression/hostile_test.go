// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// hostileExpressions are expensive uses of every function that Weir accepts, for which most
// of the time is that of the function. %s is a loop over 512 parts.
var hostileExpressions = []string{
	// Variables, operators and loops.
	loop(`s == "x"`),
	loop(`s != "x" && false`),
	loop(`!(s != "x") || !(s != "y")`),
	loop(`request.path == "x"`),
	loop(`request.path < "x" && request.host > s`),
	loop(`s <= "x" && s >= "z"`),
	loop(`principal == remoteAddress`),
	loop(`request.headers["x-1"] == "x"`),
	loop(`request.headers["X-1"] == "x"`),
	overNames(`request.headers[s] == "x"`),
	loop(`"x-1" in request.headers && "none" in request.headers`),
	loop(`has(request.headers.none)`),
	loop(`descriptor["none"] == "x"`),
	overNames(`descriptor[s] == "x"`),
	overNames(`s in descriptor && false`),
	loop(`(s == "a" ? "x" : "y") == "z"`),
	overNames(`s + s == "z"`),
	loop(`[s, s] == ["a", "b"]`),
	loop(`[s][0] == "z"`),
	loop(`[s][9] == "z"`),
	overNames(`{s: s}["z"] == "z"`),
	overNames(`{"a": s}[s] == "z"`),
	overNames(`{"a": s, "b": s}.a == "z"`),
	overNames(`s in ["x", "y", "z"]`),
	overNames(`s in ["x", request.method, "z"]`),
	overNames(`s in [[s, s, s], ["x"]][0] && false`),
	loop(`1 + 2 * 3 - 4 == int(7 / 2 % 3) && -1 > 5`),
	loop(`1.5 / 0.3 > 99.0 || 2u > 3u || 1 / 0 == 1`),
	loop(`9223372036854775807 + 1 == 0`),
	overNames(`duration("1s") + duration("2s") > duration("1h")`),
	overNames(`timestamp("2020-01-01T00:00:00Z") - duration("1h") > timestamp("2030-01-01T00:00:00Z")`),
	overNames(`timestamp("2020-01-01T00:00:00Z").getHours() == 77`),
	overNames(`timestamp("2020-01-01T00:00:00Z").getDayOfYear("+02:00") == 777`),
	overNames(`duration("1s").getSeconds() == 77`),
	loop(`type(s) == int`),
	`timestamp(request.headers["time"]).getFullYear() + timestamp(request.headers["time"]).getMonth() + timestamp(request.headers["time"]).getDate() == 7`,
	overNames(`timestamp(1).getDayOfMonth() + timestamp(1).getDayOfWeek() == 77`),
	overNames(`timestamp(1).getMinutes() == 77`),
	overNames(`timestamp(1).getSeconds() + timestamp(1).getMilliseconds() == 7777`),
	loop(`dyn(s) == 1`),
	overNames(`dyn(s) + 1 == 2`),
	loop(`[1].all(x, x > 7)`),
	loop(`[s].exists(x, x == "z")`),
	overNames(`[s].map(x, x)[0] == "z"`),
	overNames(`[s].filter(x, x == "z").size() > 7`),
	loop(`[s].exists_one(x, x == "z")`),
	`request.method.split("/").map(s, s).map(s, s) == []`,
	`request.method.split("/").map(s, s == "x", s).size() == 7`,
	`request.method.split("/").filter(s, s != "x").size() == 7`,
	`request.method.split("/").exists_one(s, s == "x")`,
	`request.method.split("/").all(s, s != "xx")`,
	`[1, 2, 3].map(a, [1, 2, 3].map(b, [1, 2, 3].map(c, [1, 2, 3].map(d, a + b + c + d)))) == []`,
	`(request.method.split("/") + request.method.split("/") + request.method.split("/")).exists(s, s == "x")`,
	`"none" in (request.method.split("/") + request.method.split("/") + request.method.split("/"))`,
	`request.method.split("/") == request.method.split("/")`,
	`["a"]` + strings.Repeat(`.map(a, a + a)`, 15) + `[0] == ""`,
	`[["a"]]` + strings.Repeat(`.map(a, a + a)`, 7) + `[0].exists(s, s == "x")`,
	`[request.path].map(a, a + a).map(a, a + a).map(a, a + a).all(a, a == request.host)`,

	// Maps of the request.
	`request.headers.exists(n, request.headers[n] == "x")`,
	`request.headers.exists(n, request.headers[n].startsWith("https://"))`,
	`request.headers.exists(n, n.upperAscii() in request.headers && false)`,
	`request.headers == {"a": "b"} || request.headers.all(n, n in request.headers)`,
	`{"a": "b"} == request.headers || request.headers.size() == 9`,
	`request.headers.map(n, request.headers[n]).exists(v, v == "x")`,
	`descriptor.exists(k, k == "x")`,
	`descriptor.exists(k, descriptor[k] == "x")`,
	`size(descriptor) == 7`,
	`descriptor["none"] == "x"`,
	`descriptor["` + strings.Repeat("k", 500) + `"] == "x"`,
	`descriptor["a"] + descriptor["b"] + descriptor["c"] + descriptor["d"] + descriptor["e"] + descriptor["f"] == "x"`,
	`descriptor == {"a": "b"}`,

	// Functions on texts.
	`request.path.contains("` + strings.Repeat("a", 40) + `b")`,
	`request.path.contains("` + strings.Repeat("ab", 100) + `b")`,
	`request.path.contains("/" + request.host)`,
	`request.path.startsWith(request.host + "x") || request.path.endsWith("x" + request.host)`,
	`request.path == request.host && request.host == request.path && request.path >= request.host`,
	loop(`s.startsWith("aaaa") || s.endsWith("aaaa")`),
	`request.path.lowerAscii().upperAscii().lowerAscii().upperAscii() == "x"`,
	`request.path.trim() == "x" || request.path.trim() == "y"`,
	`request.path.reverse() == "x"`,
	`request.path.substring(1) == "x"`,
	`request.path.substring(1, 2) == "x"`,
	`request.path.substring(9000) == "x"`,
	`request.path.charAt(100) == "x"`,
	`request.path.charAt(9000) == "x"`,
	`request.path.indexOf("x") == 7`,
	`request.path.indexOf("` + strings.Repeat("a", 40) + `b") == 7`,
	`request.path.lastIndexOf("` + strings.Repeat("a", 40) + `b") == 7`,
	`request.path.lastIndexOf("b", 5000) == 7`,
	`request.path.size() == 7 || size(request.host) == 8`,
	`request.path.replace("a", "bc") == "x"`,
	`request.path.replace("", "-") == "x"`,
	`request.path.replace("ab", "ba") == "x"`,
	`request.path.replace("a", "bc", 5000) == "x"`,
	`request.path.split("a", 512).size() == 7`,
	`request.path.split("", 512).size() == 7`,
	`request.path.split("ab").size() == 7 || request.path.split("").size() == 7`,
	`request.path.split("` + strings.Repeat("a", 100) + `b").size() == 7`,
	`request.path + request.host + principal == "x"`,
	`bytes(request.path) == bytes(request.host) || string(bytes(request.path)) == "x"`,
	`size(bytes(request.path)) == 7`,
	`string(bytes(request.path)) == "x"`,
	`string(request.path) == "x"`,

	// Conversions.
	`int(request.path) == 1 || uint(request.path) == 1u || bool(request.path)`,
	`double(request.path) > 1.0`,
	`double(request.headers["exponent"]) > 1.0`,
	overNames(`double(request.headers["exponent"]) > 1.0`),
	overNames(`duration(request.headers["duration"]) > duration("9999h")`),
	overNames(`timestamp(request.headers["time"]) > timestamp("2030-01-01T00:00:00Z")`),
	`duration(request.path) > duration("1s")`,
	`timestamp(request.path) > timestamp("2020-01-01T00:00:00Z")`,
	overNames(`int(s) == 1`),
	overNames(`int(request.headers["digits"]) + -int(request.headers["digits"]) == 1`),
	overNames(`uint(s) == 1u`),
	overNames(`bool(s)`),
	loop(`string(1) == s`),
	loop(`string(1.7976931348623157e+308) == s`),
	overNames(`string(timestamp("2020-01-01T00:00:00Z") - duration("1h")) == s`),
	overNames(`s.charAt(9999) == "x"`),

	// Patterns.
	`request.path.matches("(a|aa|aaa|aaaa){1,40}z")`,
	`request.path.matches("(?i)(bot|crawler|spider)")`,
	`request.path.matches("^/v[0-9]+/orders/.*$")`,
	`request.path.matches("\\pL+1")`,
	`request.path.matches("\\PL+1")`,
	`request.path.matches("(?i)\\bk[a-z]")`,
	`request.path.matches("\\bfoo\\b")`,
	`request.path.matches("(?m)^a.*b$")`,
	`request.path.matches("[^a]*[^b]*\\b")`,
	overNames(`s.matches("x")`),
}

// loop returns an expression that evaluates the body often.
func loop(body string) string { return `request.method.split("/").exists(s, ` + body + `)` }

// overNames returns an expression that evaluates the body for each header name.
func overNames(body string) string { return `request.headers.exists(s, ` + body + `)` }

// mostExpensiveRequests returns the largest requests, each of other texts.
func mostExpensiveRequests() (requests []*plan.Attributes) {
	for _, text := range []string{"a", "/", "é", "\xff", "ab", "A", "crawle", "spidecrawle", "1", "1h1.5s", "2020-01-01T00:00:00.1", "k", "\u2003", "x\n", "fo "} {
		long := strings.Repeat(text, 8192/len(text))
		a := &plan.Attributes{
			Method: strings.Repeat("a/", 511), Host: strings.Clone(long), Path: long, Principal: long,
			Headers: map[string]string{
				"exponent": "17976931348623157" + strings.Repeat("7", 42) + "e-320", "digits": strings.Repeat("0", 63) + "1",
				"time": "2020-01-01T00:00:00." + strings.Repeat("7", 43) + "Z", "duration": strings.Repeat("1h1.5s", 10),
			},
		}
		for i := range 124 {
			a.Headers["x-"+strconv.Itoa(i)] = long
			a.Descriptors = append(a.Descriptors, plan.Descriptor{{Key: strings.Repeat("k", 497) + strconv.Itoa(100+i), Value: long}})
		}
		requests = append(requests, a, withEntries(a, 2048))
	}
	return requests
}

// withEntries returns a request with the number of short descriptor entries, of few keys.
func withEntries(a *plan.Attributes, count int) *plan.Attributes {
	short := *a
	short.Descriptors = nil
	for i := range count {
		short.Descriptors = append(short.Descriptors, plan.Descriptor{{Key: "key-" + strconv.Itoa(i%127), Value: a.Path}})
	}
	return &short
}

// timeOf returns the time that the expression takes for the most expensive request: each is
// the shortest of several, since other processes disturb some.
func timeOf(evaluate func(*plan.Attributes), requests []*plan.Attributes, repeats int) (most time.Duration, worst *plan.Attributes) {
	for _, a := range requests {
		least := time.Hour
		for range repeats {
			start := time.Now()
			evaluate(a)
			least = min(least, time.Since(start))
		}
		if least > most {
			most, worst = least, a
		}
	}
	return most, worst
}

// reference is an expression whose time shows how fast the machine is.
var reference = loop(`s == "x"`)

// slack is how much slower an expression may be than its price, compared with the reference. The
// prices have a margin of their own; other processes and the race detector need this one.
const slack = 4

// share returns the time of the expression for the worst request, as a share of its price.
func share(c *expression.Expression[bool], requests []*plan.Attributes, repeats int) (float64, *plan.Attributes) {
	most, worst := timeOf(func(a *plan.Attributes) { _, _ = c.Evaluate(a, a.Descriptors) }, requests, repeats)
	return float64(most) / float64(c.Price()), worst
}

// expectPriceHolds measures again what other processes may have disturbed.
func expectPriceHolds(t *testing.T, text string, c *expression.Expression[bool], requests []*plan.Attributes) {
	t.Helper()
	var got, want float64
	for repeats := 2; repeats <= 32; repeats *= 4 {
		expected, _ := share(mustCompile(t, reference), requests[:1], 4*repeats)
		measured, worst := share(c, requests, repeats)
		if got, want = measured, slack*expected; got <= want {
			return
		}
		requests = []*plan.Attributes{worst}
	}
	t.Errorf("%s takes %.2f of its price of %s, the reference %.2f", text, got, c.Price(), want/slack)
}

func mustCompile(tb testing.TB, text string) *expression.Expression[bool] {
	tb.Helper()
	compiled, err := expression.Compile[bool](text)
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return compiled
}

func TestPricesHold(t *testing.T) {
	requests := mostExpensiveRequests()
	for _, text := range hostileExpressions {
		expectPriceHolds(t, text, mustCompile(t, text), requests)
	}
}

// A function that the library adds is rejected until it has a price.
func TestEveryFunctionHasPrice(t *testing.T) {
	g := NewWithT(t)
	declared, priced := expression.DeclaredFunctions(), expression.PricedFunctions()
	g.Expect(declared).To(ContainElements(priced))
	unpriced := slices.DeleteFunc(declared, func(name string) bool { return slices.Contains(priced, name) })
	g.Expect(unpriced).To(ConsistOf("format", "join", "strings.quote", "in", "_in_", "__not_strictly_false__"))

	var used []string
	for _, text := range hostileExpressions {
		used = append(used, expression.FunctionsOf(text)...)
	}
	for _, name := range priced {
		g.Expect(used).To(ContainElement(name))
	}
}

// BenchmarkHostile reports how much of its price an expression takes.
func BenchmarkHostile(b *testing.B) {
	requests := mostExpensiveRequests()
	for _, text := range hostileExpressions {
		c := mustCompile(b, text)
		_, worst := share(c, requests, 3)
		b.Run(text, func(b *testing.B) {
			for b.Loop() {
				_, _ = c.Evaluate(worst, worst.Descriptors)
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(c.Price()), "ns/price")
		})
	}
}
