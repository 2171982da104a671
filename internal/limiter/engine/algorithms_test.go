// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
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

// atOnce makes so many units pass at once and, where it has a meaning of its
// own, leaves the rate as it is.
func atOnce(l *plan.Limit, units int64) {
	if l.Algorithm.Refills() {
		l.Burst = units
	} else {
		l.Threshold = units
	}
}

var allAlgorithms = []plan.Algorithm{
	plan.FixedWindow, plan.SlidingLog, plan.SlidingWindow, plan.TokenBucket, plan.GCRA, plan.Suppressed,
}

// edit is a case of TestEdits.
type edit struct {
	spent int
	edit  func(*plan.Plan)
	stays func(plan.Algorithm) bool // what was spent; nil where no limit takes part
	want  func(plan.Algorithm) limiter.Reason
}

// Whatever the algorithm, an edit applies to the next decision: to the state
// there is, or to a fresh one where the edit makes it another state.
func TestEdits(t *testing.T) {
	shared := func(algorithm plan.Algorithm) bool { return algorithm == plan.SlidingLog } // one log for all its windows
	always := func(plan.Algorithm) bool { return true }
	never := func(plan.Algorithm) bool { return false }
	for name, tc := range map[string]edit{
		"more may pass": {
			spent: 3, edit: func(p *plan.Plan) { atOnce(&p.Limits[0], 5) }, stays: always,
			want: func(plan.Algorithm) limiter.Reason { return limiter.ReasonAllowed },
		},
		"less may pass": {
			spent: 2, edit: func(p *plan.Plan) { atOnce(&p.Limits[0], 2) }, stays: always,
			want: func(plan.Algorithm) limiter.Reason { return limiter.ReasonLimitExceeded },
		},
		"another window": {
			spent: 3, edit: func(p *plan.Plan) { p.Limits[0].WindowMillis = 61_000 }, stays: shared,
			want: func(a plan.Algorithm) limiter.Reason {
				if shared(a) {
					return limiter.ReasonLimitExceeded
				}
				return limiter.ReasonAllowed
			},
		},
		"another name": {
			spent: 3, edit: func(p *plan.Plan) { p.Limits[0].Name = "other" }, stays: shared,
			want: func(a plan.Algorithm) limiter.Reason {
				if shared(a) {
					return limiter.ReasonLimitExceeded
				}
				return limiter.ReasonAllowed
			},
		},
		"another algorithm": {
			spent: 3, stays: never,
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
			spent: 3, edit: func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 }, stays: always,
			want: func(plan.Algorithm) limiter.Reason { return limiter.ReasonLimitExceeded },
		},
		"an override that limits": {
			// Another rate of refill is another bucket.
			spent: 3, stays: func(a plan.Algorithm) bool { return !a.Refills() },
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
	} {
		for _, algorithm := range allAlgorithms {
			t.Run(name+"/"+string(algorithm), func(t *testing.T) { tc.run(t, algorithm) })
		}
	}
}

func (e *edit) run(t *testing.T, algorithm plan.Algorithm) {
	t.Helper()
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", limited(three(algorithm))))
	for range e.spent {
		g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue())
	}
	edited := makePlan("a/x", limited(three(algorithm)), e.edit)
	g.Expect(edited.Validate()).To(Succeed())
	f.Use(plan.NewSnapshot(2, []*plan.Plan{edited}))
	d := f.decide(t, named("a/x"))
	g.Expect(d.Reason).To(Equal(e.want(algorithm)))
	if e.stays != nil {
		used := int64(0)
		if e.stays(algorithm) {
			used = int64(e.spent)
		}
		if d.Allowed {
			used++
		}
		g.Expect(d.Limits[0].Used).To(Equal(used))
	}

	f.Use(plan.NewSnapshot(3, []*plan.Plan{makePlan("a/x", limited(three(algorithm)))}))
	again := named("a/x")
	again.Peek = true
	g.Expect(f.decide(t, again).Limits[0].Used).To(BeNumerically(">=", int64(e.spent)), "nothing is lost by an edit that is taken back")
}

