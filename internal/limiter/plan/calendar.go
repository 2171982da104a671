// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Period is a unit of a Calendar.
type Period string

// The periods of a Calendar.
const (
	PeriodHour  Period = "Hour"
	PeriodDay   Period = "Day"
	PeriodWeek  Period = "Week"
	PeriodMonth Period = "Month"
)

// Bounds of a Calendar.
const (
	// MaxTimeZone is the length of the longest name of a time zone, in characters.
	MaxTimeZone = 36
	// MaxStartDay is the latest day of the month on which a Month may start, so that every month
	// has it.
	MaxStartDay = 28
	// maxShifts is the largest number of shifts of one Calendar.
	maxShifts = 64
	// maxOffset is further from UTC than any time zone, in seconds.
	maxOffset = 26 * hourSeconds

	daysOfWeek  = 7
	hourSeconds = int64(time.Hour / time.Second)
	daySeconds  = 24 * hourSeconds
)

// Calendar divides time into the hours, days, weeks or months of a time zone. It holds the
// offsets of the zone, so that no process needs data on time zones to decide by it. After the
// last shift it continues with the last offset.
//
//   - A day, week or month begins when the local date first reaches its first day. In a zone that
//     skips midnight that is the instant of the shift.
//   - An hour begins whenever the local clock shows a full hour, by the offset before or after a shift.
type Calendar struct {
	Period Period `json:"period"`
	// TimeZone is the name in the tz database.
	TimeZone string `json:"timeZone"`
	// StartDay is the day of the week, 1 (Monday) to 7, on which a Week starts, or the day of the
	// month, 1 to MaxStartDay, on which a Month starts. 0 with other periods.
	StartDay int `json:"startDay,omitempty"`
	// OffsetSeconds is how far the local time is ahead of UTC before the first shift.
	OffsetSeconds int64 `json:"offsetSeconds,omitempty"`
	// Shifts are the changes of the offset, in order of time.
	Shifts []Shift `json:"shifts,omitempty"`
}

// Shift changes the offset of a time zone.
type Shift struct {
	// At is the time in seconds since 1970.
	At int64 `json:"at"`
	// OffsetSeconds is how far the local time is ahead of UTC from then on.
	OffsetSeconds int64 `json:"offsetSeconds"`
}

// ZoneOffsets returns the offset of the zone at from, in seconds, and its changes after from and before until.
func ZoneOffsets(zone *time.Location, from, until time.Time) (first int64, shifts []Shift) {
	_, offset := from.In(zone).Zone()
	last := offset
	for at := from; ; {
		_, at = at.In(zone).ZoneBounds()
		if at.IsZero() || !at.Before(until) {
			return int64(offset), shifts
		}
		// Most zones also change their abbreviation; some change nothing else.
		if _, next := at.Zone(); next != last {
			shifts = append(shifts, Shift{At: at.Unix(), OffsetSeconds: int64(next)})
			last = next
		}
	}
}

// ID returns the period, its start and the zone. Calendars with the same ID count in the same
// state, whatever their shifts.
func (c *Calendar) ID() string {
	id := string(c.Period)
	if c.StartDay > 0 {
		id += "." + strconv.Itoa(c.StartDay)
	}
	return id + "." + c.TimeZone
}

// String describes the calendar, such as "Week from Sunday Europe/Berlin" or "Day". It omits the
// first day of a month, Monday and UTC.
func (c *Calendar) String() string {
	text := string(c.Period)
	if c.StartDay > 1 {
		day := strconv.Itoa(c.StartDay)
		if c.Period == PeriodWeek {
			day = time.Weekday(c.StartDay % daysOfWeek).String()
		}
		text += " from " + day
	}
	if c.TimeZone != UTC {
		text += " " + c.TimeZone
	}
	return text
}

// UTC is the name of the default time zone.
const UTC = "UTC"

// Nominal returns the usual length of a period, 30 days for a month.
func (c *Calendar) Nominal() time.Duration {
	switch c.Period {
	case PeriodHour:
		return time.Hour
	case PeriodDay:
		return 24 * time.Hour
	case PeriodWeek:
		return daysOfWeek * 24 * time.Hour
	default:
		return 30 * 24 * time.Hour
	}
}

// Longest returns a time that no period exceeds. A zone that changes the side of the date line
// has a day twice.
func (c *Calendar) Longest() time.Duration {
	if c.Period == PeriodHour {
		return 2 * time.Hour
	}
	return c.Nominal() + 2*24*time.Hour
}

// Start returns when the period that contains the time began. Both are milliseconds since 1970.
func (c *Calendar) Start(at int64) int64 {
	seconds := floorDiv(at, 1000)
	if c.Period == PeriodHour {
		return c.hourStart(seconds) * 1000
	}
	return c.reach(c.dateStart(seconds)) * 1000
}

// Next returns when the period after the one that contains the time begins. Both are milliseconds
// since 1970.
func (c *Calendar) Next(at int64) int64 {
	seconds := floorDiv(at, 1000)
	if c.Period == PeriodHour {
		return c.hourEnd(seconds) * 1000
	}
	start := c.dateStart(seconds)
	for {
		start = c.following(start)
		if next := c.reach(start); next > seconds { // else the zone skips the period
			return next * 1000
		}
	}
}

// The functions below count times in seconds since 1970, and local times in seconds since 1970 by
// the local clock.

