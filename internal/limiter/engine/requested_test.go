// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv"
)

// requesting returns a check with one descriptor that requests a limit.
func requesting(units int64, window time.Duration) *limiter.Check {
	check := requestingNothing()
	check.Hits[0].Limit = &limiter.RequestedLimit{Units: units, Window: window}
	return check
}

// requestingNothing returns the check of requesting without a requested limit.
func requestingNothing() *limiter.Check {
	return &limiter.Check{
		Attributes: plan.Attributes{Domain: "edge", Descriptors: []plan.Descriptor{{{Key: "user", Value: "alice"}}}},
		Hits:       []limiter.Hits{{Cost: 1}},
	}
}

// byUser makes the plan apply by descriptors with a user.
func byUser(p *plan.Plan) {
	p.Matches = []plan.Match{{Domain: "edge", Descriptors: []plan.EntryMatch{{Key: "user"}}}}
	p.Key = []plan.KeyPart{{Type: plan.KeyDescriptor, Descriptor: "user"}}
}

// requestedCase is an algorithm of the policy with a limit that the request brings.
type requestedCase struct {
	algorithm plan.Algorithm
	limit     limiter.RequestedLimit
}

// requestedCases combines the units with every algorithm, in the window of the policy and in
// another.
func requestedCases(units ...int64) []requestedCase {
	var cases []requestedCase
	for _, algorithm := range allAlgorithms {
		for _, window := range []time.Duration{time.Minute, time.Hour} {
			for _, n := range units {
				cases = append(cases, requestedCase{algorithm, limiter.RequestedLimit{Units: n, Window: window}})
			}
		}
	}
	return cases
}

func (c *requestedCase) String() string {
	return fmt.Sprint(c.algorithm, " ", c.limit.Units, " per ", c.limit.Window)
}

func (c *requestedCase) fixture() *fixture {
	f := newFixture(makePlan("a/x", limited(three(c.algorithm)), byUser))
	f.store.draw = drawSheds
	return f
}

func (c *requestedCase) check() *limiter.Check { return requesting(c.limit.Units, c.limit.Window) }

func TestRequestedLimitIsReported(t *testing.T) {
	for _, tc := range requestedCases(0, 1, 5, 1<<40) {
		t.Run(tc.String(), func(t *testing.T) {
			g := NewWithT(t)
			d := tc.fixture().decide(t, tc.check())
			g.Expect(d.Allowed).To(Equal(tc.limit.Units > 0))
			g.Expect(d.Descriptors).To(HaveLen(1))
			tightest := d.Descriptors[0].Tightest
			g.Expect(tightest.Window).To(Equal(tc.limit.Window))
			if tc.limit.Units < 1<<40 {
				g.Expect(tightest.Quota).To(Equal(tc.limit.Units))
			} else {
				g.Expect(tightest.Quota).To(Equal(tightest.Algorithm.MaxThreshold()), "the largest quota the algorithm counts")
			}
		})
	}
}

func TestRequestedLimitIsEnforced(t *testing.T) {
	for _, tc := range requestedCases(1, 5) {
		t.Run(tc.String(), func(t *testing.T) {
			g := NewWithT(t)
			f := tc.fixture()
			for range tc.limit.Units {
				g.Expect(f.decide(t, tc.check()).Allowed).To(BeTrue())
			}
			last := f.decide(t, tc.check())
			g.Expect(last.Allowed).To(BeFalse())
			if tc.algorithm == plan.Suppressed {
				return // denied requests count toward its rate, so it may shed again after the wait
			}
			f.store.now = f.store.now.Add(last.RetryAfter)
			g.Expect(f.decide(t, tc.check()).Allowed).To(BeTrue(), "allowed after retryAfter")
		})
	}
}

func TestRequestedLimitOfZeroDenies(t *testing.T) {
	for _, tc := range requestedCases(0) {
		t.Run(tc.String(), func(t *testing.T) {
			g := NewWithT(t)
			f := tc.fixture()
			for range 2 {
				d := f.decide(t, tc.check())
				g.Expect(d.Allowed).To(BeFalse())
				g.Expect([]any{d.Reason, d.RetryAfter}).To(Equal([]any{limiter.ReasonCostExceedsThreshold, time.Duration(0)}))
			}
		})
	}
}

// The engine caches a bounded number of requested limits. The others work as well.
func TestRequestedLimitsExceedTheCache(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", byUser))
	for units := int64(1); units <= 1000; units++ {
		d := f.decide(t, requesting(units, time.Minute))
		g.Expect(d.Descriptors[0].Tightest.Quota).To(Equal(units))
		g.Expect(d.Limits[0].Used).To(Equal(units), "all limits share a counter")
		g.Expect(f.CachedRequests("a/x")).To(BeNumerically("<=", 256))
	}
}

