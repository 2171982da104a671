// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// requesting is a check by one descriptor that brings a limit.
func requesting(units int64, window time.Duration) *limiter.Check {
	return &limiter.Check{
		Attributes: plan.Attributes{Domain: "edge", Descriptors: []plan.Descriptor{{{Key: "user", Value: "alice"}}}},
		Charges:    []limiter.Charge{{Cost: 1, Limit: &limiter.RequestedLimit{Units: units, Window: window}}},
	}
}

// byUser makes the plan apply by descriptors with a user.
func byUser(p *plan.Plan) {
	p.Matches = []plan.Match{{Domain: "edge", Descriptors: []plan.Entry{{Key: "user"}}}}
	p.Key = []plan.KeyPart{{Type: plan.KeyDescriptor, Descriptor: "user"}}
}

// Each algorithm takes a limit that comes with the request, in its own window and in
// another, and so does one that has not a single unit.
func TestRequestedLimitsByAlgorithm(t *testing.T) {
	for _, algorithm := range []plan.Algorithm{
		plan.FixedWindow, plan.SlidingLog, plan.SlidingWindow, plan.TokenBucket, plan.GCRA, plan.Suppressed,
	} {
		for _, window := range []time.Duration{time.Minute, time.Hour} {
			for _, units := range []int64{0, 1, 5, 1 << 32} {
				t.Run(fmt.Sprint(algorithm, " ", units, " per ", window), func(t *testing.T) {
					g := NewWithT(t)
					f := newFixture(makePlan("a/x", limited(three(algorithm)), byUser))
					f.store.draw = 1<<32 - 1 // nothing is shed by chance
					first := f.decide(t, requesting(units, window))
					g.Expect(first.Allowed).To(Equal(units > 0))
					g.Expect(first.Descriptors).To(HaveLen(1))
					tightest := first.Descriptors[0].Tightest
					g.Expect(tightest.Window).To(Equal(window))
					if units < 1<<32 {
						g.Expect(tightest.Quota).To(Equal(units))
					} else {
						g.Expect(tightest.Quota).To(BeElementOf(int64(plan.MaxThreshold), int64(plan.MaxLogThreshold)), "as many as can be counted")
						return
					}
					for n := units; n > 1; n-- {
						g.Expect(f.decide(t, requesting(units, window)).Allowed).To(BeTrue())
					}
					last := f.decide(t, requesting(units, window))
					g.Expect(last.Allowed).To(BeFalse())
					if units == 0 {
						g.Expect([]any{last.Reason, last.RetryAfter}).To(Equal([]any{limiter.ReasonCostExceedsThreshold, time.Duration(0)}))
						return
					}
					f.store.now = f.store.now.Add(last.RetryAfter)
					if algorithm != plan.Suppressed { // what it refuses counts too
						g.Expect(f.decide(t, requesting(units, window)).Allowed).To(BeTrue(), "retryAfter is the truth")
					}
				})
			}
		}
	}
}

// There is room for so many contracts; one more is as good, and nothing grows.
func TestMoreRequestedLimitsThanAreKept(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", byUser))
	for units := int64(1); units <= 1000; units++ {
		d := f.decide(t, requesting(units, time.Minute))
		g.Expect(d.Descriptors[0].Tightest.Quota).To(Equal(units))
		g.Expect(d.Limits[0].Used).To(Equal(units), "all count together")
	}
}

// What comes back to a bucket depends on the rate of whoever asks: a caller whose
// contract is only sent now and then must not have its small bucket refilled at the
// rate of the large one.
func TestRequestedLimitHasABucketOfItsOwn(t *testing.T) {
	for _, algorithm := range []plan.Algorithm{plan.TokenBucket, plan.GCRA} {
		g := NewWithT(t)
		f := newFixture(makePlan("a/x", limited(three(algorithm)), byUser))
		small := requesting(0, 0)
		small.Charges[0].Limit = nil
		admitted := 0
		for range 100 {
			if f.decide(t, small).Allowed {
				admitted++
			}
			f.store.now = f.store.now.Add(10 * time.Millisecond)
			g.Expect(f.decide(t, requesting(1_000_000, time.Minute)).Allowed).To(BeTrue())
		}
		g.Expect(admitted).To(Equal(3), "three a minute, however long the other bucket is")
	}
}