// shiftsUntil returns the number of shifts until the time.
func (c *Calendar) shiftsUntil(at int64) int {
	n, _ := slices.BinarySearchFunc(c.Shifts, at+1, func(s Shift, at int64) int { return cmp.Compare(s.At, at) })
	return n
}

// offset returns the offset after that number of shifts.
func (c *Calendar) offset(shifts int) int64 {
	if shifts == 0 {
		return c.OffsetSeconds
	}
	return c.Shifts[shifts-1].OffsetSeconds
}

// reach returns when the local clock first shows the local time or a later one.
func (c *Calendar) reach(local int64) int64 {
	for i, shift := range c.Shifts {
		if at := local - c.offset(i); at < shift.At {
			return c.notBefore(i, at)
		}
	}
	return c.notBefore(len(c.Shifts), local-c.offset(len(c.Shifts)))
}

// notBefore returns the time, but at least the time of the last shift.
func (c *Calendar) notBefore(shifts int, at int64) int64 {
	if shifts == 0 {
		return at
	}
	return max(at, c.Shifts[shifts-1].At)
}

// dateStart returns the local time at which the latest period that has begun begins. The local
// date may be an earlier one: a clock that is set back over midnight does not end the day again.
func (c *Calendar) dateStart(at int64) int64 {
	start := c.floor(at + c.offset(c.shiftsUntil(at)))
	for {
		next := c.following(start)
		if c.reach(next) > at {
			return start
		}
		start = next
	}
}

// floor returns the local time at which the period of the local time begins.
func (c *Calendar) floor(local int64) int64 {
	days := floorDiv(local, daySeconds)
	switch c.Period { //nolint:exhaustive // of the others the day is enough
	case PeriodWeek:
		const firstMonday = 4 // the days from 1970-01-01, a Thursday, to the first Monday
		days -= modulo(days-firstMonday-int64(c.StartDay-1), daysOfWeek)
	case PeriodMonth:
		date := time.Unix(local, 0).UTC()
		month := date.Month()
		if date.Day() < c.StartDay {
			month--
		}
		return time.Date(date.Year(), month, c.StartDay, 0, 0, 0, 0, time.UTC).Unix()
	}
	return days * daySeconds
}

// following returns the local time at which the period ends that begins at the local time.
func (c *Calendar) following(start int64) int64 {
	switch c.Period {
	case PeriodWeek:
		return start + daysOfWeek*daySeconds
	case PeriodMonth:
		return time.Unix(start, 0).UTC().AddDate(0, 1, 0).Unix()
	default:
		return start + daySeconds
	}
}

// hourStart returns when the hour began.
func (c *Calendar) hourStart(at int64) int64 {
	shifts := c.shiftsUntil(at)
	start := at - modulo(at+c.offset(shifts), hourSeconds)
	if shifts > 0 && start < c.Shifts[shifts-1].At {
		shift := c.Shifts[shifts-1].At
		return shift - modulo(shift+c.offset(shifts-1), hourSeconds)
	}
	return start
}

// hourEnd returns when the hour ends.
func (c *Calendar) hourEnd(at int64) int64 {
	shifts := c.shiftsUntil(at)
	end := at - modulo(at+c.offset(shifts), hourSeconds) + hourSeconds
	if shifts < len(c.Shifts) && end > c.Shifts[shifts].At {
		shift := c.Shifts[shifts].At
		return shift + modulo(-(shift+c.offset(shifts+1)), hourSeconds)
	}
	return end
}

func floorDiv(a, b int64) int64 { return (a - modulo(a, b)) / b }

// modulo returns a mod b, 0..b-1.
func modulo(a, b int64) int64 { return (a%b + b) % b }

func (l Limit) validateCalendar(fail func(string, ...any), at string) {
	c := l.Calendar
	if l.Algorithm != FixedWindow || l.WindowMillis != 0 {
		fail("%s needs algorithm FixedWindow and no window", at)
	}
	requireOneOf(fail, at+".period", c.Period, PeriodHour, PeriodDay, PeriodWeek, PeriodMonth)
	if !isTimeZone(c.TimeZone) {
		fail("%s.timeZone %q is not the name of a time zone", at, c.TimeZone)
	}
	smallest, largest := c.startDays()
	requireWithin(fail, at+".startDay", c.StartDay, smallest, largest)
	c.validateOffsets(fail, at)
}

// startDays returns the bounds of StartDay.
func (c *Calendar) startDays() (smallest, largest int) {
	switch c.Period {
	case PeriodWeek:
		return 1, daysOfWeek
	case PeriodMonth:
		return 1, MaxStartDay
	default:
		return 0, 0
	}
}

func (c *Calendar) validateOffsets(fail func(string, ...any), at string) {
	isOffset := func(seconds int64) bool { return -maxOffset < seconds && seconds < maxOffset }
	valid := isOffset(c.OffsetSeconds) && len(c.Shifts) <= maxShifts
	for i, shift := range c.Shifts {
		valid = valid && isOffset(shift.OffsetSeconds) && (i == 0 || c.Shifts[i-1].At < shift.At)
	}
	if !valid {
		fail("%s has invalid offsets: %d, then %v", at, c.OffsetSeconds, c.Shifts)
	}
}

// isTimeZone reports whether the name may be one of the tz database. It is part of a Redis key.
func isTimeZone(name string) bool {
	return name != "" && len(name) <= MaxTimeZone && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_+-/", r)
	})
}
