// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package denialcache

import (
	"context"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/test/clock"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
)

// cached is a replica with a cache of denials, on a Redis that a test can stop. Both have a clock
// that stands still until the test moves it.
type cached struct {
	*Cache
	t      *testing.T
	server *testenv.Redis
	clock  *clock.Clock
}

func newCached(t *testing.T) *cached {
	t.Helper()
	server, clock := testenv.StartRedisWithClock(t)
	return (&cached{server: server, clock: clock}).replica(t)
}

// replica returns another replica with the same Redis.
func (c *cached) replica(t *testing.T) *cached {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: c.server.Addr, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	backend := redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir-test:", Timeout: time.Minute, Now: c.clock.Now})
	return &cached{Cache: New(backend, c.clock.Now), t: t, server: c.server, clock: c.clock}
}

func (c *cached) evaluate(call *store.Call) *store.Reply {
	c.t.Helper()
	reply, err := c.Evaluate(c.t.Context(), call)
	NewWithT(c.t).Expect(err).NotTo(HaveOccurred())
	return reply
}

// deny evaluates the call until Redis denies it, and expects the next answer to come from the
// cache or not.
func (c *cached) deny(call *store.Call, fromCache bool) *store.Reply {
	c.t.Helper()
	g := NewWithT(c.t)
	g.Eventually(func() store.Verdict {
		reply := c.evaluate(call)
		g.Expect(reply.FromCache).To(BeFalse())
		return reply.Entries[0].Verdict
	}).ShouldNot(Equal(store.Admitted))
	reply := c.evaluate(call)
	g.Expect(reply.FromCache).To(Equal(fromCache))
	g.Expect(reply.Entries[0].Verdict).NotTo(Equal(store.Admitted))
	return reply
}

func TestDenialsThatAreCached(t *testing.T) {
	c := newCached(t)
	wide := store.NewPolicy("test/wide", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1_000_000)})
	counts := store.NewPolicy("test/counts", true, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1_000_000)})
	for name, tc := range map[string]struct {
		policy *store.Policy
		chain  []*store.Policy
		cached bool
	}{
		"a limit":               {policy: store.NewPolicy("test/a", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 3)}), cached: true},
		"several limits":        {policy: store.NewPolicy("test/b", false, false, []store.Limit{storetest.SlowLimit(store.TokenBucket, 3), storetest.SlowLimit(store.SlidingLog, 5)}), cached: true},
		"a block":               {policy: store.NewPolicy("test/c", false, false, []store.Limit{storetest.Blocking(storetest.SlowLimit(store.GCRA, 3))}), cached: true},
		"a block of attempts":   {policy: store.NewPolicy("test/d", true, false, []store.Limit{storetest.Blocking(storetest.SlowLimit(store.SlidingWindow, 3))}), cached: true},
		"attempts":              {policy: store.NewPolicy("test/e", true, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 3)})},
		"Suppressed":            {policy: store.NewPolicy("test/f", false, false, []store.Limit{storetest.SlowLimit(store.Suppressed, 3)})},
		"a block of Suppressed": {policy: store.NewPolicy("test/g", false, false, []store.Limit{storetest.Blocking(storetest.SlowLimit(store.Suppressed, 3))})},
		"in Shadow":             {policy: store.NewPolicy("test/h", false, true, []store.Limit{storetest.SlowLimit(store.FixedWindow, 3)})},
		"a chain":               {policy: store.NewPolicy("test/i", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 3)}), chain: []*store.Policy{wide}, cached: true},
		"a chain with attempts": {policy: store.NewPolicy("test/j", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 3)}), chain: []*store.Policy{counts}},
	} {
		t.Run(name, func(t *testing.T) {
			call := storetest.SpendOne(tc.policy, "a")
			for _, p := range tc.chain {
				call.Entries = append(call.Entries, store.Entry{Policy: p, Key: "b", Cost: 1})
			}
			c.t = t
			c.deny(call, tc.cached)
		})
	}
}

