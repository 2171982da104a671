// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
)

// openSliced opens the store of one replica in the server, with slices.
func openSliced(tb testing.TB, server *testenv.Redis) store.Store {
	tb.Helper()
	c := New(Options{Store: openRedis(tb, server)})
	start(tb, c)
	return c
}

// load sends checks of the keys to each store, from 64 callers for each, until the time is over. It returns the number of
// checks, and of those from slices.
func load(b *testing.B, stores []store.Store, p *store.Policy, keys int, length time.Duration) (checks, fromSlices float64) {
	b.Helper()
	names := make([]store.Key, keys)
	for i := range names {
		names[i] = store.Key(fmt.Sprintf("key-%d", i))
	}
	var all, sliced atomic.Int64
	var callers sync.WaitGroup
	end := time.Now().Add(length)
	for i := range 64 * len(stores) {
		callers.Go(func() {
			for now := time.Now(); now.Before(end); now = time.Now() {
				reply, err := stores[i%len(stores)].Evaluate(b.Context(), storetest.SpendOne(p, names[rand.IntN(keys)]))
				if err != nil {
					b.Error(err)
					return
				}
				all.Add(1)
				if reply.FromSlice {
					sliced.Add(1)
				}
			}
		})
	}
	callers.Wait()
	return float64(all.Load()), float64(sliced.Load())
}

// BenchmarkHotKeys compares the CPU time of Redis for a check of 2,500 keys that are hot on each of four replicas, with slices
// and without.
func BenchmarkHotKeys(b *testing.B) {
	server := testenv.StartRedis(b)
	for _, withSlices := range []bool{false, true} {
		b.Run(fmt.Sprint("slices=", withSlices), func(b *testing.B) {
			policy := newPolicy(fmt.Sprint("hot", withSlices), 10*time.Second, storetest.SlowLimit(store.FixedWindow, 2_000_000_000))
			open := openRedis
			if withSlices {
				open = openSliced
			}
			stores := make([]store.Store, 4)
			for i := range stores {
				stores[i] = open(b, server)
			}
			load(b, stores, policy, 2500, 30*time.Second) // until the keys are hot
			for b.Loop() {
				before := testenv.CPUTime(b, server.Pid())
				checks, fromSlices := load(b, stores, policy, 2500, 10*time.Second)
				b.ReportMetric(checks/10, "checks/s")
				b.ReportMetric(fromSlices/checks, "from-slices")
				b.ReportMetric(float64((testenv.CPUTime(b, server.Pid())-before).Nanoseconds())/checks, "redis-ns/check")
			}
		})
	}
}

// BenchmarkDeniedBesideSlices compares checks of a key that is denied since another replica has a slice of it with checks of
// one whose quota is spent.
func BenchmarkDeniedBesideSlices(b *testing.B) {
	server := testenv.StartRedis(b)
	for _, held := range []bool{false, true} {
		b.Run(fmt.Sprint("slice=", held), func(b *testing.B) {
			g := NewWithT(b)
			policy := newPolicy(fmt.Sprint("denied", held), 10*time.Second, storetest.SlowLimit(store.FixedWindow, 100))
			other, backend := openRedis(b, server), openSliced(b, server)
			if held {
				reply, err := other.Evaluate(b.Context(), callOf(store.Entry{
					Policy: policy, Key: "key-0", Action: store.TakeSlice, ID: "a", Cost: 50, TTL: time.Hour,
				}))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(reply.Entries[0].Hold).To(Equal(store.HoldTaken))
			}
			load(b, []store.Store{backend}, policy, 1, 100*time.Millisecond)
			reply, err := backend.Evaluate(b.Context(), storetest.SpendOne(policy, "key-0"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(reply.Entries[0].Verdict).To(Equal(store.Denied))
			for b.Loop() {
				checks, _ := load(b, []store.Store{backend}, policy, 1, 5*time.Second)
				b.ReportMetric(checks/5, "checks/s")
			}
		})
	}
}
