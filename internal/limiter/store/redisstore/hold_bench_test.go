// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/testenv"
)

// BenchmarkHolds measures the CPU time of Redis with 16 calls in one script call: checks of policies
// with and without reservations, and a reserve with its commit, also of a key that has other open holds.
func BenchmarkHolds(b *testing.B) {
	server := testenv.StartRedis(b)
	client := newClient(b, server.Addr)
	h := holdBench{store: newStore(client), client: client}
	for _, algorithm := range []store.Algorithm{store.FixedWindow, store.SlidingLog, store.SlidingWindow, store.TokenBucket, store.GCRA} {
		plain, reserving := h.policies(algorithm)
		run := func(name string, keys int, policy *store.Policy, steps ...store.Action) {
			b.Run(fmt.Sprintf("%s/%s", algorithm, name), func(b *testing.B) { h.run(b, policy, keys, steps) })
		}
		run("check", 10_000, plain, store.Check)
		run("check, policy with reservations", 10_000, reserving, store.Check)
		run("reserve and commit", 10_000, reserving, store.Reserve, store.Commit)
		for _, open := range []int{1, 10_000} {
			h.clear(b)
			h.hold(b, reserving, open)
			run(fmt.Sprintf("check, open=%d", open), 1, reserving, store.Check)
			run(fmt.Sprintf("reserve and commit, open=%d", open), 1, reserving, store.Reserve, store.Commit)
		}
		h.clear(b)
	}
}

type holdBench struct {
	store  *Store
	client *redis.Client
	next   int
}

func (h *holdBench) policies(a store.Algorithm) (plain, reserving *store.Policy) {
	limit := store.Limit{
		Name: "l", Algorithm: a, Quota: 2_000_000_000, Threshold: 2_000_000_000, Window: time.Second, Bucket: 10 * time.Millisecond,
	}
	plain = store.NewVariants(store.Settings{ID: "bench/plain"}, []store.Limit{limit})[0]
	return plain, store.NewVariants(store.Settings{ID: "bench/reserving", MaxOpen: 20_000}, []store.Limit{limit})[0]
}

func (h *holdBench) clear(b *testing.B) {
	b.Helper()
	if err := h.client.FlushAll(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
}

// hold takes the number of holds of the first key.
func (h *holdBench) hold(b *testing.B, policy *store.Policy, holds int) {
	b.Helper()
	for i := 0; i < holds; i += 16 {
		h.send(b, policy, store.Reserve, min(16, holds-i), 1)
		h.next += 16
	}
}

// send sends calls of the action in one script call.
func (h *holdBench) send(b *testing.B, policy *store.Policy, action store.Action, calls, keys int) {
	b.Helper()
	batch := make([]*pending, calls)
	for i := range batch {
		key, id := store.Key(fmt.Sprintf("user-%d", (h.next+i)%keys)), fmt.Sprintf("%032x", h.next+i)
		entry := store.Entry{Policy: policy, Key: key, Cost: 1, Action: action, ID: id, TTL: 10 * time.Minute}
		batch[i] = pendingOf(b, &store.Call{Entries: []store.Entry{entry}})
	}
	for _, o := range h.store.send(b.Context(), batch) {
		if o.err != nil {
			b.Fatal(o.err)
		}
	}
}

// run repeats the steps, each for 16 calls, and reports the CPU time of Redis for one of them.
func (h *holdBench) run(b *testing.B, policy *store.Policy, keys int, steps []store.Action) {
	b.Helper()
	before := redisCPU(b, h.client)
	rounds := 0
	for b.Loop() {
		first := h.next
		for _, step := range steps {
			h.next = first
			h.send(b, policy, step, 16, keys)
		}
		h.next = first + 16
		rounds++
	}
	spent := redisCPU(b, h.client) - before
	b.ReportMetric(float64(spent.Nanoseconds())/1e3/float64(rounds*16), "redis-us")
}