// A block outlives the blockDuration that started it, and the numbers of the
// override it was started under.
func TestBlocksSurviveEdits(t *testing.T) {
	for _, algorithm := range allAlgorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", limited(three(algorithm)), func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 }))
			for range 3 {
				f.decide(t, named("a/x"))
			}
			g.Expect(f.decide(t, named("a/x")).Reason).To(Equal(limiter.ReasonLimitExceeded))
			f.Use(plan.NewSnapshot(2, []*plan.Plan{makePlan("a/x", limited(three(algorithm), plan.Limit{
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

// What a limit with a burst says of itself: threshold as in the policy, and
// what is left of the burst.
func TestBurst(t *testing.T) {
	for _, algorithm := range []plan.Algorithm{plan.TokenBucket, plan.GCRA} {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", limited(plan.Limit{
				Name: "l", Algorithm: algorithm, Threshold: 60, WindowMillis: 60_000, Burst: 5,
			})))
			dear := named("a/x")
			dear.Cost = 4
			d := f.decide(t, dear)
			g.Expect(d.Allowed).To(BeTrue())
			g.Expect([]int64{d.Limits[0].Threshold, d.Limits[0].Used, d.Limits[0].Remaining}).To(Equal([]int64{60, 4, 1}))
			g.Expect(d.Limits[0].ResetAfter).To(Equal(4 * time.Second))

			dear = named("a/x")
			dear.Cost = 2
			d = f.decide(t, dear)
			g.Expect(d.Reason).To(Equal(limiter.ReasonLimitExceeded))
			g.Expect(d.RetryAfter).To(Equal(time.Second))
			g.Expect(d.Limits[0].RemainingAfterWaiting).To(Equal(int64(2)))

			dear = named("a/x")
			dear.Cost = 6
			d = f.decide(t, dear)
			g.Expect(d.Reason).To(Equal(limiter.ReasonCostExceedsThreshold), "more than may pass at once, less than the threshold")
			g.Expect(d.Limit).To(Equal("l"))
		})
	}
}

func TestSuppressed(t *testing.T) {
	g := NewWithT(t)
	shed := plan.Limit{
		Name: "shed", Algorithm: plan.Suppressed, Threshold: 10, WindowMillis: 10_000, BucketMicros: 100_000,
		HardLimitPercent: 150, BlockMillis: 60_000,
	}
	f := newFixture(makePlan("a/x", limited(shed)))
	for range 12 {
		d := f.decide(t, named("a/x"))
		g.Expect(d.Allowed).To(BeTrue(), "fortune favours")
	}
	d := f.decide(t, named("a/x"))
	g.Expect(d.Limits[0].SuppressionFactor).To(BeNumerically("~", 1-10.0/13, 1e-6))
	g.Expect(d.Limits[0].Used).To(Equal(int64(13)))
	g.Expect(d.Limits[0].Remaining).To(BeZero())

	f.store.draw = 1<<32 - 1
	d = f.decide(t, named("a/x"))
	g.Expect([]string{string(d.Reason), d.Policy, d.Limit}).To(Equal([]string{"Suppressed", "a/x", "shed"}))
	g.Expect(d.Limits[0].Allowed).To(BeFalse())
	g.Expect(d.Limits[0].Used).To(Equal(int64(13)), "admissions are what is used")
	g.Expect(d.RetryAfter).To(Equal(10 * time.Second))
	f.store.draw = 0
	g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue(), "to be shed starts no block")
	g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue())
	d = f.decide(t, named("a/x"))
	g.Expect([]string{string(d.Reason), d.Limit}).To(Equal([]string{"LimitExceeded", "shed"}), "the hard limit of 15")
	g.Expect(f.decide(t, named("a/x")).Reason).To(Equal(limiter.ReasonBlocked))

	metrics := exposition(g, f.registry)
	g.Expect(metrics).To(ContainSubstring(`weir_decisions_total{limit="shed",namespace="a",policy="x",verdict="denied"}`))
	g.Expect(metrics).To(ContainSubstring(`weir_blocks_total{limit="shed",namespace="a",policy="x"}`))
}

// Chance is the reason only where no limit is exceeded.
func TestSuppressedBesideAnother(t *testing.T) {
	g := NewWithT(t)
	shed := plan.Limit{Name: "shed", Algorithm: plan.Suppressed, Threshold: 1, WindowMillis: 10_000, BucketMicros: 100_000, HardLimitPercent: 1000}
	fixed := plan.Limit{Name: "fixed", Algorithm: plan.FixedWindow, Threshold: 2, WindowMillis: 60_000}
	f := newFixture(makePlan("a/x", limited(shed, fixed)))
	f.decide(t, named("a/x"))
	f.decide(t, named("a/x"))
	f.store.draw = 1<<32 - 1
	d := f.decide(t, named("a/x"))
	g.Expect([]string{string(d.Reason), d.Limit}).To(Equal([]string{"LimitExceeded", "fixed"}))

	f.Use(plan.NewSnapshot(2, []*plan.Plan{makePlan("a/x", limited(shed, fixed), mode(plan.ModeShadow))}))
	g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue(), "Shadow never sheds")
}
