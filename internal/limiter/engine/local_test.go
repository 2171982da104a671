// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/denialcache"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/seeds"
)

var errTimeout = &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}

// spending returns a check of that cost.
func spending(cost int64, ids ...string) *limiter.Check {
	return &limiter.Check{Policies: ids, Key: []string{"alice"}, Cost: cost}
}

var localMode = fails(plan.FailLocal)

// Without Redis a replica admits its share of the quota, rounded up, and reports it.
func TestLocalAdmitsTheShareOfAReplica(t *testing.T) {
	for replicas, share := range map[int]int{0: 10, 1: 10, 2: 5, 3: 4, 4: 3, 10: 1, 100: 1} {
		t.Run(strconv.Itoa(replicas), func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", localMode, threshold(10)))
			f.replicas, f.store.err = replicas, errTimeout
			for i := range share {
				d := f.decide(t, named("a/x"))
				g.Expect(d.Allowed).To(BeTrue())
				g.Expect(d.Reason).To(Equal(limiter.ReasonAllowed))
				g.Expect(d.Degraded).To(Equal(plan.FailLocal))
				g.Expect(d.Limits[0].Quota).To(Equal(int64(share)))
				g.Expect(d.Limits[0].Threshold).To(Equal(int64(share)))
				g.Expect(d.Limits[0].Remaining).To(Equal(int64(share - i - 1)))
			}
			d := f.decide(t, named("a/x"))
			g.Expect(d.Allowed).To(BeFalse())
			g.Expect(d.Reason).To(Equal(limiter.ReasonLimitExceeded))
			g.Expect(d.Degraded).To(Equal(plan.FailLocal))
			g.Expect(d.RetryAfter).To(Equal(time.Minute))
			g.Expect(exposition(g, f.registry)).To(And(
				ContainSubstring(fmt.Sprintf(`weir_decisions_total{limit="",namespace="a",policy="x",verdict="degraded_allowed"} %d`, share)),
				ContainSubstring(`weir_decisions_total{limit="burst",namespace="a",policy="x",verdict="degraded_denied"} 1`),
				ContainSubstring(`mode="Local"`),
			))
		})
	}
}

// In a chain any Closed denies, then Local decides, then Open admits. Shadow never denies.
func TestMixedChainsWithoutRedis(t *testing.T) {
	shadow := mode(plan.ModeShadow)
	open, closed := fails(plan.FailOpen), fails(plan.FailClosed)
	for name, tc := range map[string]struct {
		plans    []*plan.Plan
		allowed  int // of five checks, with a share of 3
		reason   limiter.Reason
		degraded plan.FailureMode
	}{
		"local":                        {[]*plan.Plan{makePlan("a/x", localMode)}, 3, limiter.ReasonLimitExceeded, plan.FailLocal},
		"local and open":               {[]*plan.Plan{makePlan("a/x", open), makePlan("a/y", localMode)}, 3, limiter.ReasonLimitExceeded, plan.FailLocal},
		"local and closed":             {[]*plan.Plan{makePlan("a/x", localMode), makePlan("a/y", closed)}, 0, limiter.ReasonStoreUnavailable, plan.FailClosed},
		"all":                          {[]*plan.Plan{makePlan("a/x", open), makePlan("a/y", localMode), makePlan("a/z", closed)}, 0, limiter.ReasonStoreUnavailable, plan.FailClosed},
		"two local":                    {[]*plan.Plan{makePlan("a/x", localMode, threshold(9)), makePlan("a/y", localMode)}, 3, limiter.ReasonLimitExceeded, plan.FailLocal},
		"local in shadow":              {[]*plan.Plan{makePlan("a/x", localMode, shadow)}, 5, limiter.ReasonAllowed, plan.FailLocal},
		"local beside closed shadow":   {[]*plan.Plan{makePlan("a/x", localMode), makePlan("a/y", closed, shadow)}, 3, limiter.ReasonLimitExceeded, plan.FailLocal},
		"local in shadow beside open":  {[]*plan.Plan{makePlan("a/x", localMode, shadow), makePlan("a/y", open)}, 5, limiter.ReasonStoreUnavailable, plan.FailLocal},
		"local in shadow beside local": {[]*plan.Plan{makePlan("a/x", localMode, shadow, threshold(1)), makePlan("a/y", localMode)}, 3, limiter.ReasonLimitExceeded, plan.FailLocal},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(tc.plans...)
			f.store.err = errTimeout
			var ids []string
			for _, p := range tc.plans {
				ids = append(ids, p.ID())
			}
			var d *limiter.Decision
			allowed := 0
			for range 5 {
				if d = f.decide(t, named(ids...)); d.Allowed {
					allowed++
				}
			}
			g.Expect(allowed).To(Equal(tc.allowed))
			g.Expect(d.Reason).To(Equal(tc.reason))
			g.Expect(d.Degraded).To(Equal(tc.degraded))
		})
	}
}

