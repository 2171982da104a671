// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	cel "github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/expressiontest"
)

// largestShare is the sum of the prices of all expressions of a decision.
const largestShare = 2500 * time.Microsecond

// hostile returns an engine with as many policies of ten Namespaces as have a share, up to 640, and with
// one more of each. All have the condition, which holds for no request.
func hostile(tb testing.TB, when string) *fixture {
	tb.Helper()
	when = "(" + when + `) && request.method == "none"`
	compiled, err := cel.Compile[bool](when)
	NewWithT(tb).Expect(err).NotTo(HaveOccurred(), when)
	var plans []*plan.Plan
	for namespace := range 10 {
		for i := range min(64, int(cel.MaxPrice/compiled.Price())+1) {
			plans = append(plans, makePlan(fmt.Sprintf("n%d/p%02d", namespace, i), matching(plan.Match{When: when})))
		}
	}
	return newFixture(plans...)
}

// largestRequests returns the most expensive requests, with their entries in as many descriptors as a check
// may have.
func largestRequests() []*plan.Attributes {
	requests := expressiontest.MostExpensiveRequests()
	for _, a := range requests {
		var entries []plan.Entry
		for _, d := range a.Descriptors {
			entries = append(entries, d...)
		}
		a.Descriptors = nil
		for d := range slices.Chunk(entries, (len(entries)+limiter.MaxDescriptors-1)/limiter.MaxDescriptors) {
			a.Descriptors = append(a.Descriptors, d)
		}
	}
	return requests
}

// longestDecision returns the time of a decision about the request that takes most. Of each it is the
// shortest of several, since other processes disturb some.
func longestDecision(tb testing.TB, f *fixture, requests []*plan.Attributes, repeats int) (longest time.Duration, worst *plan.Attributes) {
	tb.Helper()
	g := NewWithT(tb)
	for _, a := range requests {
		least := time.Hour
		for range repeats {
			start := time.Now()
			_, err := f.Decide(tb.Context(), &limiter.Check{Cost: 1, Attributes: *a})
			g.Expect(err).NotTo(HaveOccurred())
			least = min(least, time.Since(start))
		}
		if least > longest {
			longest, worst = least, a
		}
	}
	return longest, worst
}

// speed returns the time of an expression with a known price, as a share of it: it shows how fast the
// machine is.
func speed(tb testing.TB, a *plan.Attributes) float64 {
	tb.Helper()
	reference, err := cel.Compile[bool](expressiontest.Loop(`s == "x"`))
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	least := time.Hour
	for range 20 {
		start := time.Now()
		_, _ = reference.Evaluate(a, nil)
		least = min(least, time.Since(start))
	}
	return float64(least) / float64(reference.Price())
}

// Whatever expressions are accepted, and whatever is requested, their evaluation takes no longer than
// the prices of one decision may. The prices have a margin; slack is for other processes and the race
// detector.
func TestHostileExpressionsTakeTheirShare(t *testing.T) {
	const slack = 4
	requests := largestRequests()
	for i, text := range expressiontest.Hostile {
		if i%12 != 0 { // BenchmarkHostileExpressions judges all
			continue
		}
		f, harmless := hostile(t, text), hostile(t, "true")
		worst, took, allowed := requests, time.Duration(0), time.Duration(0)
		for repeats := 1; repeats <= 16; repeats *= 4 { // measures again what other processes may have disturbed
			longest, of := longestDecision(t, f, worst, repeats)
			without, _ := longestDecision(t, harmless, []*plan.Attributes{of}, repeats)
			took, allowed = longest-without, time.Duration(slack*speed(t, of)*float64(largestShare))
			if took <= allowed {
				break
			}
			worst = []*plan.Attributes{of}
		}
		if took > allowed {
			t.Errorf("%s takes %s, of at most %s", text, took, allowed)
		}
	}
}

// BenchmarkHostileExpressions reports how much longer a decision takes because of the expressions of all
// policies, for the most expensive request.
func BenchmarkHostileExpressions(b *testing.B) {
	requests := largestRequests()
	most := time.Duration(0)
	for _, text := range expressiontest.Hostile {
		f, harmless := hostile(b, text), hostile(b, "true")
		_, worst := longestDecision(b, f, requests, 2)
		took, allowed := time.Duration(0), time.Duration(0)
		for repeats := 10; repeats <= 90; repeats *= 3 { // measures again what other processes may have disturbed
			with, _ := longestDecision(b, f, []*plan.Attributes{worst}, repeats)
			without, _ := longestDecision(b, harmless, []*plan.Attributes{worst}, repeats)
			took, allowed = with-without, time.Duration(2*speed(b, worst)*float64(largestShare))
			if took <= allowed {
				break
			}
		}
		if took > allowed {
			b.Errorf("%s takes %s, of at most %s", text, took, allowed)
		}
		most = max(most, took)
	}
	b.ReportMetric(float64(most)/1e6, "ms-more")
}
