// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
)

// A key whose TTL an operator removed gets one again, so that it expires.
func TestRemovedTTLIsSetAgain(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			b, client := newSubject(t, on)
			for _, a := range algorithms {
				t.Run(string(a), func(t *testing.T) {
					g := NewWithT(t)
					b.Clear(t)
					l := storetest.SlowLimit(a, 2)
					l.Window = time.Minute
					if l.Bucket > 0 {
						l.Bucket = time.Second
					}
					policy := store.NewPolicy("test/kept", false, false, []store.Limit{l})
					key := testPrefix + layoutVersion + "{a}:" + preparedOf(policy).keys[1]
					call := &store.Call{Draw: 1<<32 - 1, Entries: []store.Entry{{Policy: policy, Key: "a", Cost: 2}}}
					g.Expect(b.MustEvaluate(t, call).Entries[0].Verdict).To(Equal(store.Admitted))
					g.Expect(client.Persist(t.Context(), key).Val()).To(BeTrue())
					g.Expect(b.MustEvaluate(t, call).Entries[0].Verdict).To(Equal(store.Denied))
					b.Clock.Set(b.Clock.Now().Add(2 * time.Minute))
					g.Expect(b.MustEvaluate(t, call).Entries[0].Verdict).To(Equal(store.Admitted))
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
			b, client := newSubject(t, on)
			for _, l := range []store.Limit{
				{Name: "l", Algorithm: store.SlidingLog, Quota: 9, Threshold: 9, Window: time.Minute},
				{Name: "l", Algorithm: store.SlidingWindow, Quota: 9, Threshold: 9, Window: time.Minute, Bucket: time.Second},
			} {
				t.Run(string(l.Algorithm), func(t *testing.T) {
					g := NewWithT(t)
					b.Clear(t)
					policy := store.NewPolicy("test/large", false, false, []store.Limit{l})
					key := testPrefix + layoutVersion + "{a}:" + preparedOf(policy).keys[1]
					const total = 1<<52 - 1
					micros := b.Clock.Now().UnixMicro()
					g.Expect(client.RPush(t.Context(), key, total-5, micros-30_000_000, total-3, micros-10_000_000, total).Err()).To(Succeed())
					call := &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: 2}}}
					g.Expect(b.MustEvaluate(t, call).Entries[0].Limits[0].Used).To(Equal(int64(7)))
					g.Expect(client.LRange(t.Context(), key, 0, -1).Val()).To(Equal([]string{
						"0", strconv.FormatInt(micros-30_000_000, 10), "2",
						strconv.FormatInt(micros-10_000_000, 10), "5", strconv.FormatInt(micros, 10), "7",
					}))
					g.Expect(b.MustEvaluate(t, call).Entries[0].Limits[0].Used).To(Equal(int64(9)))
				})
			}
		})
	}
}