// On Redis as by the model, and a reset forgets what was counted by limits that
// only requests know.
func TestRequestedLimitsOnRedis(t *testing.T) {
	for _, algorithm := range []plan.Algorithm{
		plan.FixedWindow, plan.SlidingLog, plan.SlidingWindow, plan.TokenBucket, plan.GCRA, plan.Suppressed,
	} {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			r := newOnRedis(t, makePlan("a/x", limited(three(algorithm)), byUser))
			g.Expect(r.decide(t, requesting(0, time.Hour)).Reason).To(Equal(limiter.ReasonCostExceedsThreshold))
			g.Expect(r.client.DBSize(t.Context()).Val()).To(BeZero(), "nothing was touched")
			for range 2 { // a Suppressed limit sheds none while it is far from its threshold
				for _, window := range []time.Duration{time.Minute, time.Hour} {
					g.Expect(r.decide(t, requesting(1000, window)).Allowed).To(BeTrue())
				}
			}
			g.Expect(r.client.DBSize(t.Context()).Val()).To(BeNumerically(">", 0))
			g.Expect(r.Reset(t.Context(), "a/x", alice)).To(BeTrue())
			g.Expect(r.client.DBSize(t.Context()).Val()).To(BeZero())
		})
	}
}

// Whoever comes with a contract now and without one then must not find it unspent.
func TestRequestedLimitIsNotForgotten(t *testing.T) {
	plain := requesting(0, 0)
	plain.Charges[0].Limit = nil
	for _, tc := range []struct {
		algorithm plan.Algorithm
		counting  plan.Counting
		window    time.Duration
	}{
		{plan.FixedWindow, plan.CountAttempts, time.Minute},
		{plan.SlidingWindow, plan.CountAttempts, time.Minute},
		{plan.SlidingWindow, plan.CountAdmitted, time.Hour},
		{plan.SlidingLog, plan.CountAdmitted, time.Minute},
		{plan.SlidingLog, plan.CountAdmitted, time.Hour},
		{plan.SlidingLog, plan.CountAttempts, time.Hour},
	} {
		t.Run(fmt.Sprint(tc.algorithm, " ", tc.counting, " ", tc.window), func(t *testing.T) {
			p := makePlan("a/x", limited(three(tc.algorithm)), byUser, func(p *plan.Plan) { p.Counting = tc.counting })
			f, r := newFixture(p), newOnRedis(t, p)
			both := func(check *limiter.Check) bool {
				onRedis := r.decide(t, check)
				byModel := f.decide(t, check)
				NewWithT(t).Expect(onRedis.Allowed).To(Equal(byModel.Allowed))
				return byModel.Allowed
			}
			g := NewWithT(t)
			for range 50 {
				g.Expect(both(requesting(50, tc.window))).To(BeTrue())
			}
			both(plain)
			g.Expect(both(requesting(50, tc.window))).To(BeFalse())
			if tc.window == time.Minute {
				return
			}
			for range 3 {
				f.store.now = f.store.now.Add(time.Minute + time.Second)
				f.decide(t, plain)
				g.Expect(f.decide(t, requesting(50, tc.window)).Allowed).To(BeFalse())
			}
		})
	}
}

// A log lives as long as its own window, however long that of the policy is.
func TestLogOfARequestedLimitExpires(t *testing.T) {
	g := NewWithT(t)
	p := makePlan("a/x", limited(plan.Limit{Name: "l", Algorithm: plan.SlidingLog, Threshold: 3, WindowMillis: plan.MaxWindow.Milliseconds()}), byUser)
	r := newOnRedis(t, p)
	g.Expect(r.decide(t, requesting(50, time.Minute)).Allowed).To(BeTrue())
	keys := r.client.Keys(t.Context(), "*").Val()
	g.Expect(keys).To(HaveLen(1))
	g.Expect(r.client.PTTL(t.Context(), keys[0]).Val()).To(BeNumerically("~", time.Minute, time.Second))
}

// What one caller's limits are does not cut the log that others' limits need.
func TestRequestedLimitKeepsTheLogOfOverrides(t *testing.T) {
	g := NewWithT(t)
	daily := plan.Limit{Name: "l", Algorithm: plan.SlidingLog, Threshold: 3, WindowMillis: (24 * time.Hour).Milliseconds()}
	f := newFixture(makePlan("a/x", limited(daily), byUser, func(p *plan.Plan) {
		p.Overrides = []plan.Override{{
			Name: "office", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Action: plan.ActionLimit,
			Limits: []plan.LimitOverride{{Name: "l", Threshold: 100, WindowMillis: 60_000}},
		}}
	}))
	plain := requesting(0, 0)
	plain.Charges[0].Limit = nil
	for range 3 {
		g.Expect(f.decide(t, plain).Allowed).To(BeTrue())
	}
	f.store.now = f.store.now.Add(time.Hour)
	office := requesting(50, time.Minute)
	office.Attributes.RemoteAddress = netip.MustParseAddr("10.0.0.1")
	g.Expect(f.decide(t, office).Allowed).To(BeTrue())
	g.Expect(f.decide(t, plain).Allowed).To(BeFalse())
}
