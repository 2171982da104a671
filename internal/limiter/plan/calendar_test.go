// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testplan"
)

// internal/compile tests the periods, with the offsets of real time zones.

func TestValidateCalendars(t *testing.T) {
	shift := func(at, offset int64) plan.Shift { return plan.Shift{At: at, OffsetSeconds: offset} }
	for name, tc := range map[string]struct {
		edit func(*plan.Limit, *plan.Calendar)
		want string // empty if the plan is valid
	}{
		"a week":                {func(_ *plan.Limit, c *plan.Calendar) { c.Period, c.StartDay = plan.PeriodWeek, 7 }, ""},
		"a month":               {func(_ *plan.Limit, c *plan.Calendar) { c.Period, c.StartDay = plan.PeriodMonth, 28 }, ""},
		"shifts":                {func(_ *plan.Limit, c *plan.Calendar) { c.Shifts = []plan.Shift{shift(1, 3600), shift(2, -93_599)} }, ""},
		"the longest zone":      {func(_ *plan.Limit, c *plan.Calendar) { c.TimeZone = strings.Repeat("Z", plan.MaxTimeZone) }, ""},
		"another algorithm":     {func(l *plan.Limit, _ *plan.Calendar) { l.Algorithm = plan.SlidingLog }, "limits[0].calendar needs algorithm FixedWindow"},
		"a window, too":         {func(l *plan.Limit, _ *plan.Calendar) { l.WindowMillis = 1 }, "limits[0].calendar needs algorithm FixedWindow and no window"},
		"an unknown period":     {func(_ *plan.Limit, c *plan.Calendar) { c.Period = "Year" }, "limits[0].calendar.period"},
		"no zone":               {func(_ *plan.Limit, c *plan.Calendar) { c.TimeZone = "" }, "limits[0].calendar.timeZone"},
		"a zone with a colon":   {func(_ *plan.Limit, c *plan.Calendar) { c.TimeZone = "a:b" }, "limits[0].calendar.timeZone"},
		"a long zone":           {func(_ *plan.Limit, c *plan.Calendar) { c.TimeZone = strings.Repeat("Z", plan.MaxTimeZone+1) }, "limits[0].calendar.timeZone"},
		"a start of a day":      {func(_ *plan.Limit, c *plan.Calendar) { c.StartDay = 1 }, "limits[0].calendar.startDay 1"},
		"no start of a week":    {func(_ *plan.Limit, c *plan.Calendar) { c.Period = plan.PeriodWeek }, "limits[0].calendar.startDay 0"},
		"the eighth day":        {func(_ *plan.Limit, c *plan.Calendar) { c.Period, c.StartDay = plan.PeriodWeek, 8 }, "limits[0].calendar.startDay 8"},
		"a day of long months":  {func(_ *plan.Limit, c *plan.Calendar) { c.Period, c.StartDay = plan.PeriodMonth, 29 }, "limits[0].calendar.startDay 29"},
		"a large offset":        {func(_ *plan.Limit, c *plan.Calendar) { c.OffsetSeconds = 93_600 }, "limits[0].calendar has invalid offsets"},
		"a large shift":         {func(_ *plan.Limit, c *plan.Calendar) { c.Shifts = []plan.Shift{shift(1, -93_600)} }, "limits[0].calendar has invalid offsets"},
		"two shifts at a time":  {func(_ *plan.Limit, c *plan.Calendar) { c.Shifts = []plan.Shift{shift(1, 0), shift(1, 1)} }, "limits[0].calendar has invalid offsets"},
		"shifts without bounds": {func(_ *plan.Limit, c *plan.Calendar) { c.Shifts = manyShifts(65) }, "limits[0].calendar has invalid offsets"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := testplan.Valid()
			p.Limits[0] = plan.Limit{
				Name: "l", Algorithm: plan.FixedWindow, Threshold: 1, Calendar: &plan.Calendar{Period: plan.PeriodDay, TimeZone: "UTC"},
			}
			tc.edit(&p.Limits[0], p.Limits[0].Calendar)
			if tc.want != "" {
				g.Expect(p.Validate()).To(MatchError(ContainSubstring(tc.want)))
				return
			}
			data, err := plan.Encode(p)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(plan.Decode(data)).To(Equal(p))
		})
	}
}

func manyShifts(n int) (shifts []plan.Shift) {
	for i := range n {
		shifts = append(shifts, plan.Shift{At: int64(i)})
	}
	return shifts
}

func TestOverridesKeepTheCalendar(t *testing.T) {
	p := testplan.Valid()
	p.Limits[0] = plan.Limit{
		Name: "l", Algorithm: plan.FixedWindow, Threshold: 1, Calendar: &plan.Calendar{Period: plan.PeriodDay, TimeZone: "UTC"},
	}
	p.Overrides = []plan.Override{{Name: "o", When: "true", Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "l", Threshold: 2}}}}
	g := NewWithT(t)
	g.Expect(p.Validate()).To(Succeed())
	g.Expect(p.LimitsOf(&p.Overrides[0])[0].Calendar).To(Equal(p.Limits[0].Calendar))
	p.Overrides[0].Limits[0].WindowMillis = 1000
	g.Expect(p.Validate()).To(MatchError(ContainSubstring("overrides[0].limits[0].calendar needs algorithm FixedWindow and no window")))
}

func TestLengthsOfPeriods(t *testing.T) {
	for period, want := range map[plan.Period][2]time.Duration{
		plan.PeriodHour:  {time.Hour, 2 * time.Hour},
		plan.PeriodDay:   {24 * time.Hour, 72 * time.Hour},
		plan.PeriodWeek:  {168 * time.Hour, 216 * time.Hour},
		plan.PeriodMonth: {720 * time.Hour, 768 * time.Hour},
	} {
		l := plan.Limit{Calendar: &plan.Calendar{Period: period}}
		NewWithT(t).Expect([2]time.Duration{l.NominalWindow(), l.LongestWindow()}).To(Equal(want), string(period))
	}
}
