// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/quota"
	"github.com/weir-dev/weir/internal/testenv"
)

// alternating is a calendar whose periods take turns to have these lengths, in milliseconds.
type alternating [2]int64

func (a alternating) ID() string { return fmt.Sprintf("%d.%d", a[0], a[1]) }

func (a alternating) Longest() time.Duration {
	return time.Duration(max(a[0], a[1])) * time.Millisecond
}

func (a alternating) Start(at int64) int64 {
	cycle := at - at%(a[0]+a[1])
	if at < cycle+a[0] {
		return cycle
	}
	return cycle + a[0]
}

func (a alternating) Next(at int64) int64 {
	start := a.Start(at)
	if start%(a[0]+a[1]) == 0 {
		return start + a[0]
	}
	return start + a[1]
}

// calendarOf returns the compiled calendar of a policy, with the offsets around the time.
func calendarOf(period, zone string, at time.Time) (quota.Calendar, error) {
	policy := testenv.MakePolicy("shop/x").Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "").Obj()
	policy.Spec.Limits[0].Calendar = &v1alpha1.Calendar{Period: v1alpha1.CalendarPeriod(period), TimeZone: zone}
	compiled, problems := compile.Compile(policy, compile.Everything(), at)
	if len(problems) > 0 {
		return nil, problems.ToAggregate()
	}
	return compiled.Limits[0].Calendar, nil
}

// The period of a new window is selected by the clock of Redis, which may differ from that of the
// replica. A difference of less than a period does not matter. Beyond what the replica knows, a
// window still ends.
func TestPeriodsAreThoseOfRedis(t *testing.T) {
	calendar := alternating{60_000, 120_000}
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			redis, client := newServerBackend(t, on)
			store := redis.decider.(*Store)
			start := time.UnixMilli(calendar.Start(redis.clock.Now().UnixMilli() + 1_000_000_000))
			redis.clock.Set(start.Add(30 * time.Second)) // within the shorter period or the longer one
			now := redis.clock.Now().UnixMilli()
			for ahead, want := range map[time.Duration]int64{
				0:                 calendar.Next(now) - now,
				-time.Minute:      calendar.Next(now) - now,
				time.Minute:       calendar.Next(now) - now,
				-10 * time.Minute: 0, // only that the window ends
				10 * time.Minute:  0,
			} {
				t.Run(ahead.String(), func(t *testing.T) {
					g := NewWithT(t)
					redis.clear(t)
					store.now = func() time.Time { return redis.clock.Now().Add(ahead) }
					policy := quota.NewPolicy("test/x", false, false, []quota.Limit{
						{Name: "l", Algorithm: quota.FixedWindow, Quota: 5, Threshold: 5, Calendar: calendar},
					})
					reply := redis.evaluate(t, &quota.Call{Entries: []quota.Entry{{Policy: policy, Key: "a", Cost: 1}}})
					got := reply.Entries[0].Limits[0].ResetAfter.Milliseconds()
					if want != 0 {
						g.Expect(got).To(Equal(want))
					} else {
						g.Expect(got).To(And(BeNumerically(">", 0), BeNumerically("<=", (12*time.Minute).Milliseconds())))
					}
					g.Expect(client.PTTL(t.Context(), client.Keys(t.Context(), "*").Val()[0]).Val()).To(BeNumerically(">", 0))
				})
			}
		})
	}
}

// A counter exists until the last millisecond of its period, and no longer, unless it is created in
// that millisecond.
func TestPeriodsEndExactly(t *testing.T) {
	calendar := alternating{60_000, 120_000}
	for _, b := range newBackends(t) {
		t.Run(b.name, func(t *testing.T) {
			g := NewWithT(t)
			policy := quota.NewPolicy("test/x", false, false, []quota.Limit{
				{Name: "l", Algorithm: quota.FixedWindow, Quota: 1, Threshold: 1, Calendar: calendar},
			})
			spend := func(at int64) (quota.Verdict, time.Duration) {
				t.Helper()
				b.setTime(t, time.UnixMilli(at))
				reply := b.evaluate(t, &quota.Call{Entries: []quota.Entry{{Policy: policy, Key: "a", Cost: 1}}})
				return reply.Entries[0].Verdict, reply.Entries[0].Limits[0].RetryAfter
			}
			for _, early := range []int64{60_000, 2, 1} { // milliseconds before the end of a period
				period := calendar.Next(calendar.Next(b.clock.Now().UnixMilli()))
				begin := period - early
				end := max(period, begin+2)
				verdict, _ := spend(begin)
				g.Expect(verdict).To(Equal(quota.Admitted))
				for _, at := range []int64{begin, end - 1} {
					verdict, wait := spend(at)
					g.Expect(verdict).To(Equal(quota.Denied))
					g.Expect(wait.Milliseconds()).To(Equal(end - at))
				}
				verdict, _ = spend(end)
				g.Expect(verdict).To(Equal(quota.Admitted))
				b.clear(t)
			}
		})
	}
}
