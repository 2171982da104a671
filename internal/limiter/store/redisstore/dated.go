// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// boundaries returns when the previous, this and the next two periods begin. The script selects
// among them by the clock of Redis, which may differ from the clock of the caller by a period.
func boundaries(c store.Calendar, now int64) [4]int64 {
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

// argumentsAt returns the arguments after the flags and the TTL, for the time that now returns.
func (p *prepared) argumentsAt(now func() time.Time) []any {
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
func (p *prepared) datedArgumentsAt(now int64) *datedArguments {
	d := &datedArguments{from: math.MinInt64, until: math.MaxInt64}
	d.args = p.arguments(func(l *store.Limit) []any {
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
func (p *prepared) hasCalendar() bool {
	return slices.ContainsFunc(p.Limits(), func(l store.Limit) bool { return l.Calendar != nil })
}
