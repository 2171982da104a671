// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// concurrent gives the policy one limit of units at once.
func concurrent(threshold int64) func(*plan.Plan) {
	return func(p *plan.Plan) {
		p.Reservations = plan.Reservations{MaxTTLMillis: 600_000, MaxOpen: 1000}
		p.Limits = []plan.Limit{{Name: "inflight", Algorithm: plan.Concurrency, Threshold: threshold, WarnPercent: 100}}
	}
}

// A reservation holds a unit until its commit, which frees it whatever it costs.
func TestConcurrencyHoldsUntilCommit(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", concurrent(2)))
	first := f.reserve(t, reserve(1, "a/x"))
	g.Expect(f.reserve(t, reserve(1, "a/x")).Allowed).To(BeTrue())
	denied := f.reserve(t, reserve(1, "a/x"))
	g.Expect(denied.Allowed).To(BeFalse())
	g.Expect(denied.Reason).To(Equal(limiter.ReasonLimitExceeded))
	g.Expect(denied.WaitsFor).To(Equal(limiter.WaitsForReservations))
	g.Expect(f.reserve(t, reserve(3, "a/x")).Reason).To(Equal(limiter.ReasonCostExceedsThreshold))
	f.commit(t, first.Reservation, 100)
	third := f.reserve(t, reserve(1, "a/x"))
	g.Expect(third.Allowed).To(BeTrue())
	g.Expect(third.Limits[0].Used).To(Equal(int64(2)))
	text := exposition(g, f.registry)
	g.Expect(text).NotTo(ContainSubstring("weir_debt_units_total{"), "the actual cost is not spent")
	g.Expect(text).NotTo(ContainSubstring("weir_unheld_checks_total{"))
}

// Checks are judged and hold nothing. They are counted, and peeks are not.
func TestChecksHoldNothing(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", concurrent(1), func(p *plan.Plan) {
		p.Limits = append(p.Limits, plan.Limit{Name: "hourly", Algorithm: plan.FixedWindow, Threshold: 100, WindowMillis: 3_600_000})
	}), makePlan("a/y", reservable))
	peek := named("a/x")
	peek.Peek = true
	for _, check := range []*limiter.Check{named("a/x"), named("a/x"), peek, named("a/y")} {
		d, err := f.Decide(t.Context(), check)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(d.Allowed).To(BeTrue())
	}
	uncovered := reserve(1, "a/x", "a/y")
	uncovered.Costs = limiter.Costs{"a/y": 5}
	g.Expect(f.reserve(t, uncovered).Allowed).To(BeTrue())
	text := exposition(g, f.registry)
	g.Expect(text).To(ContainSubstring(`weir_unheld_checks_total{namespace="a",policy="x"} 3`))
	g.Expect(text).NotTo(ContainSubstring(`weir_unheld_checks_total{namespace="a",policy="y"}`))
	g.Expect(text).NotTo(ContainSubstring(`weir_near_limit_total{`), "nothing is held")
	g.Expect(f.reserve(t, reserve(1, "a/x")).Limits[0].Near).To(BeTrue())
	g.Expect(exposition(g, f.registry)).To(ContainSubstring(`weir_near_limit_total{limit="inflight",namespace="a",policy="x"} 1`))
}

// A limit that a descriptor requests replaces no limit of units at once.
func TestRequestedLimitsLeaveConcurrency(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", concurrent(1), func(p *plan.Plan) {
		p.Matches = []plan.Match{{Domain: "d", Descriptors: []plan.EntryMatch{{Key: "k"}}}}
	}))
	_, err := f.Decide(t.Context(), &limiter.Check{
		Attributes: plan.Attributes{Domain: "d", Descriptors: []plan.Descriptor{{{Key: "k", Value: "v"}}}},
		Hits:       []limiter.Hits{{Cost: 1, Limit: &limiter.RequestedLimit{Units: 100, Window: limiter.RequestableWindows[0]}}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(exposition(g, f.registry)).To(ContainSubstring(`weir_requested_limits_ignored_total{namespace="a",policy="x"} 1`))
}

// Many callers that reserve and commit never hold more than the threshold, of the user or the team.
func TestConcurrencyIsExact(t *testing.T) {
	g := NewWithT(t)
	const threshold, callers, rounds = 5, 16, 60
	r := newOnRedis(t, makePlan("a/user", concurrent(threshold)), makePlan("a/team", concurrent(threshold+2)))
	var open, most, admitted, denied atomic.Int64
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for range rounds {
				d, err := r.Reserve(t.Context(), reserve(1, "a/user", "a/team"))
				if err != nil {
					t.Error(err)
					return
				}
				if !d.Allowed {
					denied.Add(1)
					continue
				}
				admitted.Add(1)
				now := open.Add(1)
				for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
				}
				if _, err := r.Renew(t.Context(), &limiter.Renew{Reservation: d.Reservation, TTL: time.Minute}); err != nil {
					t.Error(err)
				}
				open.Add(-1) // before the commit, which frees the unit
				if _, err := r.Commit(t.Context(), &limiter.Commit{Reservation: d.Reservation, Cost: 1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	t.Logf("%d admitted, %d denied, at most %d at once", admitted.Load(), denied.Load(), most.Load())
	g.Expect(most.Load()).To(BeNumerically("<=", threshold))
	g.Expect(denied.Load()).To(BeNumerically(">", 0), "callers compete")
	for range threshold {
		d, err := r.Reserve(t.Context(), reserve(1, "a/user", "a/team"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(d.Allowed).To(BeTrue(), "every unit is free again")
	}
	d, err := r.Reserve(t.Context(), reserve(1, "a/user", "a/team"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(d.Allowed).To(BeFalse())
}

// Neither a check beside held units nor a commit above a lowered threshold counts as a use of the limit.
func TestMetricsOfConcurrencyCountOnlyHolds(t *testing.T) {
	g := NewWithT(t)
	warns := func(p *plan.Plan) { p.Limits[0].WarnPercent = 30 }
	f := newFixture(makePlan("a/x", concurrent(3), warns))
	first := f.reserve(t, reserve(1, "a/x"))
	_, err := f.Decide(t.Context(), named("a/x"))
	g.Expect(err).NotTo(HaveOccurred())
	f.reserve(t, reserve(2, "a/x"))
	g.Expect(exposition(g, f.registry)).To(ContainSubstring(`weir_near_limit_total{limit="inflight",namespace="a",policy="x"} 1`))
	f.Use(index.NewSnapshot(2, []*plan.Plan{makePlan("a/x", concurrent(1), warns)}))
	f.commit(t, first.Reservation, 100)
	g.Expect(exposition(g, f.registry)).NotTo(ContainSubstring("weir_debt_units_total{"), "it spends nothing")
}
