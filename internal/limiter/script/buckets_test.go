// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// Buckets may deny too early, by less than one bucket, and never admit too much. A denied
// check exceeds the quota of an interval that is one bucket longer than the window; an
// admitted check never exceeds the quota of the window.
func TestBucketsDenyTooEarlyByLessThanOne(t *testing.T) {
	const quota, window = 12, time.Second
	for _, b := range newBackends(t) {
		for _, bucket := range []time.Duration{window / 60, window / 7, window / 2} {
			t.Run(fmt.Sprint(b.name, " ", bucket), func(t *testing.T) {
				g := NewWithT(t)
				b.clear(t)
				r := rand.New(rand.NewPCG(9, uint64(bucket)))
				policy := NewPolicy("test/buckets", false, false, []Limit{{
					Name: "l", Algorithm: SlidingWindow, Quota: quota, Threshold: quota,
					Window: window, Bucket: bucket.Truncate(time.Microsecond),
				}})
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
					b.clock.Set(b.clock.Now().Add(time.Duration(r.Int64N(80_000)) * time.Microsecond))
					now, cost := b.clock.Now().UnixMicro(), 1+r.Int64N(3)
					call := &Call{Entries: []Entry{{Policy: policy, Key: "a", Cost: cost}}}
					if b.evaluate(t, call).Entries[0].Verdict == Admitted {
						admitted = append(admitted, hit{at: now, cost: cost})
						g.Expect(within(now, window)).To(BeNumerically("<=", quota))
						continue
					}
					denials++
					g.Expect(within(now, window+bucket) + cost).To(BeNumerically(">", quota))
					if within(now, window)+cost <= quota {
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
}
