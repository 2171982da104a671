// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// Hit is a cost that was spent at a time, in microseconds since 1970.
type Hit struct{ At, Cost int64 }

// ExpectEveryInterval expects at most the given number of units in any interval of that length.
func ExpectEveryInterval(g *WithT, hits []Hit, most int64, length time.Duration) {
	var units int64
	oldest := 0
	for _, h := range hits {
		for units += h.Cost; hits[oldest].At <= h.At-length.Microseconds(); oldest++ {
			units -= hits[oldest].Cost
		}
		g.Expect(units).To(BeNumerically("<=", most))
	}
}

// UnitsOfWindows returns the units of each fixed window. A window starts with the first hit after the window
// before.
func UnitsOfWindows(hits []Hit, window time.Duration) (units []int64) {
	var end int64
	for _, h := range hits {
		if h.At >= end {
			end = (h.At/1000 + window.Milliseconds()) * 1000
			units = append(units, 0)
		}
		units[len(units)-1] += h.Cost
	}
	return units
}

// ExpectRefill expects that no interval holds more units than capacity plus its refill: a bucket that is
// drained by the hits and refilled in between is never overdrawn.
func ExpectRefill(g *WithT, hits []Hit, capacity, rate int64, window time.Duration) {
	var missing int64
	for i, h := range hits {
		if i > 0 {
			missing = max(0, missing-(h.At-hits[i-1].At)*rate)
		}
		missing += h.Cost * window.Microseconds()
		g.Expect(missing).To(BeNumerically("<=", capacity*window.Microseconds()))
	}
}

// neverOverCases are limits, each with its promise about the hits that it admits.
var neverOverCases = []struct {
	limit   store.Limit
	promise func(*WithT, []Hit)
}{
	{
		store.Limit{Algorithm: store.FixedWindow, Quota: 20, Threshold: 20, Window: time.Second},
		func(g *WithT, hits []Hit) {
			g.Expect(UnitsOfWindows(hits, time.Second)).To(HaveEach(BeNumerically("<=", 20)))
		},
	},
	{
		store.Limit{Algorithm: store.SlidingLog, Quota: 20, Threshold: 20, Window: time.Second},
		func(g *WithT, hits []Hit) { ExpectEveryInterval(g, hits, 20, time.Second) },
	},
	{
		store.Limit{Algorithm: store.SlidingWindow, Quota: 20, Threshold: 20, Window: time.Second, Bucket: time.Second / 60},
		func(g *WithT, hits []Hit) { ExpectEveryInterval(g, hits, 20, time.Second) },
	},
	{
		store.Limit{Algorithm: store.TokenBucket, Quota: 7, Threshold: 20, Window: time.Second},
		func(g *WithT, hits []Hit) { ExpectRefill(g, hits, 7, 20, time.Second) },
	},
	{
		store.Limit{Algorithm: store.GCRA, Quota: 3, Threshold: 20, Window: time.Second},
		func(g *WithT, hits []Hit) { ExpectRefill(g, hits, 3, 20, time.Second) },
	},
	{
		store.Limit{Algorithm: store.Suppressed, Quota: 20, Threshold: 20, HardQuota: 30, Window: time.Second, Bucket: time.Second / 60},
		func(g *WithT, hits []Hit) { ExpectEveryInterval(g, hits, 30, time.Second) },
	},
}

// Random checks of one key never spend more than the limit admits. Peeks, and checks that something else
// denies, spend nothing.
func neverOver(t *testing.T, subject *Subject) {
	t.Helper()
	for _, tc := range neverOverCases {
		t.Run(string(tc.limit.Algorithm), func(t *testing.T) {
			g := NewWithT(t)
			subject.Clear(t)
			r := rand.New(rand.NewPCG(4, 11))
			tc.limit.Name = "l"
			policy := store.NewPolicy("test/never-over", false, false, []store.Limit{tc.limit})
			var hits []Hit
			var units int64
			for range 1500 {
				subject.Clock.Set(subject.Clock.Now().Add(time.Duration(r.Int64N(20_000)) * time.Microsecond))
				entry := store.Entry{Policy: policy, Key: "a", Cost: 1 + r.Int64N(3), Peek: r.IntN(8) == 0}
				call := &store.Call{Draw: r.Uint32(), Denied: r.IntN(8) == 0, Entries: []store.Entry{entry}}
				reply := subject.MustEvaluate(t, call)
				if reply.Entries[0].Verdict == store.Admitted && !call.Denied && !entry.Peek {
					hits = append(hits, Hit{At: subject.Clock.Now().UnixMicro(), Cost: entry.Cost})
					units += entry.Cost
				}
			}
			g.Expect(units).To(BeNumerically(">", 8*tc.limit.Threshold), "many windows were filled")
			tc.promise(g, hits)
		})
	}
}
