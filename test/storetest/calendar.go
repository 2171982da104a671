// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // as in package compile

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// Alternating is a calendar whose periods take turns to have these lengths, in milliseconds.
type Alternating [2]int64

// ID returns the lengths.
func (a Alternating) ID() string { return fmt.Sprintf("%d.%d", a[0], a[1]) }

// Longest returns the larger length.
func (a Alternating) Longest() time.Duration {
	return time.Duration(max(a[0], a[1])) * time.Millisecond
}

// Start returns when the period that contains the time began.
func (a Alternating) Start(at int64) int64 {
	cycle := at - at%(a[0]+a[1])
	if at < cycle+a[0] {
		return cycle
	}
	return cycle + a[0]
}

// Next returns when the next period begins.
func (a Alternating) Next(at int64) int64 {
	start := a.Start(at)
	if start%(a[0]+a[1]) == 0 {
		return start + a[0]
	}
	return start + a[1]
}

// calendarOf returns a calendar with the default start day, and the offsets of the zone around the time.
func calendarOf(period, zone string, at time.Time) (store.Calendar, error) {
	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, err
	}
	calendar := &plan.Calendar{Period: plan.Period(period), TimeZone: zone}
	if calendar.Period == plan.PeriodWeek || calendar.Period == plan.PeriodMonth {
		calendar.StartDay = 1
	}
	calendar.OffsetSeconds, calendar.Shifts = plan.ZoneOffsets(location, at.AddDate(0, -3, 0), at.AddDate(2, 0, 0))
	return calendar, nil
}

// A counter exists until the last millisecond of its period, and no longer, unless it is created in
// that millisecond.
func periodsEndExactly(t *testing.T, subject *Subject) {
	t.Helper()
	calendar := Alternating{60_000, 120_000}
	g := NewWithT(t)
	policy := store.NewPolicy("test/x", false, false, []store.Limit{
		{Name: "l", Algorithm: store.FixedWindow, Quota: 1, Threshold: 1, Calendar: calendar},
	})
	spend := func(at int64) (store.Verdict, time.Duration) {
		t.Helper()
		subject.SetTime(t, time.UnixMilli(at))
		reply := subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: 1}}})
		return reply.Entries[0].Verdict, reply.Entries[0].Limits[0].RetryAfter
	}
	for _, early := range []int64{60_000, 2, 1} { // milliseconds before the end of a period
		period := calendar.Next(calendar.Next(subject.Clock.Now().UnixMilli()))
		begin := period - early
		end := max(period, begin+2)
		verdict, _ := spend(begin)
		g.Expect(verdict).To(Equal(store.Admitted))
		for _, at := range []int64{begin, end - 1} {
			verdict, wait := spend(at)
			g.Expect(verdict).To(Equal(store.Denied))
			g.Expect(wait.Milliseconds()).To(Equal(end - at))
		}
		verdict, _ = spend(end)
		g.Expect(verdict).To(Equal(store.Admitted))
		subject.Clear(t)
	}
}
