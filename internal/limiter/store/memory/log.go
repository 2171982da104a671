// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import "slices"

// hitLog holds the hits of a sliding algorithm in order of time. The units of hit i and of all
// hits before it are units[i], so that the units between two hits are one subtraction.
//
// The log's own time is never before its newest hit. Times to wait are measured from the clock.
type hitLog struct {
	at    []int64 // microseconds
	units column
	// admitted is for Suppressed only, whose units include denied checks.
	admitted column
}

// column is the running total of a kind of units.
type column struct {
	totals []int64
	base   int64 // the total before the first hit
}

// largestTotal is where totals start again at 0, long before they overflow.
const largestTotal = 1 << 60

func (c *column) total() int64 { return c.before(len(c.totals)) }

// before returns the total of all hits before i.
func (c *column) before(i int) int64 {
	if i == 0 {
		return c.base
	}
	return c.totals[i-1]
}

// reaching returns the first hit with which the total is at least the given one.
func (c *column) reaching(total int64) int {
	i, _ := slices.BinarySearch(c.totals, total)
	return i
}

// drop drops the first n hits.
func (c *column) drop(n int) {
	c.base = c.before(n)
	c.totals = shrunk(c.totals[n:])
	if c.total() > largestTotal {
		for i := range c.totals {
			c.totals[i] -= c.base
		}
		c.base = 0
	}
}

// shrunk returns the list in memory of its own if it uses only a small part of its memory.
func shrunk(list []int64) []int64 {
	const slack = 64
	if cap(list) > 4*len(list)+slack {
		return slices.Clone(list)
	}
	return list
}

func (l *hitLog) newest() int64 { return l.at[len(l.at)-1] }

// firstAfter returns the first hit after that time.
func (l *hitLog) firstAfter(at int64) int {
	i, _ := slices.BinarySearch(l.at, at+1)
	return i
}

// since returns the units of the hits after that time.
func (l *hitLog) since(c *column, at int64) int64 { return c.total() - c.before(l.firstAfter(at)) }

// add records a hit, which must not be before the newest one, and drops the hits that are older
// than keep.
func (l *hitLog) add(at, keep, units, admitted int64) {
	l.at = append(l.at, at)
	l.units.totals = append(l.units.totals, l.units.total()+units)
	if admitted >= 0 {
		l.admitted.totals = append(l.admitted.totals, l.admitted.total()+admitted)
	}
	l.drop(l.firstAfter(at - keep))
}

// notSuppressed is what add takes for admitted where the log has no such column.
const notSuppressed = -1

// drop drops the first n hits.
func (l *hitLog) drop(n int) {
	l.at = shrunk(l.at[n:])
	l.units.drop(n)
	if len(l.admitted.totals) > 0 {
		l.admitted.drop(n)
	}
}

// takeBucket removes the newest hit if it is in the bucket of time of a hit at that time, and
// returns its units.
func (l *hitLog) takeBucket(at, bucket int64) (units, admitted int64) {
	last := len(l.at) - 1
	if last < 0 || l.newest()/bucket != at/bucket {
		return 0, 0
	}
	units = l.units.total() - l.units.before(last)
	if len(l.admitted.totals) > 0 {
		admitted = l.admitted.total() - l.admitted.before(last)
		l.admitted.totals = l.admitted.totals[:last]
	}
	l.at, l.units.totals = l.at[:last], l.units.totals[:last]
	return units, admitted
}