// A client whose requests carry a limit only sometimes must not have the small bucket of
// the policy refilled at the rate of the large one.
func TestRequestedLimitHasItsOwnBucket(t *testing.T) {
	for _, algorithm := range burstAlgorithms {
		g := NewWithT(t)
		f := newFixture(makePlan("a/x", limited(three(algorithm)), byUser))
		admitted := 0
		for range 100 {
			if f.decide(t, requestingNothing()).Allowed {
				admitted++
			}
			f.store.now = f.store.now.Add(10 * time.Millisecond)
			g.Expect(f.decide(t, requesting(1_000_000, time.Minute)).Allowed).To(BeTrue())
		}
		g.Expect(admitted).To(Equal(3), "the policy admits three a minute")
	}
}

// Routes that request 10, 100 and 1000 units for one client: each admits at most its number,
// whatever the order, and beside checks without a request.
func TestRoutesWithDifferentRequestedLimits(t *testing.T) {
	for _, algorithm := range allAlgorithms {
		for _, counting := range []plan.Counting{plan.CountAdmitted, plan.CountAttempts} {
			if counting == plan.CountAttempts && (slices.Contains(burstAlgorithms, algorithm) || algorithm == plan.Suppressed) {
				continue
			}
			t.Run(fmt.Sprint(algorithm, " ", counting), func(t *testing.T) {
				p := makePlan("a/x", limited(three(algorithm)), byUser, func(p *plan.Plan) { p.Counting = counting })
				server, _ := testenv.StartRedisWithClock(t) // it stands still, like the clock of the fixture
				f, onRedis := newFixture(p), newOnServer(t, server, p)
				f.store.draw = drawSheds
				r := rand.New(rand.NewPCG(1, 2))
				admitted := map[int64]int64{}
				for range 3000 {
					check, number := requestingNothing(), int64(3)
					if n := r.IntN(4); n < 3 {
						number = []int64{10, 100, 1000}[n]
						check = requesting(number, time.Minute)
					}
					d := f.decide(t, check)
					if d.Allowed {
						admitted[number]++
					}
					if algorithm != plan.Suppressed && !slices.Contains(burstAlgorithms, algorithm) {
						NewWithT(t).Expect(onRedis.decide(t, check).Allowed).To(Equal(d.Allowed))
					}
				}
				for number, n := range admitted {
					NewWithT(t).Expect(n).To(BeNumerically("<=", number))
				}
				NewWithT(t).Expect(admitted).To(HaveKey(int64(1000)))
			})
		}
	}
}

// Each rate has a bucket of its own, up to 16 of them. Further ones are decided by the limit of the
// policy, and counted as ignored.
func TestFurtherRequestedRatesAreIgnored(t *testing.T) {
	const day = 24 * time.Hour // of the clock of Redis: a bucket gets no unit back while a busy machine decides these checks
	for _, algorithm := range burstAlgorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			p := makePlan("a/x", limited(three(algorithm)), byUser)
			f, r := newFixture(p), newOnRedis(t, p)
			for _, decide := range []func(*testing.T, *limiter.Check) *limiter.Decision{f.decide, r.decide} {
				for units := int64(1000); units < 1016; units++ {
					g.Expect(decide(t, requesting(units, day)).Limits[0].Quota).To(Equal(units))
				}
				g.Expect(decide(t, requesting(1016, day)).Limits[0].Quota).To(Equal(int64(3)))
				d := decide(t, requesting(1000, day))
				g.Expect([]int64{d.Limits[0].Quota, d.Limits[0].Used}).To(Equal([]int64{1000, 2}), "listed rates are still in use")
			}
			g.Expect(testutil.GatherAndCompare(f.registry, strings.NewReader(`
# HELP weir_requested_limits_ignored_total Limits requested by a descriptor that could not replace a limit of the policy.
# TYPE weir_requested_limits_ignored_total counter
weir_requested_limits_ignored_total{namespace="a",policy="x"} 1
`), "weir_requested_limits_ignored_total")).To(Succeed())
			f.store.now = f.store.now.Add(day)
			g.Expect(f.decide(t, requesting(1016, day)).Limits[0].Quota).To(Equal(int64(1016)), "the others are full again")
		})
	}
}

func TestRequestedLimitOfZeroWritesNothing(t *testing.T) {
	for _, algorithm := range allAlgorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			r := newOnRedis(t, makePlan("a/x", limited(three(algorithm)), byUser))
			g.Expect(r.decide(t, requesting(0, time.Hour)).Reason).To(Equal(limiter.ReasonCostExceedsThreshold))
			g.Expect(r.client.DBSize(t.Context()).Val()).To(BeZero())
		})
	}
}

