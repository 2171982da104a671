// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// limited replaces the limits of a plan.
func limited(limits ...plan.Limit) func(*plan.Plan) { return func(p *plan.Plan) { p.Limits = limits } }

// three returns a limit of three units a minute, all of which may pass at once.
func three(algorithm plan.Algorithm) plan.Limit {
	l := plan.Limit{Name: "burst", Algorithm: algorithm, Threshold: 3, WindowMillis: 60_000}
	if algorithm.Refills() {
		l.Burst = 3
	}
	if algorithm.Buckets() {
		l.BucketMicros = 1_000_000
	}
	if algorithm == plan.Suppressed {
		l.HardLimitPercent = 101
	}
	return l
}

// setCapacity sets the number of units that pass at once. A limit with a burst keeps
// its rate.
func setCapacity(l *plan.Limit, units int64) {
	if l.Algorithm.Refills() {
		l.Burst = units
	} else {
		l.Threshold = units
	}
}

var allAlgorithms = []plan.Algorithm{
	plan.FixedWindow, plan.SlidingLog, plan.SlidingWindow, plan.TokenBucket, plan.GCRA, plan.Suppressed,
}

// edit is a change to a plan whose limit has already counted units.
type edit struct {
	spent      int
	edit       func(*plan.Plan)
	keepsCount func(plan.Algorithm) bool // nil when the decision evaluates no limit
	want       func(plan.Algorithm) limiter.Reason
}

func edits() map[string]edit {
	sharesLog := func(algorithm plan.Algorithm) bool { return algorithm == plan.SlidingLog } // one log for all windows of a policy
	always := func(plan.Algorithm) bool { return true }
	never := func(plan.Algorithm) bool { return false }
	return map[string]edit{
		"more may pass": {
			spent: 3, edit: func(p *plan.Plan) { setCapacity(&p.Limits[0], 5) }, keepsCount: always,
			want: func(plan.Algorithm) limiter.Reason { return limiter.ReasonAllowed },
		},
		"less may pass": {
			spent: 2, edit: func(p *plan.Plan) { setCapacity(&p.Limits[0], 2) }, keepsCount: always,
			want: func(plan.Algorithm) limiter.Reason { return limiter.ReasonLimitExceeded },
		},
		"another window": {
			spent: 3, edit: func(p *plan.Plan) { p.Limits[0].WindowMillis = 61_000 }, keepsCount: sharesLog,
			want: func(a plan.Algorithm) limiter.Reason {
				if sharesLog(a) {
					return limiter.ReasonLimitExceeded
				}
				return limiter.ReasonAllowed
			},
		},
		"another name": {
			spent: 3, edit: func(p *plan.Plan) { p.Limits[0].Name = "other" }, keepsCount: sharesLog,
			want: func(a plan.Algorithm) limiter.Reason {
				if sharesLog(a) {
					return limiter.ReasonLimitExceeded
				}
				return limiter.ReasonAllowed
			},
		},
		"another algorithm": {
			spent: 3, keepsCount: never,
			edit: func(p *plan.Plan) {
				next := plan.FixedWindow
				if p.Limits[0].Algorithm == next {
					next = plan.SlidingWindow
				}
				p.Limits[0] = three(next)
			},
			want: func(plan.Algorithm) limiter.Reason { return limiter.ReasonAllowed },
		},
		"a penalty": {
			spent: 3, edit: func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 }, keepsCount: always,
			want: func(plan.Algorithm) limiter.Reason { return limiter.ReasonLimitExceeded },
		},
		"an override that limits": {
			// Another refill rate has its own bucket.
			spent: 3, keepsCount: func(a plan.Algorithm) bool { return !a.Refills() },
			edit: func(p *plan.Plan) {
				changed := plan.LimitOverride{Name: "burst", Threshold: 5}
				if p.Limits[0].Algorithm.Refills() {
					changed.Burst = 5
				}
				p.Overrides = []plan.Override{{Name: "o", When: "true", Action: plan.ActionLimit, Limits: []plan.LimitOverride{changed}}}
			},
			want: func(plan.Algorithm) limiter.Reason { return limiter.ReasonAllowed },
		},
		"an override that allows": {
			spent: 3, edit: overridden(allow(when("true"))),
			want: func(plan.Algorithm) limiter.Reason { return limiter.ReasonExempt },
		},
		"an override that denies": {
			spent: 1, edit: overridden(deny(when("true"))),
			want: func(plan.Algorithm) limiter.Reason { return limiter.ReasonDeniedByOverride },
		},
		"disabled": {
			spent: 3, edit: mode(plan.ModeDisabled),
			want: func(plan.Algorithm) limiter.Reason { return limiter.ReasonDisabled },
		},
	}
}