// A reply from the cache is the reply of Redis, with the time that has passed.
func TestCachedRepliesAreThoseOfRedis(t *testing.T) {
	c := newCached(t)
	larger := storetest.SlowLimit(store.FixedWindow, 9)
	larger.Name = "larger"
	for name, policy := range map[string]*store.Policy{
		"a limit": store.NewPolicy("test/a", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 3), larger}),
		"a block": store.NewPolicy("test/b", false, false, []store.Limit{storetest.Blocking(storetest.SlowLimit(store.SlidingLog, 3))}),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c.t = t
			c.deny(storetest.SpendOne(policy, "a"), true)
			c.clock.Advance(minRecheckAge / 2)
			reply := c.evaluate(storetest.SpendOne(policy, "a"))
			g.Expect(reply.FromCache).To(BeTrue())
			exact, err := c.store.Evaluate(t.Context(), storetest.SpendOne(policy, "a"))
			g.Expect(err).NotTo(HaveOccurred())
			got, want := reply.Entries[0], exact.Entries[0]
			g.Expect(got.BlockLeft).To(BeNumerically("~", want.BlockLeft, rounding))
			for i := range want.Limits {
				g.Expect(got.Limits[i].RetryAfter).To(BeNumerically("~", want.Limits[i].RetryAfter, rounding))
				g.Expect(got.Limits[i].ResetAfter).To(BeNumerically("~", want.Limits[i].ResetAfter, rounding))
				got.Limits[i].RetryAfter, got.Limits[i].ResetAfter = want.Limits[i].RetryAfter, want.Limits[i].ResetAfter
			}
			got.BlockLeft = want.BlockLeft
			g.Expect(got).To(Equal(want))
		})
	}
}

// Checks without pause are denied from memory and, after the wait that the answer returned,
// admitted.
func TestCachedDenialsEndInTime(t *testing.T) {
	c := newCached(t)
	for _, algorithm := range []store.Algorithm{store.FixedWindow, store.SlidingLog, store.SlidingWindow, store.TokenBucket, store.GCRA} {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			c.t = t
			call := storetest.SpendOne(store.NewPolicy("test/"+string(algorithm), false, false, []store.Limit{{
				Name: "l", Algorithm: algorithm, Quota: 1, Threshold: 1, Window: 300 * time.Millisecond, Bucket: time.Millisecond,
			}}), "a")
			wait := c.deny(call, true).Entries[0].Limits[0].RetryAfter
			end := c.clock.Now().Add(wait)
			for ; c.clock.Now().Before(end.Add(-rounding)); c.clock.Advance(rounding) {
				reply := c.evaluate(call)
				g.Expect(reply.FromCache).To(BeTrue())
				g.Expect(reply.Entries[0].Verdict).To(Equal(store.Denied))
			}
			c.clock.Set(end)
			g.Expect(c.evaluate(call).Entries[0].Verdict).To(Equal(store.Admitted), "after the wait")
		})
	}
}

func TestCostsOfCachedDenials(t *testing.T) {
	g := NewWithT(t)
	c := newCached(t)
	fixed := store.NewPolicy("test/a", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 10), {
		Name: "longer", Algorithm: store.FixedWindow, Quota: 20, Threshold: 20, Window: 1000 * time.Hour,
	}})
	spend := func(policy *store.Policy, cost int64) *store.Reply {
		return c.evaluate(&store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: cost}}})
	}
	spend(fixed, 8)
	g.Expect(spend(fixed, 3).FromCache).To(BeFalse())
	g.Expect(spend(fixed, 3).FromCache).To(BeTrue(), "the same cost")
	g.Expect(spend(fixed, 9).FromCache).To(BeTrue(), "a larger cost waits for the same window")
	g.Expect(spend(fixed, 13).FromCache).To(BeFalse(), "an even larger one waits for another limit")
	g.Expect(spend(fixed, 2).Entries[0].Verdict).To(Equal(store.Admitted), "a smaller one fits")
	refilled := store.NewPolicy("test/b", false, false, []store.Limit{storetest.SlowLimit(store.TokenBucket, 10)})
	spend(refilled, 8)
	spend(refilled, 3)
	g.Expect(spend(refilled, 3).FromCache).To(BeTrue())
	g.Expect(spend(refilled, 4).FromCache).To(BeFalse(), "a larger cost waits longer")
}

