// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

const (
	longest = 720 * time.Hour
	largest = 1<<31 - 1
	// largestCost is the largest cost, and the largest threshold of FixedWindow.
	largestCost = 1_000_000_000_000
)

// longestOf returns the longest window of the algorithm.
func longestOf(a store.Algorithm) time.Duration {
	if a == store.FixedWindow {
		return 366 * 24 * time.Hour
	}
	return longest
}

// largestOf returns the largest threshold of the algorithm.
func largestOf(a store.Algorithm) int64 {
	if a == store.FixedWindow {
		return largestCost
	}
	return largest
}

// edgeLimit returns a limit of the algorithm with the largest numbers that it may have.
func edgeLimit(a store.Algorithm, threshold int64, window time.Duration) store.Limit {
	l := store.Limit{Name: "l", Algorithm: a, Quota: threshold, Threshold: threshold, Window: window, Block: min(window, longest)}
	switch a {
	case store.FixedWindow, store.TokenBucket, store.GCRA, store.Concurrency:
	case store.SlidingLog:
		l.Quota = min(threshold, 100_000)
		l.Threshold = l.Quota
	case store.SlidingWindow, store.Suppressed:
		l.Bucket, l.HardQuota = (window / 60).Truncate(time.Microsecond), threshold*10
	}
	return l
}

// TestEdgeValues compares the store with the model for the smallest and the largest thresholds, windows and
// costs, around the end of windows and with a clock that stands still, advances and is set back. All
// state expires.
func TestEdgeValues(t *testing.T, subject *Subject) {
	t.Helper()
	model := NewModel()
	for _, a := range Spending() {
		for _, threshold := range []int64{1, 2, largestOf(a)} {
			for _, window := range []time.Duration{time.Millisecond, 2 * time.Millisecond, longestOf(a)} {
				t.Run(fmt.Sprintf("%s %d in %v", a, threshold, window), func(t *testing.T) {
					l := edgeLimit(a, threshold, window)
					for _, attempts := range []bool{false, a.CanCountAttempts()} {
						policy := store.NewPolicy("test/edge", attempts, false, []store.Limit{l})
						compareAtEdges(t, policy, model, subject)
						subject.SetTime(t, subject.Clock.Now().Add(longest+window+time.Hour))
						NewWithT(t).Expect(subject.Size(t)).To(BeZero())
					}
				})
			}
		}
	}
}

// compareAtEdges compares the replies of a store and the model for every edge of cost at every
// edge of time.
func compareAtEdges(t *testing.T, policy *store.Policy, model, other *Subject) {
	t.Helper()
	g := NewWithT(t)
	model.Clear(t)
	other.Clear(t)
	now, l := other.Clock.Now(), &policy.Limits()[0]
	for _, step := range []time.Duration{
		0, 1, l.Window - time.Microsecond, l.Window, l.Window + time.Millisecond, 0, -time.Millisecond, time.Millisecond,
		-time.Hour, 0, time.Hour, l.Window / 2, l.Window,
	} {
		if step < 0 && other.IsMonotonic {
			continue
		}
		now = now.Add(step)
		for _, cost := range []int64{0, 1, l.Quota, 1, largest, largestCost} {
			model.SetTime(t, now)
			other.SetTime(t, now)
			call := &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: cost, Peek: cost == 0 || cost > l.Quota}}}
			want, got := model.MustEvaluate(t, call), other.MustEvaluate(t, call)
			if inexact(l) && other.IsRounded {
				expectApproximately(g, got.Entries[0].Limits[0], want.Entries[0].Limits[0])
				continue
			}
			g.Expect(got).To(Equal(want), "after %v: %s", step, Describe(call))
		}
	}
}

// inexact reports whether the deficit of the limit leaves the integers of a double.
func inexact(l *store.Limit) bool {
	return float64(l.Quota)*float64(l.Window.Microseconds()) > 1<<53 && l.Algorithm.Refills()
}

// expectApproximately expects the same reply, except for the rounding of a double.
func expectApproximately(g *WithT, got, want store.LimitReply) {
	g.Expect(got.RetryAfter).To(BeNumerically("~", want.RetryAfter, time.Millisecond))
	g.Expect(got.ResetAfter).To(BeNumerically("~", want.ResetAfter, time.Millisecond))
	g.Expect(got.Used).To(BeNumerically("~", want.Used, 1))
}

// A server clock that is set back by hours neither opens a window again nor blocks a key:
// the check is admitted after RetryAfter.
func survivesClockStepsBack(t *testing.T, subject *Subject) {
	t.Helper()
	for _, a := range Spending() {
		t.Run(string(a), func(t *testing.T) {
			g := NewWithT(t)
			subject.Clear(t)
			l := edgeLimit(a, 5, time.Minute)
			l.Block, l.HardQuota = 0, 5
			check := func(cost int64) (store.Verdict, time.Duration) {
				call := &store.Call{Draw: 1<<32 - 1, Entries: []store.Entry{{Policy: store.NewPolicy("test/back", false, false, []store.Limit{l}), Key: "a", Cost: cost}}}
				reply := subject.MustEvaluate(t, call).Entries[0]
				return reply.Verdict, reply.Limits[0].RetryAfter
			}
			verdict, _ := check(5)
			g.Expect(verdict).To(Equal(store.Admitted))
			start := subject.Clock.Now()
			subject.Clock.Set(start.Add(-3 * time.Hour))
			verdict, wait := check(1)
			g.Expect(verdict).To(Equal(store.Denied))
			g.Expect(wait).To(And(BeNumerically(">", 0), BeNumerically("<=", 3*time.Hour+time.Minute+time.Millisecond)))
			subject.Clock.Set(subject.Clock.Now().Add(wait.Truncate(time.Millisecond) + time.Millisecond))
			verdict, _ = check(1)
			g.Expect(verdict).To(Equal(store.Admitted))
		})
	}
}

// A counter stops growing before it leaves the integers of a double, and its window still ends.
func fixedWindowSaturates(t *testing.T, subject *Subject) {
	t.Helper()
	g := NewWithT(t)
	limit := store.Limit{Name: "l", Algorithm: store.FixedWindow, Quota: 1 << 62, Threshold: 1 << 62, Window: time.Second}
	policy := store.NewPolicy("test/full", false, false, []store.Limit{limit})
	spend := func(cost, used int64) {
		t.Helper()
		reply := subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: cost}}})
		g.Expect(reply.Entries[0].Limits[0].Used).To(Equal(used))
	}
	spend(1<<52-2, 1<<52-2)
	spend(1, 1<<52-1)
	spend(largestCost, 1<<52)
	spend(1, 1<<52)
	subject.SetTime(t, subject.Clock.Now().Add(time.Second+time.Millisecond))
	spend(1, 1)
	subject.SetTime(t, subject.Clock.Now().Add(time.Second+time.Millisecond))
	spend(1<<53, 1<<52)
}