// Reset deletes the state of requested limits that no policy contains.
func TestResetDeletesRequestedLimits(t *testing.T) {
	for _, algorithm := range allAlgorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			r := newOnRedis(t, makePlan("a/x", limited(three(algorithm)), byUser))
			for range 2 { // a Suppressed limit sheds nothing far below its threshold
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

// A request without a requested limit keeps the units that requests with one have used.
func TestRequestedLimitKeepsItsCount(t *testing.T) {
	plain := requestingNothing()
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

// The log expires after the requested window, not after the window of the policy.
func TestLogOfARequestedLimitExpires(t *testing.T) {
	g := NewWithT(t)
	p := makePlan("a/x", limited(plan.Limit{Name: "l", Algorithm: plan.SlidingLog, Threshold: 3, WindowMillis: plan.MaxWindow.Milliseconds()}), byUser)
	r := newOnRedis(t, p)
	g.Expect(r.decide(t, requesting(50, time.Minute)).Allowed).To(BeTrue())
	keys := r.client.Keys(t.Context(), "*").Val()
	g.Expect(keys).To(HaveLen(2), "the log, and the largest number it serves")
	for _, key := range keys {
		g.Expect(r.client.PTTL(t.Context(), key).Val()).To(BeNumerically("~", time.Minute, time.Second))
	}
}

// A requested limit with a short window does not trim the log that the policy still needs.
func TestRequestedLimitDoesNotTrimTheLog(t *testing.T) {
	g := NewWithT(t)
	daily := plan.Limit{Name: "l", Algorithm: plan.SlidingLog, Threshold: 3, WindowMillis: (24 * time.Hour).Milliseconds()}
	f := newFixture(makePlan("a/x", limited(daily), byUser, func(p *plan.Plan) {
		p.Overrides = []plan.Override{{
			Name: "office", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Action: plan.ActionLimit,
			Limits: []plan.LimitOverride{{Name: "l", Threshold: 100, WindowMillis: 60_000}},
		}}
	}))
	plain := requestingNothing()
	for range 3 {
		g.Expect(f.decide(t, plain).Allowed).To(BeTrue())
	}
	f.store.now = f.store.now.Add(time.Hour)
	office := requesting(50, time.Minute)
	office.Attributes.RemoteAddress = netip.MustParseAddr("10.0.0.1")
	g.Expect(f.decide(t, office).Allowed).To(BeTrue())
	g.Expect(f.decide(t, plain).Allowed).To(BeFalse())
}

// A request replaces the limit with its window. Where none has it, one is replaced only if it is the only
// one, and if the window is one that can be requested.
func TestRequestedLimitsThatReplaceNone(t *testing.T) {
	hourly := func(p *plan.Plan) {
		p.Limits = append(p.Limits, plan.Limit{Name: "hourly", Algorithm: plan.FixedWindow, Threshold: 100, WindowMillis: 3_600_000})
	}
	concurrently := func(p *plan.Plan) {
		p.Limits = append(p.Limits, plan.Limit{Name: "inflight", Algorithm: plan.Concurrency, Threshold: 4})
		p.Reservations = plan.Reservations{MaxTTLMillis: 1000, MaxOpen: 4}
	}
	for name, tc := range map[string]struct {
		edit    func(*plan.Plan)
		window  time.Duration
		quotas  []int64
		ignored float64
	}{
		"one of two limits":       {hourly, time.Hour, []int64{3, 7}, 0},
		"none of two limits":      {hourly, 24 * time.Hour, []int64{3, 100}, 1},
		"the only limit":          {byUser, 24 * time.Hour, []int64{7}, 0},
		"no window, Concurrency":  {concurrently, 0, []int64{3, 4}, 1},
		"a window of ten seconds": {byUser, 10 * time.Second, []int64{3}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", byUser, tc.edit))
			var quotas []int64
			for _, l := range f.decide(t, requesting(7, tc.window)).Limits {
				quotas = append(quotas, l.Quota)
			}
			g.Expect(quotas).To(Equal(tc.quotas))
			g.Expect(testutil.GatherAndCount(f.registry, "weir_requested_limits_ignored_total")).To(BeEquivalentTo(tc.ignored))
		})
	}
}

// A request for a day counts in the day of the calendar, and a request for another window does not.
func TestRequestedLimitsBesideACalendar(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", byUser, limited(plan.Limit{
		Name: "daily", Algorithm: plan.FixedWindow, Threshold: 9, Calendar: &plan.Calendar{Period: plan.PeriodDay, TimeZone: plan.UTC},
	})))
	tightest := func(check *limiter.Check) *limiter.LimitState { return f.decide(t, check).Descriptors[0].Tightest }
	own := tightest(requestingNothing())
	g.Expect([]int64{own.Quota, own.Used}).To(Equal([]int64{9, 1}))
	g.Expect(own.Window).To(BeZero())
	g.Expect(own.Calendar.Period).To(Equal(plan.PeriodDay))
	g.Expect(f.store.now.Add(own.ResetAfter).UTC().Format(time.TimeOnly)).To(Equal("00:00:00"))
	same := tightest(requesting(5, 24*time.Hour))
	g.Expect([]int64{same.Quota, same.Used}).To(Equal([]int64{5, 2}))
	g.Expect(same.Calendar).NotTo(BeNil())
	other := tightest(requesting(5, time.Minute))
	g.Expect([]int64{other.Quota, other.Used}).To(Equal([]int64{5, 1}))
	g.Expect(other.Window).To(Equal(time.Minute))
	g.Expect(other.Calendar).To(BeNil())
}