// A reset, on whichever replica, lifts a denial on all of them.
func TestAResetLiftsCachedDenials(t *testing.T) {
	g := NewWithT(t)
	c := newCached(t)
	other := c.replica(t)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- other.Start(ctx) }()
	g.Eventually(other.allChanges.Load).ShouldNot(BeZero(), "subscribed")
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.Blocking(storetest.SlowLimit(store.FixedWindow, 1))})
	for name, lift := range map[store.Key]func(store.Key) (bool, error){
		"reset": func(key store.Key) (bool, error) { return c.Reset(t.Context(), policy, key) },
		"unblock": func(key store.Key) (bool, error) {
			if _, err := c.store.Reset(t.Context(), policy, key); err != nil { // the limit
				return false, err
			}
			if err := c.store.Block(t.Context(), policy, key, time.Hour); err != nil {
				return false, err
			}
			return c.Unblock(t.Context(), policy, key)
		},
	} {
		c.deny(storetest.SpendOne(policy, name), true)
		other.deny(storetest.SpendOne(policy, name), true)
		lifted, err := lift(name)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(lifted).To(BeTrue(), string(name))
		g.Expect(c.evaluate(storetest.SpendOne(policy, name)).Entries[0].Verdict).To(Equal(store.Admitted), string(name))
		g.Eventually(func() bool { return other.evaluate(storetest.SpendOne(policy, name)).FromCache }).Should(BeFalse(), string(name))
	}
	stop()
	g.Eventually(stopped).Should(Receive(BeNil()))
}

// A replica that misses the message asks Redis a second later.
func TestCachedDenialsAreRechecked(t *testing.T) {
	g := NewWithT(t)
	c := newCached(t)
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1)})
	c.deny(storetest.SpendOne(policy, "a"), true)
	_, err := c.store.Reset(t.Context(), policy, "a")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.evaluate(storetest.SpendOne(policy, "a")).FromCache).To(BeTrue())
	c.clock.Advance(minRecheckAge)
	g.Expect(c.evaluate(storetest.SpendOne(policy, "a")).Entries[0].Verdict).To(Equal(store.Admitted))
}

// A reply to a call that was sent before a reset does not deny later calls.
func TestARaceWithAResetCachesNothing(t *testing.T) {
	g := NewWithT(t)
	c := newCached(t)
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1)})
	call := storetest.SpendOne(policy, "a")
	id, changes := c.identify(call)
	c.drop("a")
	denied := &store.Reply{Entries: []store.EntryReply{{Verdict: store.Denied, Limits: []store.LimitReply{{RetryAfter: time.Hour}}}}}
	c.shard(id).update(id, c.newDenial(call, denied, changes, c.clock.Now()), call)
	g.Expect(c.evaluate(call).Entries[0].Verdict).To(Equal(store.Admitted))
}

func TestTheCacheIsBounded(t *testing.T) {
	g := NewWithT(t)
	c := New(nil, time.Now)
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1)})
	denied := &store.Reply{Entries: []store.EntryReply{{Verdict: store.Denied, Limits: []store.LimitReply{{RetryAfter: time.Hour}}}}}
	const bound = denialShards * maxShardDenials
	for i := range 3 * bound {
		call := storetest.SpendOne(policy, store.Key(strconv.Itoa(i)))
		id, changes := c.identify(call)
		c.shard(id).update(id, c.newDenial(call, denied, changes, time.Now()), call)
	}
	size := 0
	for i := range c.shards {
		size += len(c.shards[i].denials)
	}
	g.Expect(size).To(And(BeNumerically("<=", bound), BeNumerically(">", bound/2)))
}