// editedFixture returns an engine that has admitted the units of e.spent and then
// received the edited plan.
func (e *edit) editedFixture(t *testing.T, algorithm plan.Algorithm) *fixture {
	t.Helper()
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", limited(three(algorithm))))
	for range e.spent {
		g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue())
	}
	edited := makePlan("a/x", limited(three(algorithm)), e.edit)
	g.Expect(edited.Validate()).To(Succeed())
	f.Use(index.NewSnapshot(2, []*plan.Plan{edited}))
	return f
}

// An edit keeps existing counters unless it changes which counter the limit uses.
func TestEditsApplyToTheNextDecision(t *testing.T) {
	for name, tc := range edits() {
		for _, algorithm := range allAlgorithms {
			t.Run(name+"/"+string(algorithm), func(t *testing.T) {
				g := NewWithT(t)
				d := tc.editedFixture(t, algorithm).decide(t, named("a/x"))
				g.Expect(d.Reason).To(Equal(tc.want(algorithm)))
				if tc.keepsCount == nil {
					return
				}
				used := int64(0)
				if tc.keepsCount(algorithm) {
					used = int64(tc.spent)
				}
				if d.Allowed {
					used++
				}
				g.Expect(d.Limits[0].Used).To(Equal(used))
			})
		}
	}
}

func TestRevertedEditsKeepCounters(t *testing.T) {
	for name, tc := range edits() {
		for _, algorithm := range allAlgorithms {
			t.Run(name+"/"+string(algorithm), func(t *testing.T) {
				f := tc.editedFixture(t, algorithm)
				f.decide(t, named("a/x"))
				f.Use(index.NewSnapshot(3, []*plan.Plan{makePlan("a/x", limited(three(algorithm)))}))
				peek := named("a/x")
				peek.Peek = true
				NewWithT(t).Expect(f.decide(t, peek).Limits[0].Used).To(BeNumerically(">=", int64(tc.spent)))
			})
		}
	}
}

// A block outlives both the blockDuration and the limits that started it.
func TestBlocksSurviveEdits(t *testing.T) {
	for _, algorithm := range allAlgorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", limited(three(algorithm)), func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 }))
			for range 3 {
				f.decide(t, named("a/x"))
			}
			g.Expect(f.decide(t, named("a/x")).Reason).To(Equal(limiter.ReasonLimitExceeded))
			f.Use(index.NewSnapshot(2, []*plan.Plan{makePlan("a/x", limited(three(algorithm), plan.Limit{
				Name: "wide", Algorithm: plan.FixedWindow, Threshold: 1000, WindowMillis: 1000,
			}))}))
			f.store.now = f.store.now.Add(9 * time.Minute)
			d := f.decide(t, named("a/x"))
			g.Expect(d.Reason).To(Equal(limiter.ReasonBlocked))
			g.Expect(d.Limit).To(Equal("burst"))
			f.store.now = f.store.now.Add(d.RetryAfter)
			g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue())
		})
	}
}

func costing(units int64) *limiter.Check {
	check := named("a/x")
	check.Cost = units
	return check
}

// withBurst returns an engine with one limit of 60 a minute with a burst of 5.
func withBurst(algorithm plan.Algorithm) *fixture {
	return newFixture(makePlan("a/x", limited(plan.Limit{
		Name: "l", Algorithm: algorithm, Threshold: 60, WindowMillis: 60_000, Burst: 5,
	})))
}

var burstAlgorithms = []plan.Algorithm{plan.TokenBucket, plan.GCRA}

func TestBurstIsReportedBesideTheThreshold(t *testing.T) {
	for _, algorithm := range burstAlgorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			d := withBurst(algorithm).decide(t, costing(4))
			g.Expect(d.Allowed).To(BeTrue())
			g.Expect([]int64{d.Limits[0].Threshold, d.Limits[0].Used, d.Limits[0].Remaining}).To(Equal([]int64{60, 4, 1}))
			g.Expect(d.Limits[0].ResetAfter).To(Equal(4 * time.Second))
		})
	}
}

func TestBurstDeniesUntilItRefills(t *testing.T) {
	for _, algorithm := range burstAlgorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			f := withBurst(algorithm)
			g.Expect(f.decide(t, costing(4)).Allowed).To(BeTrue())
			d := f.decide(t, costing(2))
			g.Expect(d.Reason).To(Equal(limiter.ReasonLimitExceeded))
			g.Expect(d.RetryAfter).To(Equal(time.Second))
			g.Expect(d.Limits[0].RemainingAfterWaiting).To(Equal(int64(2)))
		})
	}
}

