// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/quota"
	"github.com/weir-dev/weir/test/testenv"
)

// BenchmarkHolds measures the CPU time of Redis with 16 calls in one script call: checks of policies
// with and without reservations, and a reserve with its commit, also of a key that has other open holds.
func BenchmarkHolds(b *testing.B) {
	server := testenv.StartRedis(b)
	client := newClient(b, server.Addr)
	h := holdBench{store: newStore(client), client: client}
	for _, algorithm := range []quota.Algorithm{quota.FixedWindow, quota.SlidingLog, quota.SlidingWindow, quota.TokenBucket, quota.GCRA} {
		plain, reserving := h.policies(algorithm)
		run := func(name string, keys int, policy *quota.Policy, steps ...quota.Action) {
			b.Run(fmt.Sprintf("%s/%s", algorithm, name), func(b *testing.B) { h.run(b, policy, keys, steps) })
		}
		run("check", 10_000, plain, quota.Check)
		run("check, policy with reservations", 10_000, reserving, quota.Check)
		run("reserve and commit", 10_000, reserving, quota.Reserve, quota.Commit)
		for _, open := range []int{1, 10_000} {
			h.clear(b)
			h.hold(b, reserving, open)
			run(fmt.Sprintf("check, open=%d", open), 1, reserving, quota.Check)
			run(fmt.Sprintf("reserve and commit, open=%d", open), 1, reserving, quota.Reserve, quota.Commit)
		}
		h.clear(b)
	}
}

type holdBench struct {
	store  *Store
	client *redis.Client
	next   int
}

func (h *holdBench) policies(a quota.Algorithm) (plain, reserving *quota.Policy) {
	limit := quota.Limit{
		Name: "l", Algorithm: a, Quota: 2_000_000_000, Threshold: 2_000_000_000, Window: time.Second, Bucket: 10 * time.Millisecond,
	}
	plain = quota.NewVariants(quota.Settings{ID: "bench/plain"}, []quota.Limit{limit})[0]
	return plain, quota.NewVariants(quota.Settings{ID: "bench/reserving", MaxOpen: 20_000}, []quota.Limit{limit})[0]
}

func (h *holdBench) clear(b *testing.B) {
	b.Helper()
	if err := h.client.FlushAll(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
}

// hold takes the number of holds of the first key.
func (h *holdBench) hold(b *testing.B, policy *quota.Policy, holds int) {
	b.Helper()
	for i := 0; i < holds; i += 16 {
		h.send(b, policy, quota.Reserve, min(16, holds-i), 1)
		h.next += 16
	}
}

// send sends calls of the action in one script call.
func (h *holdBench) send(b *testing.B, policy *quota.Policy, action quota.Action, calls, keys int) {
	b.Helper()
	batch := make([]*pending, calls)
	for i := range batch {
		key, id := quota.Key(fmt.Sprintf("user-%d", (h.next+i)%keys)), fmt.Sprintf("%032x", h.next+i)
		entry := quota.Entry{Policy: policy, Key: key, Cost: 1, Action: action, ID: id, TTL: 10 * time.Minute}
		batch[i] = &pending{call: &quota.Call{Entries: []quota.Entry{entry}}}
	}
	for _, o := range h.store.send(b.Context(), batch) {
		if o.err != nil {
			b.Fatal(o.err)
		}
	}
}

// run repeats the steps, each for 16 calls, and reports the CPU time of Redis for one of them.
func (h *holdBench) run(b *testing.B, policy *quota.Policy, keys int, steps []quota.Action) {
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
