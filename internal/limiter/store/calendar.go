// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "time"

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
	return now + max(l.Window.Milliseconds(), 2)
}
