// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// Calendar divides time into periods, in place of windows. Times are milliseconds since 1970.
type Calendar interface {
	// ID is part of the identity of the state.
	ID() string
	// Start returns when the period that contains the time began.
	Start(at int64) int64
	// Next returns when the period after the one that contains the time begins.
	Next(at int64) int64
	// Longest returns a time that no period exceeds.
	Longest() time.Duration
}

// LongestWindow returns the length of the window or, with a Calendar, a time that no period exceeds.
func (l *Limit) LongestWindow() time.Duration {
	if l.Calendar != nil {
		return l.Calendar.Longest()
	}
	return l.Window
}

// WindowEnd returns the first millisecond after a window that begins at the given millisecond. A key
// cannot expire in the millisecond in which it is written.
func (l *Limit) WindowEnd(now int64) int64 {
	if l.Calendar != nil {
		return max(l.Calendar.Next(now), now+2)
	}
	return now + exactTTL(l.Window) + 1
}

// boundaries returns when the previous, this and the next two periods begin. The script selects
// among them by the clock of Redis, which may differ from that of the caller by a period.
func boundaries(c Calendar, now int64) [4]int64 {
	start := c.Start(now)
	next := c.Next(now)
	return [4]int64{c.Start(start - 1), start, next, c.Next(next)}
}

// datedArguments are arguments of a policy with calendars, while from <= now < until.
type datedArguments struct {
	from, until int64
	args        []any
}

// datedCache holds the last datedArguments of a policy.
type datedCache = atomic.Pointer[datedArguments]

// argumentsAt returns the arguments after cost and flags.
func (p *Policy) argumentsAt(now func() time.Time) []any {
	if p.dated == nil {
		return p.args
	}
	at := now().UnixMilli()
	if last := p.dated.Load(); last != nil && last.from <= at && at < last.until {
		return last.args
	}
	next := p.datedArgumentsAt(at)
	p.dated.Store(next)
	return next.args
}

// datedArgumentsAt returns the arguments with the boundaries of the calendars at the time.
func (p *Policy) datedArgumentsAt(now int64) *datedArguments {
	d := &datedArguments{from: math.MinInt64, until: math.MaxInt64}
	d.args = p.arguments(func(l *Limit) []any {
		b := boundaries(l.Calendar, now)
		d.from, d.until = max(d.from, b[1]), min(d.until, b[2])
		args := make([]any, 0, len(b))
		for _, boundary := range b {
			args = append(args, strconv.FormatInt(boundary, 10))
		}
		return args
	})
	return d
}

// hasCalendar reports whether a limit of the policy has a calendar.
func (p *Policy) hasCalendar() bool {
	return slices.ContainsFunc(p.limits, func(l Limit) bool { return l.Calendar != nil })
}