// A check that is denied already needs no limits, and spends nothing from the shares.
func TestOutrightDenialsWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", localMode), makePlan("a/y", keyed(apiKey), missing(plan.MissingKeyDeny)))
	f.store.err = errTimeout
	d := f.decide(t, &limiter.Check{Policies: []string{"a/x", "a/y"}, Cost: 1})
	g.Expect([]any{d.Allowed, d.Reason, d.Degraded}).To(Equal([]any{false, limiter.ReasonMissingKey, plan.FailureMode("")}))
	g.Expect(f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Cost: 1}).Limits[0].Used).To(Equal(int64(1)))
}

func TestSuppressedWithoutRedis(t *testing.T) {
	limit := three(plan.Suppressed)
	limit.HardLimitPercent = 300
	allowed := func(draw uint32) (n int) {
		f := newFixture(makePlan("a/x", localMode, limited(limit)))
		f.store.err, f.store.draw = errTimeout, draw
		return f.spend(t, 20, "a/x")
	}
	NewWithT(t).Expect(allowed(0)).To(BeNumerically(">", allowed(drawSheds)))
}

// A cost above the share but within the quota is denied for lack of Redis, not for good, and
// spends nothing.
func TestCostAboveTheShare(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", localMode, threshold(10)), makePlan("a/y", localMode, threshold(100)))
	f.replicas, f.store.err = 2, errTimeout
	d := f.decide(t, spending(6, "a/y", "a/x"))
	g.Expect(d.Allowed).To(BeFalse())
	g.Expect(d.Reason).To(Equal(limiter.ReasonStoreUnavailable))
	g.Expect(d.Degraded).To(Equal(plan.FailLocal))
	g.Expect(d.Policy).To(Equal("a/x"))
	g.Expect(d.RetryAfter).To(BeZero())
	for _, l := range d.Limits {
		g.Expect(l.Used).To(BeZero())
	}
	g.Expect(f.decide(t, spending(11, "a/x")).Reason).To(Equal(limiter.ReasonCostExceedsThreshold))
	g.Expect(f.decide(t, spending(5, "a/x")).Allowed).To(BeTrue())
}

// State is kept across outages until its window ends, so that a flapping Redis renews nothing,
// and is not written to Redis.
func TestLocalStateOutlivesAnOutage(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", localMode))
	for i := range 10 {
		f.store.err = errTimeout
		g.Expect(f.decide(t, named("a/x")).Allowed).To(Equal(i < 3))
		f.store.err = nil
		g.Expect(f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Key: []string{"alice"}, Cost: 1, Peek: true}).Limits[0].Used).To(BeZero())
	}
	f.store.now = f.store.now.Add(time.Minute)
	f.store.err = errTimeout
	g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue())
}

// A block that begins without Redis holds while Redis is away, whatever the number of replicas.
func TestBlocksBeginLocally(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", localMode, threshold(1), func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 }))
	f.store.err = errTimeout
	f.decide(t, named("a/x"))
	g.Expect(f.decide(t, named("a/x")).RetryAfter).To(Equal(10 * time.Minute))
	f.replicas = 5
	f.store.now = f.store.now.Add(2 * time.Minute)
	d := f.decide(t, named("a/x"))
	g.Expect(d.Reason).To(Equal(limiter.ReasonBlocked))
	g.Expect(d.Limit).To(Equal("burst"))
	g.Expect(d.RetryAfter).To(Equal(8 * time.Minute))
	f.store.err = nil
	g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue(), "Redis does not know the block")
}

