// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/reference"
)

// FuzzCall compares the reply to a call with any arguments with the reply of the model.
func FuzzCall(f *testing.F, subject *Subject) {
	f.Helper()
	algorithms := Spending()
	for kind := range algorithms {
		f.Add(uint8(kind), int64(1), int64(1), int64(1), int64(1), uint32(0), uint32(0), "alice", false)
		f.Add(uint8(kind), int64(largestCost), int64(largestCost), longest.Milliseconds(), int64(1000), uint32(1000), uint32(1<<31), "}{", true)
		f.Add(uint8(kind), int64(100_000), int64(3), int64(2), int64(2), uint32(1), uint32(7), strings.Repeat("\xff", 300), true)
	}
	f.Fuzz(func(t *testing.T, kind uint8, most, cost, window, more int64, step, draw uint32, key string, attempts bool) {
		a := algorithms[int(kind)%len(algorithms)]
		l := edgeLimit(a, clamp(most, largestOf(a)), time.Duration(clamp(window, longestOf(a).Milliseconds()))*time.Millisecond)
		switch a {
		case store.FixedWindow, store.SlidingLog, store.Concurrency:
		case store.TokenBucket, store.GCRA:
			l.Threshold = clamp(more, largest)
		case store.SlidingWindow, store.Suppressed:
			l.Bucket = max(l.Window/time.Duration(2+clamp(more, 998)), time.Microsecond).Truncate(time.Microsecond)
			l.HardQuota = l.Quota * (1 + clamp(more, 10))
		}
		policy := store.NewPolicy("test/fuzz", attempts && a.CanCountAttempts(), false, []store.Limit{l})
		entry := store.Entry{Policy: policy, Key: store.EncodeKey(key), Cost: clamp(cost, largestCost)}
		entry.Peek = entry.Cost > l.Quota
		model := &reference.Model{}
		subject.Clear(t)
		for range 4 {
			now := subject.Clock.Now().Add(time.Duration(step) * time.Microsecond)
			subject.Clock.Set(now)
			call := &store.Call{Draw: draw, Entries: []store.Entry{entry}}
			got := subject.MustEvaluate(t, call)
			if !inexact(&l) { // TestEdgeValues covers inexact limits
				NewWithT(t).Expect(got).To(Equal(model.Evaluate(call, now)))
			}
		}
	})
}

func clamp(n, most int64) int64 {
	n %= most
	if n < 0 {
		n = -n
	}
	return n + 1
}
