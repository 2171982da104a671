// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv"
)

// standardJSON returns the value as encoding/json writes it.
func standardJSON(g *WithT, value any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	g.Expect(encoder.Encode(value)).To(Succeed())
	return b.String()
}

// standardBody returns the body of the decision as encoding/json writes it.
func standardBody(g *WithT, d *limiter.Decision, o Options) string {
	body := DecisionBody{Limits: []LimitState{}}
	body.fill(d)
	if d.Allowed {
		return standardJSON(g, body)
	}
	problem := problemOf(d, statusOf(d.Reason))
	if o.DenyStatus != 0 {
		problem = problem.WithStatus(o.DenyStatus)
	}
	return standardJSON(g, struct {
		Problem
		DecisionBody
	}{problem, body})
}

var texts = []string{
	"", "shop/login", "Slow down.", "Slow down", " spaces ", `"quoted\"`, "<a href='x'>&</a>", "\x00\x01\b\f\n\r\t\x1f\x7f",
	"ä☃🎉", "\u2028\u2029", "\ufffd", "a\xffb\xc3\x28\xed\xa0\x80", "\xf0\x9f", "line\nbreak?",
}

var numbers = []int64{0, 1, -1, 999, -1000, int64(time.Second), int64(time.Hour), plan.MaxCost, math.MaxInt64, math.MinInt64}

var fractions = []float64{0, 1, 0.5, 1.0 / 3, 1e-6, 9.9e-7, 1.5e-9, 1e-10, 2.5e-100, math.SmallestNonzeroFloat64, 1e20, 1e21, math.MaxFloat64, -1}

func randomDecision(random *rand.Rand) *limiter.Decision {
	text := func() string { return texts[random.IntN(len(texts))] }
	number := func() int64 { return numbers[random.IntN(len(numbers))] }
	yes := func() bool { return random.IntN(2) == 0 }
	reasons := []limiter.Reason{limiter.ReasonLimitExceeded, limiter.ReasonMissingKey, limiter.ReasonStoreUnavailable, limiter.Reason(text())}
	d := &limiter.Decision{
		Allowed: yes(), Reason: reasons[random.IntN(len(reasons))], Policy: text(), Limit: text(), Override: text(),
		Denial: plan.Denial{Code: text(), Message: text()}, RetryAfter: time.Duration(number()), Revision: number(),
		WaitsFor: limiter.WaitsFor(text()), FromSlice: yes(),
	}
	if yes() {
		d.Reservation = &limiter.Reservation{ID: text(), Holds: []limiter.Hold{{Policy: text(), Units: number()}}}
	}
	for range random.IntN(4) {
		d.Limits = append(d.Limits, limiter.LimitState{
			Policy: text(), Limit: text(), Override: text(), Exception: text(), Group: text(), Algorithm: []plan.Algorithm{plan.FixedWindow, plan.Suppressed}[random.IntN(2)],
			Allowed: yes(), Blocked: yes(), Shadow: yes(), Overflow: yes(), Near: yes(), Used: number(), Held: number(), Remaining: number(),
			SuppressionFactor: fractions[random.IntN(len(fractions))], Quota: number(), Threshold: number(), Window: time.Duration(number()),
			RetryAfter: time.Duration(number()), RemainingAfterWaiting: number(), ResetAfter: time.Duration(number()),
		})
	}
	return d
}

func TestBodiesAreThoseOfTheStandardEncoder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		g := NewWithT(t)
		d, o := randomDecision(random), Options{DenyStatus: []int{0, 403, 429, 599}[random.IntN(4)]}
		a := New(d, o)
		g.Expect(string(a.Body)).To(Equal(standardBody(g, d, o)))
		a.Release()
	}
}

func TestAllowedBodyCanBeLeftOut(t *testing.T) {
	g := NewWithT(t)
	a := New(&limiter.Decision{Allowed: true}, Options{BodyOnDenialOnly: true})
	defer a.Release()
	g.Expect(a.Body).To(BeEmpty())
	g.Expect(a.Headers).To(BeEmpty())
}

// FuzzAppendString expects every string and fraction as the standard encoder writes them.
func FuzzAppendString(f *testing.F) {
	for i, text := range texts {
		f.Add(text, fractions[i%len(fractions)])
	}
	f.Fuzz(func(t *testing.T, text string, fraction float64) {
		g := NewWithT(t)
		g.Expect(string(appendString(nil, text)) + "\n").To(Equal(standardJSON(g, text)))
		if fraction >= 0 && !math.IsInf(fraction, 0) {
			g.Expect(string(appendFraction(nil, fraction)) + "\n").To(Equal(standardJSON(g, fraction)))
		}
	})
}

// The headers share one string. The body is in memory of the pool.
func TestAnswersAllocateOnce(t *testing.T) {
	d := &limiter.Decision{Allowed: true, Limits: []limiter.LimitState{
		{Policy: "shop/login", Limit: "burst", Quota: 100, Remaining: 97, Window: time.Minute},
		{Policy: "shop/login", Limit: "daily", Quota: 1000, Remaining: 997, Window: 24 * time.Hour},
	}}
	allocations := testenv.FewestAllocations(func() { New(d, Options{LegacyHeaders: true}).Release() })
	NewWithT(t).Expect(allocations).To(BeNumerically("<=", 1))
}
