// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package denialcache

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/seeds"
)

// Random calls, edits, resets and blocks have the same outcome with the cache as in the model,
// and a denial that is cached leaves every later reply of the store as it would be without.
func TestCacheAgreesWithModel(t *testing.T) {
	t.Run("over Redis", func(t *testing.T) {
		server, clock := testenv.StartRedisWithClock(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
		t.Cleanup(func() { _ = client.Close() })
		compareWithModel(t, clock, func(t *testing.T) (Store, func()) {
			t.Helper()
			NewWithT(t).Expect(client.FlushAll(t.Context()).Err()).To(Succeed())
			backend := redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir-test:", Timeout: time.Minute, Now: clock.Now})
			return backend, func() { NewWithT(t).Expect(client.Scan(t.Context(), 0, "*", 1000).Err()).To(Succeed()) }
		})
	})
	t.Run("over memory", func(t *testing.T) {
		clock := storetest.NewStillClock()
		compareWithModel(t, clock, func(*testing.T) (Store, func()) {
			backend := memory.NewStore(memory.Options{Keys: 1_000_000, Now: clock.Now})
			return oneReplica{backend}, backend.DropExpired
		})
	})
}

// compareWithModel compares caches over empty stores with the model. open also returns a function that deletes
// the expired states of the store.
func compareWithModel(t *testing.T, clock storetest.Clock, open func(*testing.T) (Store, func())) {
	t.Helper()
	model := storetest.NewModel()
	runs, fromCache, renewed := 0, 0, 0
	for seed := range seeds.OnServer(100) {
		runs++
		model.Clear(t)
		backend, dropExpired := open(t)
		cache := New(backend, clock.Now)
		w := storetest.NewWorkload(rand.New(rand.NewPCG(seed, 17)), algorithmsOf(seed), storetest.Features{Substitutes: true, Holds: true})
		now := clock.Now()
		var history []storetest.Step
		for range 200 {
			now = now.Add(time.Duration(w.Rand.Int64N(3000)) * time.Microsecond)
			model.SetTime(t, now)
			clock.Set(now)
			dropExpired()
			step := w.NextStep()
			if w.Rand.IntN(10) == 0 {
				renewed += renewAnswering(t, cache, model)
			}
			for range 1 + w.Rand.IntN(3) { // a denied caller tries again
				history = append(history, step)
				if compareOutcomes(t, step, model, cache, history) {
					fromCache++
				}
			}
		}
	}
	NewWithT(t).Expect(fromCache).To(BeNumerically(">", 4*runs), "replies from memory")
	NewWithT(t).Expect(renewed).To(BeNumerically(">", runs), "renewed denials")
}

// algorithmsOf returns all algorithms for the first hundred seeds, and all but SlidingLog for others: time advances by
// milliseconds here, and for as long as a window that an edit made longer, the model and the stores may differ in what
// they still hold of a SlidingLog.
func algorithmsOf(seed uint64) []store.Algorithm {
	if seed < 100 {
		return store.Algorithms()
	}
	return slices.DeleteFunc(store.Algorithms(), func(a store.Algorithm) bool { return a == store.SlidingLog })
}

// renewAnswering renews all denials that have answered, whatever their age, and returns their number. The model gets the
// same peeks, since a peek spends ended holds.
func renewAnswering(t *testing.T, c *Cache, model *storetest.Subject) int {
	t.Helper()
	answering := map[uint64]*denial{}
	for i := range c.shards {
		for id, d := range c.shards[i].denials {
			if d.answered && c.now().Before(d.until) {
				answering[id] = d
			}
		}
	}
	for _, d := range answering {
		for _, backend := range []storetest.Evaluator{model.Store, c.store} { // renew sends them in any order
			_, err := backend.Evaluate(t.Context(), peekOf(d.call))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
		}
	}
	c.renew(t.Context(), answering)
	return len(answering)
}

// compareOutcomes does one step with the model and with the cache, and reports whether the reply
// came from memory: then only the outcome of the call must be the same, and the wait not longer than by its
// rounding.
func compareOutcomes(t *testing.T, step storetest.Step, model *storetest.Subject, cache *Cache, history []storetest.Step) bool {
	t.Helper()
	g := NewWithT(t)
	want, err := step.Do(t.Context(), model)
	g.Expect(err).NotTo(HaveOccurred())
	got, err := step.Do(t.Context(), cache)
	g.Expect(err).NotTo(HaveOccurred())
	recent := func() string { return storetest.LastSteps(history) }
	reply, isReply := got.(*store.Reply)
	if !isReply || !reply.FromCache {
		g.Expect(got).To(Equal(want), recent)
		return false
	}
	// The model has spent the holds that have ended. The store does so at its next call.
	asked, err := step.Do(t.Context(), cache.store)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(asked).To(Equal(want), recent)
	exact := want.(*store.Reply) //nolint:forcetypeassert // as from the cache
	wait := func(r *store.Reply) (longest time.Duration) {
		for i := range r.Entries {
			longest = max(longest, r.Entries[i].BlockLeft)
			for _, l := range r.Entries[i].Limits {
				longest = max(longest, l.RetryAfter)
			}
		}
		return longest
	}
	g.Expect(exact.Entries).To(ContainElement(HaveField("Verdict", Not(Equal(store.Admitted)))), recent)
	g.Expect(wait(reply)).To(And(BeNumerically(">", 0), BeNumerically("<=", wait(exact)+time.Millisecond)), recent)
	return true
}
