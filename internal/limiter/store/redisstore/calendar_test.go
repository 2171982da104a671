// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
)

// The period of a new window is selected by the clock of Redis, which may differ from the clock of
// the replica. A difference of less than a period does not matter. Beyond what the replica knows, a
// window still ends.
func TestPeriodsAreThoseOfRedis(t *testing.T) {
	calendar := storetest.Alternating{60_000, 120_000}
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			redis, client := newSubject(t, on)
			backend := redis.Store.(*Store)
			start := time.UnixMilli(calendar.Start(redis.Clock.Now().UnixMilli() + 1_000_000_000))
			redis.Clock.Set(start.Add(30 * time.Second)) // within the shorter period or the longer one
			now := redis.Clock.Now().UnixMilli()
			for ahead, want := range map[time.Duration]int64{
				0:                 calendar.Next(now) - now,
				-time.Minute:      calendar.Next(now) - now,
				time.Minute:       calendar.Next(now) - now,
				-10 * time.Minute: 0, // only that the window ends
				10 * time.Minute:  0,
			} {
				t.Run(ahead.String(), func(t *testing.T) {
					g := NewWithT(t)
					redis.Clear(t)
					backend.now = func() time.Time { return redis.Clock.Now().Add(ahead) }
					policy := store.NewPolicy("test/x", false, false, []store.Limit{
						{Name: "l", Algorithm: store.FixedWindow, Quota: 5, Threshold: 5, Calendar: calendar},
					})
					reply := redis.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: 1}}})
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
