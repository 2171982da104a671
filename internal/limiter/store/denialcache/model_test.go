// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package denialcache

import (
	"context"
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
		cache := &noting{Cache: New(backend, clock.Now), inForce: map[string]*store.Policy{}, edited: map[string]time.Time{}}
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
				renewed += renewAnswering(t, cache.Cache, model)
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

// compareOutcomes does one step with the model and with the cache, and reports whether the cache answered from memory.
// It then denies what the model denies, with waits that are at most the rounding longer. Two things may differ: a hold can
// end or return unannounced, which slicesWait bounds; and the edit of a policy adapts its states, which changes waits.
func compareOutcomes(t *testing.T, step storetest.Step, model *storetest.Subject, cache *noting, history []storetest.Step) bool {
	t.Helper()
	g := NewWithT(t)
	want, err := step.Do(t.Context(), model)
	g.Expect(err).NotTo(HaveOccurred())
	cache.answer = nil
	got, err := step.Do(t.Context(), cache)
	g.Expect(err).NotTo(HaveOccurred())
	recent := func() string { return storetest.LastSteps(history) }
	if cache.answer == nil {
		g.Expect(got).To(Equal(want), recent)
		return false
	}
	// The model has spent the holds that have ended. The store does so at its next call.
	got, err = step.Do(t.Context(), cache.store)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(want), recent)
	exact := want.(*store.Reply) //nolint:forcetypeassert // as from the cache
	isDenied, mayHaveSlices, wait := false, false, time.Duration(0)
	for i := range exact.Entries {
		e, remembered := &exact.Entries[i], &cache.denial.reply.Entries[i]
		isDenied = isDenied || e.Verdict != store.Admitted
		policy, waitInCache := cache.denial.call.Entries[i].Policy, waitOfEntry(&cache.answer.Entries[i])
		wait = max(wait, waitInCache)
		if remembered.Held == 0 && !cache.edited[policy.ID()].After(cache.denial.checked) {
			g.Expect(waitInCache).To(BeNumerically("<=", waitOfEntry(e)+rounding), recent)
		}
		mayHaveSlices = mayHaveSlices || remembered.Held > 0 && policy.TakesSlices()
	}
	g.Expect(wait).To(BeNumerically(">", 0), recent)
	g.Expect(isDenied || mayHaveSlices && cache.now().Sub(cache.denial.checked) < slicesWait).To(BeTrue(), recent)
	return true
}

// noting is a cache that keeps a copy of its last answer from memory and the denial that gave it.
type noting struct {
	*Cache
	answer *store.Reply
	denial *denial
	// inForce is the policy of each ID, and edited when it last replaced another one.
	inForce map[string]*store.Policy
	edited  map[string]time.Time
}

func (n *noting) Evaluate(ctx context.Context, call *store.Call) (*store.Reply, error) {
	for i := range call.Entries {
		if p := call.Entries[i].Policy; n.inForce[p.ID()] != p {
			n.inForce[p.ID()], n.edited[p.ID()] = p, n.now()
		}
	}
	reply, err := n.Cache.Evaluate(ctx, call)
	if err == nil && reply.FromCache {
		n.answer, n.denial = reply.Clone(), n.recall(call, n.now())
	}
	return reply, err
}
