// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

const (
	longest = 720 * time.Hour
	largest = 1<<31 - 1
	// largestCost is the largest cost, and the largest threshold of FixedWindow.
	largestCost = 1_000_000_000_000
)

// largestOf returns the largest threshold of the algorithm.
func largestOf(a quota.Algorithm) int64 {
	if a == quota.FixedWindow {
		return largestCost
	}
	return largest
}

// edgeLimit returns a limit of the algorithm with the largest numbers that it may have.
func edgeLimit(a quota.Algorithm, threshold int64, window time.Duration) quota.Limit {
	l := quota.Limit{Name: "l", Algorithm: a, Quota: threshold, Threshold: threshold, Window: window, Block: window}
	switch a {
	case quota.FixedWindow, quota.TokenBucket, quota.GCRA, quota.Concurrency:
	case quota.SlidingLog:
		l.Quota = min(threshold, 100_000)
		l.Threshold = l.Quota
	case quota.SlidingWindow, quota.Suppressed:
		l.Bucket, l.HardQuota = (window / 60).Truncate(time.Microsecond), threshold*10
	}
	return l
}

// The smallest and the largest thresholds, windows and costs, around the end of windows
// and with a clock that stands still, advances and is set back: the model and Redis agree,
// and all state expires.
func TestEdgeValues(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			model := newModelBackend()
			redis, client := newServerBackend(t, on)
			for _, a := range algorithms {
				for _, threshold := range []int64{1, 2, largestOf(a)} {
					for _, window := range []time.Duration{time.Millisecond, 2 * time.Millisecond, longest} {
						t.Run(fmt.Sprintf("%s %d in %v", a, threshold, window), func(t *testing.T) {
							l := edgeLimit(a, threshold, window)
							for _, attempts := range []bool{false, a.CanCountAttempts()} {
								policy := quota.NewPolicy("test/edge", attempts, false, []quota.Limit{l})
								compareAtEdges(t, policy, model, redis)
								redis.clock.Set(redis.clock.Now().Add(longest + window + time.Hour))
								NewWithT(t).Expect(client.Keys(t.Context(), "*").Val()).To(BeEmpty())
							}
						})
					}
				}
			}
		})
	}
}

// The store in memory gives the same replies as the model, without rounding, at every edge but
// those of a clock that is set back.
func TestEdgeValuesInMemory(t *testing.T) {
	model, memory := newModelBackend(), newMemoryBackend()
	for _, a := range algorithms {
		for _, threshold := range []int64{1, 2, largestOf(a)} {
			for _, window := range []time.Duration{time.Millisecond, 2 * time.Millisecond, longest} {
				t.Run(fmt.Sprintf("%s %d in %v", a, threshold, window), func(t *testing.T) {
					for _, attempts := range []bool{false, a.CanCountAttempts()} {
						policy := quota.NewPolicy("test/edge", attempts, false, []quota.Limit{edgeLimit(a, threshold, window)})
						compareAtEdges(t, policy, model, memory)
					}
				})
			}
		}
	}
}

// compareAtEdges compares the replies of both backends for every edge of cost at every
// edge of time.
func compareAtEdges(t *testing.T, policy *quota.Policy, model, other *backend) {
	t.Helper()
	g := NewWithT(t)
	model.clear(t)
	other.clear(t)
	now, l := other.clock.Now(), &policy.Limits()[0]
	for _, step := range []time.Duration{
		0, 1, l.Window - time.Microsecond, l.Window, l.Window + time.Millisecond, 0, -time.Millisecond, time.Millisecond,
		-time.Hour, 0, time.Hour, l.Window / 2, l.Window,
	} {
		if step < 0 && other.isMonotonic {
			continue
		}
		now = now.Add(step)
		for _, cost := range []int64{0, 1, l.Quota, 1, largest, largestCost} {
			model.setTime(t, now)
			other.setTime(t, now)
			call := &quota.Call{Entries: []quota.Entry{{Policy: policy, Key: "a", Cost: cost, Peek: cost == 0 || cost > l.Quota}}}
			want, got := model.evaluate(t, call), other.evaluate(t, call)
			if inexact(l) && !other.isMonotonic {
				expectApproximately(g, got.Entries[0].Limits[0], want.Entries[0].Limits[0])
				continue
			}
			g.Expect(got).To(Equal(want), "after %v: %s", step, describe(call))
		}
	}
}

// inexact reports whether the deficit of the limit leaves the integers of a double.
func inexact(l *quota.Limit) bool {
	return float64(l.Quota)*float64(l.Window.Microseconds()) > 1<<53 && l.Algorithm.Refills()
}

// expectApproximately expects the same reply, except for the rounding of a double.
func expectApproximately(g *WithT, got, want quota.LimitReply) {
	g.Expect(got.RetryAfter).To(BeNumerically("~", want.RetryAfter, time.Millisecond))
	g.Expect(got.ResetAfter).To(BeNumerically("~", want.ResetAfter, time.Millisecond))
	g.Expect(got.Used).To(BeNumerically("~", want.Used, 1))
}

