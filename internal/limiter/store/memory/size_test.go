// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/test/storetest"
)

// heap returns the bytes of the live heap.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // also empties the pools
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// keyOf returns a key of 36 characters, the length of a UUID.
func keyOf(i int) store.Key { return store.Key(fmt.Sprintf("%036d", i)) }

// A key takes at most 200 bytes with an algorithm of constant size, however long the key is, and
// memory is reused after keys have expired.
func TestBytesOfAKey(t *testing.T) {
	const keys = 100_000
	for _, a := range []store.Algorithm{store.FixedWindow, store.TokenBucket, store.GCRA} {
		t.Run(string(a), func(t *testing.T) {
			g := NewWithT(t)
			c := newClock()
			before := heap()
			s, p := memory.NewStore(memory.Options{Keys: keys, Now: c.Now}), policyOf("p", storetest.SlowLimit(a, 5))
			for round := range 3 {
				for i := range keys {
					g.Expect(check(t, s, p, keyOf(round*keys+i)).Overflow).To(BeFalse())
				}
				g.Expect((heap() - before) / keys).To(BeNumerically("<=", 200))
				c.Advance(1000 * time.Hour)
			}
			runtime.KeepAlive(s)
		})
	}
}

// A million FixedWindow keys, checked by 64 callers: the acceptance figures of the store.
func BenchmarkMillionKeys(b *testing.B) {
	const keys, callers = 1_000_000, 64
	before := heap()
	s, p := memory.NewStore(memory.Options{Keys: keys}), policyOf("p", storetest.SlowLimit(store.FixedWindow, 1000))
	evaluate := func(call *store.Call, i int) {
		call.Entries = append(call.Entries[:0], store.Entry{Policy: p, Key: keyOf(i), Cost: 1})
		_, _ = s.Evaluate(b.Context(), call)
	}
	call := &store.Call{}
	for i := range keys {
		evaluate(call, i)
	}
	held := heap() - before
	names := make([]store.Key, 1<<16)
	for i := range names {
		names[i] = keyOf(int(binary.LittleEndian.Uint16([]byte{byte(i), byte(i >> 8)})) * 15)
	}
	b.ResetTimer()
	times := make([][]time.Duration, callers)
	var wait sync.WaitGroup
	for c := range callers {
		wait.Go(func() {
			call := &store.Call{}
			for i := range b.N/callers + 1 {
				call.Entries = append(call.Entries[:0], store.Entry{Policy: p, Key: names[(i*7919+c*1021)%len(names)], Cost: 1})
				start := time.Now()
				_, _ = s.Evaluate(b.Context(), call)
				times[c] = append(times[c], time.Since(start))
			}
		})
	}
	wait.Wait()
	b.StopTimer()
	all := slices.Concat(times...)
	slices.Sort(all)
	b.ReportMetric(float64(held)/(1<<20), "MiB")
	b.ReportMetric(float64(all[len(all)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(all[len(all)*99/100].Nanoseconds()), "p99-ns")
	b.ReportMetric(float64(all[len(all)*999/1000].Nanoseconds()), "p99.9-ns")
}

// Beyond a bound no ID of a charge is remembered: then a repeat counts again.
func TestIDsOfChargesAreBounded(t *testing.T) {
	const charges = 10_000
	g := NewWithT(t)
	s, p := memory.NewStore(memory.Options{Keys: 10}), policyOf("p", storetest.SlowLimit(store.FixedWindow, 5))
	remembered := 0
	for range 2 {
		for i := range charges {
			reply, err := s.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{
				{Policy: p, Key: "a", Cost: 1, Action: store.Charge, ID: strconv.Itoa(i)},
			}})
			g.Expect(err).NotTo(HaveOccurred())
			if reply.Entries[0].Hold == store.HoldMissing {
				remembered++
			}
		}
	}
	g.Expect(remembered).To(And(BeNumerically(">", 0), BeNumerically("<", 2000)))
}

// The ID of a charge takes at most 150 bytes while it is remembered, and none after that.
func TestBytesOfACharge(t *testing.T) {
	const charges = 100_000
	g := NewWithT(t)
	c := newClock()
	s, p := memory.NewStore(memory.Options{Keys: 100 * charges, Now: c.Now}), policyOf("p", storetest.SlowLimit(store.FixedWindow, 5))
	charge := func(id int) store.HoldOutcome {
		reply, err := s.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{
			{Policy: p, Key: "a", Cost: 1, Action: store.Charge, ID: fmt.Sprintf("%036d", id)},
		}})
		g.Expect(err).NotTo(HaveOccurred())
		return reply.Entries[0].Hold
	}
	g.Expect(charge(-1)).To(Equal(store.HoldNone))
	before := heap()
	for i := range charges {
		charge(i)
	}
	g.Expect((heap() - before) / charges).To(BeNumerically("<=", 150))
	c.Advance(store.ChargeMemory - time.Second)
	g.Expect(charge(charges - 1)).To(Equal(store.HoldMissing))
	c.Advance(2 * time.Second)
	g.Expect(charge(charges - 1)).To(Equal(store.HoldNone))
	c.Advance(store.ChargeMemory + time.Second)
	for range charges / 16 { // a call forgets some of them
		check(t, s, p, "a")
	}
	g.Expect(heap()-before).To(BeNumerically("<", 100_000), "bytes when all are forgotten")
	runtime.KeepAlive(s)
}
