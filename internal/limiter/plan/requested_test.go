// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestRequestedKeepsTheShareOfABucket(t *testing.T) {
	for _, parts := range []int64{2, 3, 60, 1000} {
		for _, from := range []time.Duration{2 * time.Millisecond, time.Second, 7 * 24 * time.Hour, plan.MaxWindow} {
			for _, to := range []time.Duration{time.Second, 24 * time.Hour} {
				l := plan.Limit{
					Name: "l", Algorithm: plan.SlidingWindow, Threshold: 1,
					WindowMillis: from.Milliseconds(), BucketMicros: from.Microseconds() / parts,
				}
				NewWithT(t).Expect(l.Requested(1, to).Bucket()).
					To(BeNumerically("~", to/time.Duration(parts), to/1000), "%v/%d -> %v", from, parts, to)
			}
		}
	}
}

func TestRequestedKeepsACalendarOfItsLength(t *testing.T) {
	g := NewWithT(t)
	daily := plan.Limit{
		Name: "l", Algorithm: plan.FixedWindow, Threshold: 1, Calendar: &plan.Calendar{Period: plan.PeriodDay, TimeZone: "UTC"},
	}
	same := daily.Requested(7, 24*time.Hour)
	g.Expect(same.Calendar).To(Equal(daily.Calendar))
	g.Expect([]int64{same.Threshold, same.WindowMillis}).To(Equal([]int64{7, 0}))
	other := daily.Requested(7, time.Minute)
	g.Expect(other.Calendar).To(BeNil())
	g.Expect([]int64{other.Threshold, other.WindowMillis}).To(Equal([]int64{7, 60_000}))
}
