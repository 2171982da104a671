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

// Buckets may deny too early, by less than one bucket, and never admit too much. A denied
// check exceeds the most of an interval that is one bucket longer than the window; an
// admitted check never exceeds the most of the window.
func bucketsDenyTooEarlyByLessThanOne(t *testing.T, subject *Subject) {
	t.Helper()
	const most, window = 12, time.Second
	for _, bucket := range []time.Duration{window / 60, window / 7, window / 2} {
		t.Run(bucket.String(), func(t *testing.T) {
			g := NewWithT(t)
			subject.Clear(t)
			r := rand.New(rand.NewPCG(9, uint64(bucket)))
			policy := store.NewPolicy("test/buckets", false, false, []store.Limit{{
				Name: "l", Algorithm: store.SlidingWindow, Quota: most, Threshold: most,
				Window: window, Bucket: bucket.Truncate(time.Microsecond),
			}})
			type hit struct{ at, cost int64 }
			var admitted []hit
			within := func(now int64, length time.Duration) (units int64) {
				for _, h := range admitted {
					if h.at > now-length.Microseconds() {
						units += h.cost
					}
				}
				return units
			}
			denials, tooEarly := 0, 0
			for range 600 {
				subject.Clock.Set(subject.Clock.Now().Add(time.Duration(r.Int64N(80_000)) * time.Microsecond))
				now, cost := subject.Clock.Now().UnixMicro(), 1+r.Int64N(3)
				call := &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: cost}}}
				if subject.MustEvaluate(t, call).Entries[0].Verdict == store.Admitted {
					admitted = append(admitted, hit{at: now, cost: cost})
					g.Expect(within(now, window)).To(BeNumerically("<=", most))
					continue
				}
				denials++
				g.Expect(within(now, window+bucket) + cost).To(BeNumerically(">", most))
				if within(now, window)+cost <= most {
					tooEarly++
				}
			}
			g.Expect(denials).To(BeNumerically(">", 100))
			if bucket == window/2 {
				g.Expect(tooEarly).To(BeNumerically(">", 0), "coarse buckets deny some checks too early")
			}
		})
	}
}

// A bucket that an edit makes smaller is empty then, not in debt.
func smallerBucketsBeginEmpty(t *testing.T, subject *Subject) {
	t.Helper()
	spend := func(algorithm store.Algorithm, most, cost int64) store.LimitReply {
		policy := store.NewPolicy("test/edited", false, false, []store.Limit{{
			Name: "l", Algorithm: algorithm, Quota: most, Threshold: 10, Window: time.Second,
		}})
		return subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: cost}}}).Entries[0].Limits[0]
	}
	t.Run("TokenBucket", func(t *testing.T) {
		g := NewWithT(t)
		subject.Clear(t)
		g.Expect(spend(store.TokenBucket, 12, 12).Used).To(BeEquivalentTo(12))
		subject.SetTime(t, subject.Clock.Now().Add(500*time.Millisecond))
		reply := spend(store.TokenBucket, 10, 1)
		g.Expect(reply.Admits).To(BeTrue())
		g.Expect(reply.Used).To(BeEquivalentTo(10 - 5 + 1))
		g.Expect(reply.ResetAfter).To(Equal(600 * time.Millisecond))
	})
	t.Run("GCRA", func(t *testing.T) { // from the first check after the edit
		g := NewWithT(t)
		subject.Clear(t)
		g.Expect(spend(store.GCRA, 100, 100).Used).To(BeEquivalentTo(100))
		reply := spend(store.GCRA, 10, 1)
		g.Expect(reply.Admits).To(BeFalse())
		g.Expect(reply.Used).To(BeEquivalentTo(10))
		g.Expect(reply.RetryAfter).To(Equal(100 * time.Millisecond))
	})
}
