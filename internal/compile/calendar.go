// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones must not depend on the files of the machine

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Plans hold the offsets of time zones from knownBefore the month in which they are compiled, so
// that they include the start of the previous period, to knownAfter its start.
const (
	knownMonthsBefore = 3
	knownYearsAfter   = 2
)

// weekdays are the days of the week, from the first of ISO 8601 on.
var weekdays = []v1alpha1.Weekday{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}

// monthOf returns the start of the month of the time.
func monthOf(now time.Time) time.Time {
	now = now.UTC()
	return time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// NextRenewal returns when the policy must be compiled again although it has not changed: at the
// start of the next month, if a calendar needs the offsets of a time zone; zero is never.
func NextRenewal(policy *v1alpha1.RateLimitPolicy, now time.Time) time.Time {
	for i := range policy.Spec.Limits {
		if c := policy.Spec.Limits[i].Calendar; c != nil && zoneOf(c) != plan.UTC {
			return monthOf(now).AddDate(0, 1, 0)
		}
	}
	return time.Time{}
}

// zoneOf returns the name of the time zone, also if it is the default.
func zoneOf(c *v1alpha1.Calendar) string { return cmp.Or(c.TimeZone, plan.UTC) }

func (c *compiler) calendar(at *field.Path, calendar *v1alpha1.Calendar) *plan.Calendar {
	if calendar == nil {
		return nil
	}
	compiled := &plan.Calendar{
		Period: plan.Period(calendar.Period), TimeZone: zoneOf(calendar), StartDay: startDayOf(calendar),
	}
	zone, err := time.LoadLocation(compiled.TimeZone)
	if err != nil || strings.EqualFold(compiled.TimeZone, "Local") {
		c.add(field.Invalid(at.Child("timeZone"), compiled.TimeZone, "must be a name of the tz database, such as Europe/Berlin"))
		return nil
	}
	from := c.month.AddDate(0, -knownMonthsBefore, 0)
	compiled.OffsetSeconds, compiled.Shifts = plan.ZoneOffsets(zone, from, c.month.AddDate(knownYearsAfter, 0, 0))
	return compiled
}

// startDayOf returns the number of the day on which a week or month starts; 0 for other periods.
func startDayOf(calendar *v1alpha1.Calendar) int {
	switch calendar.Period {
	case v1alpha1.CalendarPeriodWeek:
		return max(slices.Index(weekdays, calendar.StartWeekday), 0) + 1
	case v1alpha1.CalendarPeriodMonth:
		return int(ptr.Deref(calendar.StartDay, 1))
	default:
		return 0
	}
}
