// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// withCalendar returns a policy with a limit that has the calendar.
func withCalendar(c v1alpha1.Calendar) *v1alpha1.RateLimitPolicy {
	policy := testpolicy.Make("shop/x").Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "").Obj()
	policy.Spec.Limits[0].Calendar = &c
	return policy
}

func compileCalendar(t *testing.T, c v1alpha1.Calendar, at time.Time) *plan.Calendar {
	t.Helper()
	compiled, problems := compile.Compile(withCalendar(c), compile.Everything(), at)
	NewWithT(t).Expect(problems).To(BeEmpty())
	return compiled.Limits[0].Calendar
}

func date(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return at
}

// The periods around a time, in UTC.
func TestPeriods(t *testing.T) {
	t.Parallel()
	day := v1alpha1.CalendarPeriodDay
	for name, tc := range map[string]struct {
		calendar        v1alpha1.Calendar
		at, start, next string
	}{
		"a day": {
			v1alpha1.Calendar{Period: day}, "2026-11-22T12:00:00Z", "2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z",
		},
		"the first instant of a day": {
			v1alpha1.Calendar{Period: day}, "2026-11-22T00:00:00Z", "2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z",
		},
		"a day of 23 hours": {
			v1alpha1.Calendar{Period: day, TimeZone: "Europe/Berlin"}, "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z",
		},
		"a day of 25 hours": {
			v1alpha1.Calendar{Period: day, TimeZone: "Europe/Berlin"}, "2026-10-25T00:30:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z",
		},
		"a day without a midnight": { // 2018-11-04 00:00 was 01:00
			v1alpha1.Calendar{Period: day, TimeZone: "America/Sao_Paulo"}, "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z",
		},
		"the day before midnight comes twice": { // 2018-02-18 00:00 was 2018-02-17 23:00
			v1alpha1.Calendar{Period: day, TimeZone: "America/Sao_Paulo"}, "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z",
		},
		"no midnight in Beirut": { // 2026-03-29 00:00 is 01:00
			v1alpha1.Calendar{Period: day, TimeZone: "Asia/Beirut"}, "2026-03-28T22:00:00Z", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z",
		},
		"a midnight that comes twice": { // 2026-11-01 01:00 is 00:00
			v1alpha1.Calendar{Period: day, TimeZone: "America/Havana"}, "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z",
		},
		"a day that a zone skips": { // Samoa had no 2011-12-30
			v1alpha1.Calendar{Period: day, TimeZone: "Pacific/Apia"}, "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z",
		},
		"half an hour of a shift": { // 2026-04-05 02:00 is 01:30
			v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodHour, TimeZone: "Australia/Lord_Howe"}, "2026-04-04T15:10:00Z", "2026-04-04T15:00:00Z", "2026-04-04T15:30:00Z",
		},
		"an hour that is skipped in half": { // 2026-10-04 02:00 is 02:30
			v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodHour, TimeZone: "Australia/Lord_Howe"}, "2026-10-03T15:30:00Z", "2026-10-03T15:30:00Z", "2026-10-03T16:00:00Z",
		},
		"an hour that comes twice": {
			v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodHour, TimeZone: "Europe/Berlin"}, "2026-10-25T01:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z",
		},
		"an hour of a zone between the hours": {
			v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodHour, TimeZone: "Asia/Kathmandu"}, "2026-01-01T00:20:00Z", "2026-01-01T00:15:00Z", "2026-01-01T01:15:00Z",
		},
		"a week": {
			v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodWeek}, "2026-11-22T12:00:00Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z",
		},
		"a week from Sunday": {
			v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodWeek, StartWeekday: "Sunday"}, "2026-11-22T12:00:00Z", "2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z",
		},
		"a February": {
			v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodMonth}, "2026-02-10T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z",
		},
		"the February of a leap year": {
			v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodMonth}, "2028-02-29T00:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z",
		},
		"a month from the 28th": {
			v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodMonth, StartDay: new(int32(28))}, "2026-01-27T23:59:59Z", "2025-12-28T00:00:00Z", "2026-01-28T00:00:00Z",
		},
		"a month with a shift": {
			v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodMonth, TimeZone: "Europe/Berlin"}, "2026-03-31T21:59:59Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			at := date(t, tc.at)
			c := compileCalendar(t, tc.calendar, at)
			utc := func(millis int64) string { return time.UnixMilli(millis).UTC().Format(time.RFC3339) }
			g.Expect(utc(c.Start(at.UnixMilli()))).To(Equal(tc.start))
			g.Expect(utc(c.Next(at.UnixMilli()))).To(Equal(tc.next))
			g.Expect(utc(c.Next(at.UnixMilli() + 999))).To(Equal(tc.next))
		})
	}
}

