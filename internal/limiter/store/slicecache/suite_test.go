// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/denialcache"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
)

// slicedAlgorithms are the algorithms with slices.
var slicedAlgorithms = []store.Algorithm{store.FixedWindow, store.SlidingLog, store.SlidingWindow, store.TokenBucket, store.GCRA}

// newPolicy returns a policy with slices of that age.
func newPolicy(name string, age time.Duration, limits ...store.Limit) *store.Policy {
	return store.NewVariants(store.Settings{ID: "test/" + name, Slices: store.Slices{MaxPercent: 50, MaxAge: age}}, limits)[0]
}

// start runs the cache until the test ends or stop is called, which waits until all slices are committed.
func start(tb testing.TB, c *Cache) (stop func()) {
	tb.Helper()
	c.closeTimeout = time.Minute // a busy machine may take long
	ctx, cancel := context.WithCancel(tb.Context())
	var wait sync.WaitGroup
	wait.Go(func() { _ = c.Start(ctx) })
	stop = func() {
		cancel()
		wait.Wait()
	}
	tb.Cleanup(stop)
	return stop
}

// stores opens replicas of one store, for each kind of store.
func stores(t *testing.T, test func(t *testing.T, open func() store.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		backend := memory.NewStore(memory.Options{Keys: 1000})
		test(t, func() store.Store { return backend })
	})
	t.Run("Redis", func(t *testing.T) {
		server := testenv.StartRedis(t)
		test(t, func() store.Store { return openRedis(t, server) })
	})
}

// openRedis opens the store of one replica in the server, with remembered denials.
func openRedis(tb testing.TB, server *testenv.Redis) store.Store {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	return openOn(tb, client)
}

// openOn opens the store of one replica that has the client.
func openOn(tb testing.TB, client redis.UniversalClient) store.Store {
	tb.Helper()
	tb.Cleanup(func() { _ = client.Close() })
	return denialcache.New(redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir-test:", Timeout: time.Minute, MaxSends: 14}), time.Now)
}

// Parallel checks through one to four replicas never exceed the quota, and all that they admitted is recorded once the
// replicas have returned their slices. The rest of the quota can then be spent.
func TestQuotaIsExact(t *testing.T) {
	stores(t, func(t *testing.T, open func() store.Store) {
		t.Helper()
		const most = 4000
		for _, algorithm := range slicedAlgorithms {
			for n := range 4 {
				t.Run(fmt.Sprint(algorithm, " ", n+1), func(t *testing.T) {
					g := NewWithT(t)
					policy := newPolicy(fmt.Sprint(algorithm, n), time.Second, storetest.SlowLimit(algorithm, most))
					replicas := make([]storetest.Evaluator, n+1)
					stops := make([]func(), n+1)
					for i := range replicas {
						c := New(Options{Store: open()})
						replicas[i], stops[i] = c, start(t, c)
					}
					var sliced atomic.Int64
					check := func(backend storetest.Evaluator) bool {
						reply, err := backend.Evaluate(t.Context(), storetest.SpendOne(policy, "a"))
						if err == nil && reply.FromSlice {
							sliced.Add(1)
						}
						return err == nil && reply.Entries[0].Verdict == store.Admitted
					}
					admitted := 0
					g.Eventually(func() int64 { // each check from slices may take the next one
						admitted += storetest.Concurrently(replicas, storetest.Times(100), check)
						return sliced.Load()
					}).Should(BeNumerically(">", 200))
					admitted += storetest.Concurrently(replicas, storetest.Times(most), check)
					g.Expect(admitted).To(BeNumerically("<=", most))
					for _, stop := range stops {
						stop()
					}
					backend := open()
					reply, err := backend.Evaluate(t.Context(), storetest.PeekOf(storetest.SpendOne(policy, "a")))
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(reply.Entries[0].Held).To(BeZero())
					g.Expect(reply.Entries[0].Limits[0].Used).To(BeEquivalentTo(admitted), "%d from slices", sliced.Load())
					// A denial that a replica remembers from before the slices came back answers for up to a second.
					g.Eventually(func() int {
						admitted += storetest.Concurrently(replicas[:1], storetest.Times(3000), check)
						return admitted
					}).Should(Equal(most))
					g.Expect(storetest.Concurrently(replicas[:1], storetest.Times(3000), check)).To(BeZero())
				})
			}
		}
	})
}

// Chains are charged as a whole or not at all.
func TestChainsAreAllOrNothing(t *testing.T) {
	stores(t, func(t *testing.T, open func() store.Store) {
		t.Helper()
		g := NewWithT(t)
		wide := newPolicy("wide", 500*time.Millisecond, storetest.SlowLimit(store.FixedWindow, 150_000))
		tight := newPolicy("tight", 500*time.Millisecond, storetest.SlowLimit(store.SlidingLog, 90_000))
		plain := store.NewPolicy("test/plain", false, false, []store.Limit{storetest.SlowLimit(store.GCRA, 700)})
		chains := [][]*store.Policy{{wide, tight}, {wide}, {tight, wide}, {tight}, {wide, tight}, {wide, plain}}
		replicas, stops := make([]storetest.Evaluator, 3), make([]func(), 3)
		lost := func() (sum float64) {
			for _, r := range replicas {
				sum += testutil.ToFloat64(r.(*Cache).metrics.units.WithLabelValues(outcomeLost))
			}
			return sum
		}
		for i := range replicas {
			c := New(Options{Store: open()})
			replicas[i], stops[i] = c, start(t, c)
		}
		var mu sync.Mutex
		spent, sliced, uncounted := map[*store.Policy]int64{}, 0, 0.0
		var next atomic.Int64
		check := func(backend storetest.Evaluator) bool {
			call := &store.Call{}
			for _, p := range chains[next.Add(1)/500%int64(len(chains))] {
				call.Entries = append(call.Entries, store.Entry{Policy: p, Key: "a", Cost: 1})
			}
			reply, err := backend.Evaluate(t.Context(), call)
			if err != nil || slices.ContainsFunc(reply.Entries, func(e store.EntryReply) bool { return e.Verdict != store.Admitted }) {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			for _, e := range call.Entries {
				spent[e.Policy]++
			}
			if reply.FromSlice && len(call.Entries) > 1 {
				sliced++
			}
			return true
		}
		g.Eventually(func() int {
			storetest.Concurrently(replicas, storetest.Times(100), check) // few, so that a busy machine has slices before the quota is spent
			return sliced
		}, "60s").Should(BeNumerically(">", 1000), "chains from slices")
		for _, stop := range stops {
			stop()
		}
		for _, p := range []*store.Policy{wide, tight, plain} {
			reply, err := open().Evaluate(t.Context(), storetest.PeekOf(storetest.SpendOne(p, "a")))
			g.Expect(err).NotTo(HaveOccurred())
			used := reply.Entries[0].Limits[0].Used
			g.Expect(used).To(And(BeNumerically(">=", spent[p]), BeNumerically("<=", p.Limits()[0].Quota)), p.ID())
			uncounted += float64(used - spent[p])
		}
		g.Expect(uncounted).To(Equal(lost()), "counted and not spent: commits that were too late")
	})
}
