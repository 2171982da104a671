// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
)

// counters are the decisions of policies so far.
type counters map[string]limiter.DecisionCounts

func (c counters) each(visit func(policy string, n limiter.DecisionCounts)) {
	for policy, n := range c {
		visit(policy, n)
	}
}

// unroll returns the samples as readers get them.
func (s *series) unroll(slot int64) *limiter.Rates {
	out := limiter.NewRates()
	decisions, candidates := pack(s, slot)
	addRates(out, decisions, candidates, 0)
	return out
}

// newest returns the n newest numbers.
func newest(list []int64, n int) []int64 { return list[len(list)-n:] }

func TestRatesAreDifferencesOfCounters(t *testing.T) {
	g := NewWithT(t)
	r, now, c := newRates(), start, counters{}
	step := func(allowed, denied uint64) {
		n := c["shop/login"]
		c["shop/login"] = limiter.DecisionCounts{Allowed: n.Allowed + allowed, Denied: n.Denied + denied}
		now = now.Add(limiter.RatePeriod)
		r.sample(now, c.each)
	}
	step(5, 1)
	r.sample(now.Add(time.Second), c.each)
	step(0, 0)
	step(7, 2)
	got := r.policies["shop/login"].unroll(r.slot)
	g.Expect(newest(got.Allowed, 4)).To(Equal([]int64{0, 5, 7, 0}), "the last sample is the current one")
	g.Expect(newest(got.Denied, 4)).To(Equal([]int64{0, 1, 2, 0}))
	g.Expect(r.total.unroll(r.slot)).To(Equal(got))

	// A counter that begins again counts from 0.
	c["shop/login"] = limiter.DecisionCounts{Allowed: 3}
	now = now.Add(3 * limiter.RatePeriod)
	r.sample(now, c.each)
	g.Expect(newest(r.policies["shop/login"].unroll(r.slot).Allowed, 4)).To(Equal([]int64{0, 0, 0, 3}))

	// A reader gets the decisions until now.
	c["shop/login"] = limiter.DecisionCounts{Allowed: 5}
	r.refresh(now.Add(time.Second), c.each)
	g.Expect(newest(r.policies["shop/login"].unroll(r.slot).Allowed, 2)).To(Equal([]int64{0, 5}))
	r.refresh(now.Add(limiter.RatePeriod), c.each)
	g.Expect(newest(r.policies["shop/login"].unroll(r.slot).Allowed, 2)).To(Equal([]int64{5, 0}), "nothing counts twice")

	// After an hour without decisions nothing is left.
	r.sample(now.Add(time.Hour), c.each)
	g.Expect(r.policies).To(BeEmpty())
	g.Expect(*r.total.unroll(r.slot)).To(Equal(*limiter.NewRates()))
}

func TestRatesOfReplicasAreAlignedAndAdded(t *testing.T) {
	g := NewWithT(t)
	early, late, c := newRates(), newRates(), counters{"shop/login": {Allowed: 5, ShadowDenied: 1, CandidateDenied: 3, CandidateAllowed: 4}}
	early.sample(start, c.each)
	late.sample(start, c.each)
	late.sample(start.Add(limiter.RatePeriod), c.each)
	parts := []*part{}
	for _, r := range []*rates{early, late} {
		p := &part{Slot: r.slot, Policies: []policyPart{{Policy: "shop/login"}}}
		p.Total, p.TotalCandidates = pack(&r.total, r.slot)
		p.Policies[0].Rates, p.Policies[0].Candidates = pack(r.policies["shop/login"], r.slot)
		parts = append(parts, p)
	}
	for _, scope := range []string{"", "shop/"} {
		a := merge(parts, scope)
		g.Expect(a.End).To(Equal(start.Add(2*limiter.RatePeriod).UTC()), "the current sample ends in the future")
		for _, got := range []limiter.Rates{a.Total, *a.Policies[0].Rates} {
			g.Expect(newest(got.Allowed, 3)).To(Equal([]int64{0, 10, 0}))
			g.Expect(newest(got.ShadowDenied, 3)).To(Equal([]int64{0, 2, 0}))
			g.Expect(newest(got.CandidateDenied, 3)).To(Equal([]int64{0, 6, 0}))
			g.Expect(newest(got.CandidateAllowed, 3)).To(Equal([]int64{0, 8, 0}))
		}
	}
}

func TestRatesAreBounded(t *testing.T) {
	g := NewWithT(t)
	r, c := newRates(), counters{}
	for i := range maxPolicies + 20 {
		c[fmt.Sprint("shop/p-", i)] = limiter.DecisionCounts{Allowed: 1}
	}
	r.sample(start, c.each)
	g.Expect(r.policies).To(HaveLen(maxPolicies))
	g.Expect(newest(r.total.unroll(r.slot).Allowed, 1)).To(Equal([]int64{maxPolicies + 20}), "the total is complete")
	g.Expect(r.busiest(func(string) bool { return true })).To(HaveLen(maxPartRates))
}