// The periods are those that the clock of the zone shows, over two years: minute by minute
// around changes of the clock, elsewhere at each half hour, where the periods of these zones begin.
func TestPeriodsFollowTheClock(t *testing.T) {
	t.Parallel()
	for zone, from := range map[string]string{
		"Europe/Berlin": "2026-11-01T00:00:00Z", "America/Sao_Paulo": "2017-11-01T00:00:00Z", "Asia/Beirut": "2026-11-01T00:00:00Z",
		"Australia/Lord_Howe": "2026-11-01T00:00:00Z", "America/Havana": "2026-11-01T00:00:00Z", "America/St_Johns": "2009-11-01T00:00:00Z",
		"Pacific/Apia": "2010-11-01T00:00:00Z", "Africa/Casablanca": "2026-11-01T00:00:00Z", "UTC": "2026-11-01T00:00:00Z",
	} {
		for _, calendar := range []v1alpha1.Calendar{
			{Period: v1alpha1.CalendarPeriodHour},
			{Period: v1alpha1.CalendarPeriodDay},
			{Period: v1alpha1.CalendarPeriodWeek, StartWeekday: "Sunday"},
			{Period: v1alpha1.CalendarPeriodMonth, StartDay: new(int32(15))},
		} {
			calendar.TimeZone = zone
			t.Run(zone+" "+string(calendar.Period), func(t *testing.T) {
				t.Parallel()
				expectPeriodsOfClock(t, calendar, date(t, from))
			})
		}
	}
}

// nextMinute returns the next minute to look at.
func nextMinute(at time.Time, zone *time.Location) time.Time {
	const day = 24 * time.Hour
	_, before := at.Add(-day).In(zone).Zone()
	_, after := at.Add(day).In(zone).Zone()
	if before != after {
		return at.Add(time.Minute)
	}
	return at.Truncate(30 * time.Minute).Add(30 * time.Minute)
}

func expectPeriodsOfClock(t *testing.T, calendar v1alpha1.Calendar, from time.Time) {
	t.Helper()
	g := NewWithT(t)
	zone, err := time.LoadLocation(calendar.TimeZone)
	g.Expect(err).NotTo(HaveOccurred())
	c := compileCalendar(t, calendar, from)
	start, next := c.Start(from.UnixMilli()), c.Next(from.UnixMilli())
	latest := label(calendar, from.In(zone))
	for at := from.Add(time.Minute); at.Before(from.AddDate(2, 0, 0)); at = nextMinute(at, zone) {
		local := at.In(zone)
		now := label(calendar, local)
		begins := now > latest
		if calendar.Period == v1alpha1.CalendarPeriodHour {
			_, before := at.Add(-time.Minute).In(zone).Zone()
			unshifted := at.In(time.FixedZone("", before))
			begins = local.Minute() == 0 || unshifted.Minute() == 0
		}
		latest = max(latest, now)
		if begins {
			start = at.UnixMilli()
			if start != next {
				t.Fatalf("%v begins a period, want %v", local, time.UnixMilli(next).In(zone))
			}
			next = c.Next(start)
		}
		if at.Minute()%30 == 0 || begins {
			if c.Start(at.UnixMilli()) != start || c.Next(at.UnixMilli()) != next {
				t.Fatalf("the period of %v is from %v to %v", local, time.UnixMilli(c.Start(at.UnixMilli())).In(zone), time.UnixMilli(c.Next(at.UnixMilli())).In(zone))
			}
		}
	}
}

// label returns a number that increases with the period that the local clock shows.
func label(calendar v1alpha1.Calendar, local time.Time) int {
	day := int(time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC).Unix() / 86400)
	switch calendar.Period {
	case v1alpha1.CalendarPeriodHour:
		return day*24 + local.Hour()
	case v1alpha1.CalendarPeriodWeek:
		return (day + 4) / 7 // 1970-01-04 was the first Sunday
	case v1alpha1.CalendarPeriodMonth:
		month := local.Year()*12 + int(local.Month())
		if local.Day() < int(*calendar.StartDay) {
			month--
		}
		return month
	default:
		return day
	}
}