// A peek shows the local state and spends nothing.
func TestPeeksWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", localMode))
	f.store.err = errTimeout
	peek := &limiter.Check{Policies: []string{"a/x"}, Key: []string{"alice"}, Cost: 1, Peek: true}
	for range 5 {
		d := f.decide(t, peek)
		g.Expect(d.Allowed).To(BeTrue())
		g.Expect(d.Degraded).To(Equal(plan.FailLocal))
		g.Expect(d.Limits[0].Used).To(BeZero())
	}
	for range 3 {
		f.decide(t, named("a/x"))
	}
	g.Expect(f.decide(t, peek).Allowed).To(BeFalse())
}

// A denial that this replica remembers holds in every failure mode, also when the question that it
// asks Redis once a second fails.
func TestRememberedDenialsHoldInEveryFailureMode(t *testing.T) {
	g := NewWithT(t)
	block := func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 }
	server := testenv.StartRedis(t)
	client, err := redisclient.New(server.URL, time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	now := time.Unix(1_900_000_000, 0)
	clock := func() time.Time { return now }
	e := engine.New(engine.Options{
		Store: denialcache.New(redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir:", Timeout: time.Minute}), clock),
		Local: memory.NewStore(memory.Options{Keys: 10, Now: clock}), Registerer: prometheus.NewRegistry(),
		Logger: slog.New(slog.DiscardHandler),
	})
	var plans []*plan.Plan
	for _, m := range []plan.FailureMode{plan.FailOpen, plan.FailClosed, plan.FailLocal} {
		name := strings.ToLower(string(m))
		plans = append(plans, makePlan("a/"+name, fails(m), threshold(1)), makePlan("b/"+name, fails(m), threshold(1), block))
	}
	e.Use(index.NewSnapshot(1, plans))
	decide := func(check *limiter.Check) *limiter.Decision {
		d, err := e.Decide(t.Context(), check)
		g.Expect(err).NotTo(HaveOccurred())
		return d
	}
	for _, p := range plans {
		decide(named(p.ID()))
		g.Expect(decide(named(p.ID())).Allowed).To(BeFalse())
	}
	server.Stop()
	for range 5 {
		now = now.Add(2 * time.Second)
		for _, p := range plans {
			peek := named(p.ID())
			peek.Peek = true
			for _, check := range []*limiter.Check{named(p.ID()), peek} {
				d := decide(check)
				g.Expect(d.Allowed).To(BeFalse(), p.ID())
				g.Expect(d.Reason).To(BeElementOf(limiter.ReasonLimitExceeded, limiter.ReasonBlocked))
				g.Expect(d.Degraded).To(BeEmpty())
			}
		}
	}
}

// A requested limit is divided as the limits of the policy are.
func TestRequestedLimitsAreDivided(t *testing.T) {
	for _, algorithm := range []plan.Algorithm{plan.FixedWindow, plan.SlidingLog, plan.TokenBucket} {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", localMode, limited(three(algorithm)), byUser))
			f.replicas, f.store.err = 4, errTimeout
			for number, share := range map[int64]int{10: 3, 100: 25} {
				admitted := 0
				for range 30 {
					if f.decide(t, requesting(number, time.Minute)).Allowed {
						admitted++
					}
				}
				if algorithm == plan.TokenBucket { // each number has a bucket
					g.Expect(admitted).To(Equal(share))
				} else {
					g.Expect(admitted).To(BeNumerically("<=", share))
				}
			}
		})
	}
}

