// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/expressiontest"
)

// One policy can have all of these.
func TestTypicalExpressionsAreCheap(t *testing.T) {
	sum := time.Duration(0)
	for _, text := range []string{
		`request.headers["x-tier"] != "internal"`,
		`request.path.split("/")[1] == "v1"`,
		`request.headers["user-agent"].matches("(?i)(bot|crawler|spider)")`,
		`request.headers["user-agent"].lowerAscii().matches("^(curl|wget|python-requests)/")`,
		`request.path.matches("^/v[0-9]+/orders/[^/]+$")`,
		`principal.startsWith("gold-")`,
		`descriptor["user"] in ["a", "b"]`,
		`request.path.lowerAscii().contains("admin")`,
		`request.headers["cookie"].contains("session=")`,
		`request.headers["authorization"].replace("Bearer ", "") == "secret"`,
		`has(request.headers.authorization) && request.method in ["POST", "PUT", "PATCH"]`,
		`int(request.headers["content-length"]) > 1000000`,
	} {
		c := mustCompile(t, text)
		NewWithT(t).Expect(c.Price()).To(BeNumerically("<", expression.MaxPrice/4), text)
		sum += c.Price()
	}
	NewWithT(t).Expect(sum).To(BeNumerically("<", expression.MaxPrice))
}

// Prices follow the sizes of values. Each pair has the more expensive expression second.
func TestPricesFollowSizes(t *testing.T) {
	for name, pair := range map[string][2]string{
		"text":              {`"a".lowerAscii() == ""`, `request.path.lowerAscii() == ""`},
		"sum":               {`request.path.size() == 1`, `(request.path + request.host).size() == 1`},
		"replaced":          {`request.path.replace("a", "").trim() == ""`, `request.path.replace("a", "bb").trim() == ""`},
		"limit of parts":    {`request.path.split("/", 2).exists(s, s == "x")`, `request.path.split("/").exists(s, s == "x")`},
		"a limit read":      {`request.path.split("/", 3).exists(s, s == "x")`, `request.path.split("/", int(principal)).exists(s, s == "x")`},
		"sum of lists":      {`[1, 2].exists(i, i > 2)`, `([1, 2] + [3]).exists(i, i > 2)`},
		"filter":            {`[1].filter(i, i > 2).exists(i, i > 3)`, `[1, 2, 3].filter(i, i > 2).exists(i, i > 3)`},
		"map":               {`[1].map(i, i).exists(i, i > 3)`, `[1].map(i, i + i).exists(i, i > 3)`},
		"mapped text":       {`[1].map(i, "a")[0].trim() == ""`, `[1].map(i, request.path)[0].trim() == ""`},
		"the dearer branch": {`(true ? "a" : "b").trim() == ""`, `(true ? "a" : request.path).trim() == ""`},
		"set":               {`"x" in ["a", "b", "c"]`, `"x" in ["a", "b", request.host]`},
		"loops":             {`[1, 2].exists(i, i > 3)`, `[1, 2].exists(i, [1, 2].exists(j, i + j > 3))`},
		"constant list":     {`[1, 2, 3][0] == 1`, `[1, 2, size("a")][0] == 1`},
		"key of a map":      {`{"a": 1}["a"] == 1`, `{request.path: 1}["a"] == 1`},
		"pattern":           {`request.path.matches("\\ba")`, `request.path.matches("\\babcd")`},
		"descriptor":        {`descriptor["a"] == ""`, `descriptor["a"] == descriptor["b"]`},
		"all entries":       {`descriptor["a"] == ""`, `size(descriptor) == 1`},
		"value of a header": {`request.headers.exists(n, n.trim() == "")`, `request.headers.exists(n, request.headers[n].trim() == "" && n == "x")`},
	} {
		t.Run(name, func(t *testing.T) {
			cheap, expensive := expression.PriceOf(pair[0]), expression.PriceOf(pair[1])
			NewWithT(t).Expect(expensive).To(BeNumerically(">", cheap))
		})
	}
}

func TestFormatPrice(t *testing.T) {
	for price, want := range map[time.Duration]string{
		0: "0 s", 7: "7 ns", 606: "610 ns", 99: "99 ns", 100: "100 ns", 3_210_000: "3.3 ms", time.Millisecond: "1 ms", 162_751: "170 µs",
		time.Hour + 1: "more than an hour",
	} {
		NewWithT(t).Expect(expression.FormatPrice(price)).To(Equal(want))
	}
}

// No text that an expression yields is longer than the price assumes.
func TestBoundsOfRandomTextsHold(t *testing.T) {
	evaluated := 0
	for seed := range uint64(3000) {
		evaluated += expectBoundHolds(t, seed, 28, 4)
	}
	NewWithT(t).Expect(evaluated).To(BeNumerically(">", 2000))
}

func FuzzBoundOfText(f *testing.F) {
	f.Add(uint64(1), uint64(1), 5)
	f.Fuzz(func(t *testing.T, seed, stream uint64, depth int) {
		expectBoundHolds(t, seed, stream, min(depth, 8))
	})
}

var mostExpensive = expressiontest.MostExpensiveRequests()

// expectBoundHolds returns how often a random expression yields a text.
func expectBoundHolds(t *testing.T, seed, stream uint64, depth int) (evaluated int) {
	t.Helper()
	r := &grammar{Rand: rand.New(rand.NewPCG(seed, stream)), depth: depth}
	text := r.text()
	c, err := expression.Compile[string](text)
	if err != nil {
		return 0
	}
	bound := expression.BoundOfText(text)
	for _, a := range []*plan.Attributes{mostExpensive[0], mostExpensive[3], mostExpensive[6], mostExpensive[9], someRequest()} {
		if value, err := c.Evaluate(a, a.Descriptors); err == nil {
			evaluated++
			NewWithT(t).Expect(float64(len(value))).To(BeNumerically("<=", bound), text)
		}
	}
	return evaluated
}

// A part of a key searches the repeated headers, of which there must not be too many.
func TestRepeatedHeadersArePriced(t *testing.T) {
	const body = `[1, 2, 3].map(i, request.headers["x-a"])[2]`
	key, err := expression.Compile[string](body)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	condition := mustCompile(t, body+` == ""`)
	NewWithT(t).Expect(key.Price()).To(BeNumerically(">", condition.Price()))

	a := &plan.Attributes{}
	for i := range 129 {
		a.RepeatedHeaders = append(a.RepeatedHeaders, strings.Repeat("x", i+1))
	}
	_, err = key.Evaluate(a, nil)
	NewWithT(t).Expect(err).To(MatchError(expression.ErrUnreadable))
}
