// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/expressiontest"
)

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
var reference = expressiontest.Loop(`s == "x"`)

// slack is how much slower an expression may be than its price, compared with the reference. The
// prices have a margin of their own; other processes and the race detector need this one.
const slack = 4

// share returns the time of the expression for the worst request, as a share of its price.
func share(c *expression.Expression[bool], requests []*plan.Attributes, repeats int) (float64, *plan.Attributes) {
	evaluate := func(a *plan.Attributes) {
		fresh := *a
		fresh.AddQueryParameters(nil) // forgets what was read before
		_, _ = c.Evaluate(&fresh, fresh.Descriptors)
	}
	most, worst := timeOf(evaluate, requests, repeats)
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
	requests := expressiontest.MostExpensiveRequests()
	for _, text := range expressiontest.Hostile {
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
	for _, text := range expressiontest.Hostile {
		used = append(used, expression.FunctionsOf(text)...)
	}
	for _, name := range priced {
		g.Expect(used).To(ContainElement(name))
	}
}

// BenchmarkHostile reports how much of its price an expression takes.
func BenchmarkHostile(b *testing.B) {
	requests := expressiontest.MostExpensiveRequests()
	for _, text := range expressiontest.Hostile {
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