// Without Redis and without room, new keys share the share of a replica.
func TestLocalOverflow(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", localMode, threshold(10)))
	f.replicas, f.store.err = 2, errTimeout
	check := func(i int) *limiter.Decision {
		return f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Key: []string{strconv.Itoa(i)}, Cost: 1})
	}
	for i := range 1000 {
		g.Expect(check(i).Allowed).To(BeTrue())
	}
	admitted := 0
	for i := range 100 {
		d := check(1000 + i)
		g.Expect(d.Limits[0].Quota).To(Equal(int64(5)))
		if d.Allowed {
			admitted++
		}
	}
	g.Expect(admitted).To(Equal(5))
	g.Expect(exposition(g, f.registry)).To(ContainSubstring(`weir_overflow_decisions_total{namespace="a",policy="x"} 100`))
}

// Resetting a key, or removing its block, also works on the state in this process.
func TestResetLocalState(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", localMode))
	f.store.err = errTimeout
	for range 4 {
		f.decide(t, named("a/x"))
	}
	g.Expect(f.decide(t, named("a/x")).Allowed).To(BeFalse())
	_, err := f.Reset(t.Context(), "a/x", alice)
	g.Expect(err).To(MatchError(errTimeout), "Redis was not reset")
	g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue())
}

// localLimits are limits of each algorithm, to which a test adds name, threshold and window.
var localLimits = []struct {
	limit plan.Limit
	// most returns what a limit of n units admits in any window.
	most func(n int64) int64
	// windows is how long the test lasts: in two windows FixedWindow may admit its units
	// at the end of one and the start of the next.
	windows int
}{
	{plan.Limit{Algorithm: plan.FixedWindow}, func(n int64) int64 { return n }, 1},
	{plan.Limit{Algorithm: plan.SlidingLog}, func(n int64) int64 { return n }, 4},
	{plan.Limit{Algorithm: plan.SlidingWindow, BucketMicros: 1_000_000}, func(n int64) int64 { return n }, 4},
	{plan.Limit{Algorithm: plan.TokenBucket, Burst: 12}, func(n int64) int64 { return 2 * n }, 4},
	{plan.Limit{Algorithm: plan.GCRA, Burst: 1}, func(n int64) int64 { return n + 1 }, 4},
	{plan.Limit{Algorithm: plan.Suppressed, BucketMicros: 1_000_000, HardLimitPercent: 150}, func(n int64) int64 { return (3*n + 1) / 2 }, 4},
}

func TestSharesFollowTheReplicas(t *testing.T) {
	f := newFixture(makePlan("a/x", localMode, threshold(10)))
	f.store.err = errTimeout
	for _, want := range [][]int64{{2, 5}, {5, 2}, {1, 10}} {
		f.replicas = int(want[0])
		NewWithT(t).Expect(f.decide(t, named("a/x")).Limits[0].Quota).To(Equal(want[1]))
	}
}

// A number of replicas that changes renews nothing: the state is kept, as by an edit, and a window
// admits at most the largest share.
func TestChangingSharesRenewNothing(t *testing.T) {
	const most = 12
	for _, tc := range localLimits {
		t.Run(string(tc.limit.Algorithm), func(t *testing.T) {
			for seed := range seeds.InMemory(48) {
				tc.limit.Name, tc.limit.Threshold, tc.limit.WindowMillis = "burst", most, time.Minute.Milliseconds()
				f, r := newFixture(makePlan("a/x", localMode, limited(tc.limit))), rand.New(rand.NewPCG(seed, 9))
				f.store.err = errTimeout
				var admitted int64
				fewest := 1 + int(seed%12)
				for range 599 {
					if r.IntN(80) == 0 {
						f.replicas = fewest + r.IntN(2)*r.IntN(3)
					}
					f.replicas = max(f.replicas, fewest)
					cost := 1 + r.Int64N(2)
					if f.decide(t, spending(cost, "a/x")).Allowed {
						admitted += cost
					}
					f.store.now = f.store.now.Add(100 * time.Millisecond)
				}
				NewWithT(t).Expect(admitted).To(BeNumerically("<=", tc.most((most+int64(fewest)-1)/int64(fewest))))
				NewWithT(t).Expect(admitted).To(BeNumerically(">", 0))
			}
		})
	}
}