// A server clock that is set back by hours neither opens a window again nor blocks a key:
// the check is admitted after RetryAfter.
func TestClockStepsBack(t *testing.T) {
	for _, b := range newBackends(t) {
		if b.isMonotonic {
			continue
		}
		for _, a := range algorithms {
			t.Run(fmt.Sprint(b.name, " ", a), func(t *testing.T) {
				g := NewWithT(t)
				b.clear(t)
				l := edgeLimit(a, 5, time.Minute)
				l.Block, l.HardQuota = 0, 5
				check := func(cost int64) (quota.Verdict, time.Duration) {
					call := &quota.Call{Draw: 1<<32 - 1, Entries: []quota.Entry{{Policy: quota.NewPolicy("test/back", false, false, []quota.Limit{l}), Key: "a", Cost: cost}}}
					reply := b.evaluate(t, call).Entries[0]
					return reply.Verdict, reply.Limits[0].RetryAfter
				}
				verdict, _ := check(5)
				g.Expect(verdict).To(Equal(quota.Admitted))
				start := b.clock.Now()
				b.clock.Set(start.Add(-3 * time.Hour))
				verdict, wait := check(1)
				g.Expect(verdict).To(Equal(quota.Denied))
				g.Expect(wait).To(And(BeNumerically(">", 0), BeNumerically("<=", 3*time.Hour+time.Minute+time.Millisecond)))
				b.clock.Set(b.clock.Now().Add(wait.Truncate(time.Millisecond) + time.Millisecond))
				verdict, _ = check(1)
				g.Expect(verdict).To(Equal(quota.Admitted))
			})
		}
	}
}

// A key whose TTL an operator removed gets one again, so that it expires.
func TestRemovedTTLIsSetAgain(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			b, client := newServerBackend(t, on)
			for _, a := range algorithms {
				t.Run(string(a), func(t *testing.T) {
					g := NewWithT(t)
					b.clear(t)
					l := edgeLimit(a, 2, time.Minute)
					l.Block, l.HardQuota = 0, 2
					policy := quota.NewPolicy("test/kept", false, false, []quota.Limit{l})
					key := testPrefix + layoutVersion + "{a}:" + preparedOf(policy).keys[1]
					call := &quota.Call{Draw: 1<<32 - 1, Entries: []quota.Entry{{Policy: policy, Key: "a", Cost: 2}}}
					g.Expect(b.evaluate(t, call).Entries[0].Verdict).To(Equal(quota.Admitted))
					g.Expect(client.Persist(t.Context(), key).Val()).To(BeTrue())
					g.Expect(b.evaluate(t, call).Entries[0].Verdict).To(Equal(quota.Denied))
					b.clock.Set(b.clock.Now().Add(2 * time.Minute))
					g.Expect(b.evaluate(t, call).Entries[0].Verdict).To(Equal(quota.Admitted))
					g.Expect(client.PTTL(t.Context(), key).Val()).To(BeNumerically(">", 0))
				})
			}
		})
	}
}

// Totals near the largest integer of a double are rebased, and no hit in the window is
// lost.
func TestTotalsAreRebased(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			b, client := newServerBackend(t, on)
			for _, l := range []quota.Limit{
				{Name: "l", Algorithm: quota.SlidingLog, Quota: 9, Threshold: 9, Window: time.Minute},
				{Name: "l", Algorithm: quota.SlidingWindow, Quota: 9, Threshold: 9, Window: time.Minute, Bucket: time.Second},
			} {
				t.Run(string(l.Algorithm), func(t *testing.T) {
					g := NewWithT(t)
					b.clear(t)
					policy := quota.NewPolicy("test/large", false, false, []quota.Limit{l})
					key := testPrefix + layoutVersion + "{a}:" + preparedOf(policy).keys[1]
					const total = 1<<52 - 1
					micros := b.clock.Now().UnixMicro()
					g.Expect(client.RPush(t.Context(), key, total-5, micros-30_000_000, total-3, micros-10_000_000, total).Err()).To(Succeed())
					call := &quota.Call{Entries: []quota.Entry{{Policy: policy, Key: "a", Cost: 2}}}
					g.Expect(b.evaluate(t, call).Entries[0].Limits[0].Used).To(Equal(int64(7)))
					g.Expect(client.LRange(t.Context(), key, 0, -1).Val()).To(Equal([]string{
						"0", strconv.FormatInt(micros-30_000_000, 10), "2",
						strconv.FormatInt(micros-10_000_000, 10), "5", strconv.FormatInt(micros, 10), "7",
					}))
					g.Expect(b.evaluate(t, call).Entries[0].Limits[0].Used).To(Equal(int64(9)))
				})
			}
		})
	}
}

// A counter stops growing before it leaves the integers of a double, and its window still ends.
func TestFixedWindowSaturates(t *testing.T) {
	for _, b := range newBackends(t) {
		t.Run(b.name, func(t *testing.T) {
			g := NewWithT(t)
			limit := quota.Limit{Name: "l", Algorithm: quota.FixedWindow, Quota: 1 << 62, Threshold: 1 << 62, Window: time.Second}
			policy := quota.NewPolicy("test/full", false, false, []quota.Limit{limit})
			spend := func(cost, used int64) {
				t.Helper()
				reply := b.evaluate(t, &quota.Call{Entries: []quota.Entry{{Policy: policy, Key: "a", Cost: cost}}})
				g.Expect(reply.Entries[0].Limits[0].Used).To(Equal(used))
			}
			spend(1<<52-2, 1<<52-2)
			spend(1, 1<<52-1)
			spend(largestCost, 1<<52)
			spend(1, 1<<52)
			b.setTime(t, b.clock.Now().Add(time.Second+time.Millisecond))
			spend(1, 1)
			b.setTime(t, b.clock.Now().Add(time.Second+time.Millisecond))
			spend(1<<53, 1<<52)
		})
	}
}