func TestBurstBoundsTheCost(t *testing.T) {
	for _, algorithm := range burstAlgorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			f := withBurst(algorithm)
			g.Expect(f.decide(t, costing(4)).Allowed).To(BeTrue())
			d := f.decide(t, costing(6))
			g.Expect(d.Reason).To(Equal(limiter.ReasonCostExceedsThreshold), "6 units exceed the burst but not the threshold")
			g.Expect(d.Limit).To(Equal("l"))
		})
	}
}

const (
	drawAdmits = uint32(0)
	drawSheds  = uint32(1<<32 - 1)
)

// suppressed returns an engine with a Suppressed limit of 10 in 10 s and a hard
// limit of 15, which has admitted 12 units.
func suppressed(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(makePlan("a/x", limited(plan.Limit{
		Name: "shed", Algorithm: plan.Suppressed, Threshold: 10, WindowMillis: 10_000, BucketMicros: 100_000,
		HardLimitPercent: 150, BlockMillis: 60_000,
	})))
	for range 12 {
		NewWithT(t).Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue(), "the draw admits")
	}
	return f
}

func TestSuppressedReportsItsFactor(t *testing.T) {
	g := NewWithT(t)
	d := suppressed(t).decide(t, named("a/x"))
	g.Expect(d.Limits[0].SuppressionFactor).To(BeNumerically("~", 1-10.0/13, 1e-6))
	g.Expect(d.Limits[0].Used).To(Equal(int64(13)))
	g.Expect(d.Limits[0].Remaining).To(BeZero())
}

func TestSuppressedShedsByChance(t *testing.T) {
	g := NewWithT(t)
	f := suppressed(t)
	f.decide(t, named("a/x"))
	f.store.draw = drawSheds
	d := f.decide(t, named("a/x"))
	g.Expect([]string{string(d.Reason), d.Policy, d.Limit}).To(Equal([]string{"Suppressed", "a/x", "shed"}))
	g.Expect(d.Limits[0].Allowed).To(BeFalse())
	g.Expect(d.Limits[0].Used).To(Equal(int64(13)), "a shed request is not used")
	g.Expect(d.RetryAfter).To(Equal(10 * time.Second))
	g.Expect(exposition(g, f.registry)).To(ContainSubstring(`weir_decisions_total{limit="shed",namespace="a",policy="x",verdict="denied"}`))
}

func TestSheddingStartsNoBlock(t *testing.T) {
	g := NewWithT(t)
	f := suppressed(t)
	f.store.draw = drawSheds
	g.Expect(f.decide(t, named("a/x")).Reason).To(Equal(limiter.ReasonSuppressed))
	f.store.draw = drawAdmits
	g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue())
}

// Admitted units count toward the hard limit, shed requests do not.
func TestSuppressedHardLimitStartsABlock(t *testing.T) {
	g := NewWithT(t)
	f := suppressed(t)
	f.decide(t, named("a/x"))
	f.store.draw = drawSheds
	f.decide(t, named("a/x"))
	f.store.draw = drawAdmits
	g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue())
	g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue())
	d := f.decide(t, named("a/x"))
	g.Expect([]string{string(d.Reason), d.Limit}).To(Equal([]string{"LimitExceeded", "shed"}), "the hard limit of 15")
	g.Expect(f.decide(t, named("a/x")).Reason).To(Equal(limiter.ReasonBlocked))
	g.Expect(exposition(g, f.registry)).To(ContainSubstring(`weir_blocks_total{limit="shed",namespace="a",policy="x"}`))
}

// suppressedBesideFixed returns an engine with a limit that sheds nearly every request and an
// exhausted fixed window.
func suppressedBesideFixed(t *testing.T, edits ...func(*plan.Plan)) *fixture {
	t.Helper()
	both := limited(
		plan.Limit{Name: "shed", Algorithm: plan.Suppressed, Threshold: 1, WindowMillis: 10_000, BucketMicros: 100_000, HardLimitPercent: 1000},
		plan.Limit{Name: "fixed", Algorithm: plan.FixedWindow, Threshold: 2, WindowMillis: 60_000},
	)
	f := newFixture(makePlan("a/x", both))
	f.decide(t, named("a/x"))
	f.decide(t, named("a/x"))
	f.store.draw = drawSheds
	f.Use(index.NewSnapshot(2, []*plan.Plan{makePlan("a/x", append(edits, both)...)}))
	return f
}

func TestExceededLimitIsReportedBeforeSuppression(t *testing.T) {
	d := suppressedBesideFixed(t).decide(t, named("a/x"))
	NewWithT(t).Expect([]string{string(d.Reason), d.Limit}).To(Equal([]string{"LimitExceeded", "fixed"}))
}

func TestShadowNeverSheds(t *testing.T) {
	NewWithT(t).Expect(suppressedBesideFixed(t, mode(plan.ModeShadow)).decide(t, named("a/x")).Allowed).To(BeTrue())
}