// Plans that are compiled in one month are equal, and hold the offsets of two years. After them the
// last offset holds.
func TestOffsetsOfTwoYears(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	berlin := v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodDay, TimeZone: "Europe/Berlin"}
	c := compileCalendar(t, berlin, date(t, "2026-11-22T12:00:00Z"))
	g.Expect(*c).To(Equal(plan.Calendar{
		Period: plan.PeriodDay, TimeZone: "Europe/Berlin", OffsetSeconds: 7200,
		Shifts: []plan.Shift{
			{At: date(t, "2026-10-25T01:00:00Z").Unix(), OffsetSeconds: 3600},
			{At: date(t, "2027-03-28T01:00:00Z").Unix(), OffsetSeconds: 7200},
			{At: date(t, "2027-10-31T01:00:00Z").Unix(), OffsetSeconds: 3600},
			{At: date(t, "2028-03-26T01:00:00Z").Unix(), OffsetSeconds: 7200},
			{At: date(t, "2028-10-29T01:00:00Z").Unix(), OffsetSeconds: 3600},
		},
	}))
	g.Expect(compileCalendar(t, berlin, date(t, "2026-11-01T00:00:00Z"))).To(Equal(c))
	g.Expect(compileCalendar(t, berlin, date(t, "2026-11-30T23:59:59Z"))).To(Equal(c))
	g.Expect(compileCalendar(t, berlin, date(t, "2027-02-28T00:00:00Z"))).NotTo(Equal(c))
	summer := date(t, "2029-07-01T12:00:00Z").UnixMilli()
	g.Expect(time.UnixMilli(c.Start(summer)).UTC()).To(Equal(date(t, "2029-06-30T23:00:00Z")))

	utc := compileCalendar(t, v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodDay}, date(t, "2026-11-22T12:00:00Z"))
	g.Expect(*utc).To(Equal(plan.Calendar{Period: plan.PeriodDay, TimeZone: "UTC"}))
}

func TestNextRenewal(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now := date(t, "2026-12-31T23:59:59Z")
	berlin := withCalendar(v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodDay, TimeZone: "Europe/Berlin"})
	g.Expect(compile.NextRenewal(berlin, now)).To(Equal(date(t, "2027-01-01T00:00:00Z")))
	g.Expect(compile.NextRenewal(withCalendar(v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodDay}), now)).To(BeZero())
	g.Expect(compile.NextRenewal(testpolicy.Make("shop/x").Limit("l", "GCRA", 1, "1s").Obj(), now)).To(BeZero())
}

func TestUnknownTimeZone(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Europe/Atlantis", "Local", "../../etc/passwd", "europe"} {
		_, problems := compile.Compile(withCalendar(v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodDay, TimeZone: zone}), compile.Everything(), time.Time{})
		NewWithT(t).Expect(problems.ToAggregate()).To(MatchError(ContainSubstring("spec.limits[0].calendar.timeZone: Invalid value: ")), zone)
	}
}

func TestCalendarText(t *testing.T) {
	t.Parallel()
	now := time.Time{}
	for want, c := range map[string]v1alpha1.Calendar{
		"Day":                            {Period: v1alpha1.CalendarPeriodDay, TimeZone: "UTC"},
		"Week":                           {Period: v1alpha1.CalendarPeriodWeek},
		"Week from Sunday Europe/Berlin": {Period: v1alpha1.CalendarPeriodWeek, StartWeekday: "Sunday", TimeZone: "Europe/Berlin"},
		"Week from Tuesday":              {Period: v1alpha1.CalendarPeriodWeek, StartWeekday: "Tuesday"},
		"Month from 15":                  {Period: v1alpha1.CalendarPeriodMonth, StartDay: new(int32(15))},
		"Month Asia/Beirut":              {Period: v1alpha1.CalendarPeriodMonth, StartDay: new(int32(1)), TimeZone: "Asia/Beirut"},
	} {
		NewWithT(t).Expect(compileCalendar(t, c, now).String()).To(Equal(want))
	}
}
