// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// hit is one entry of a log.
type hit struct{ at, cost, admitted int64 }

// hitLog is the reference model of log.lua: a plain list of hits, counted one by one.
// The sliding algorithms embed it.
type hitLog struct {
	hits []hit
	end  expiry
}

func (s *hitLog) alive(now int64) bool { return s.end.alive(now) }

// now returns the log's own time, which is never before the newest hit.
func (s *hitLog) now(server int64) int64 {
	if len(s.hits) == 0 {
		return server
	}
	return max(server, s.hits[len(s.hits)-1].at)
}

// sum returns the units of the hits in the window that ends at the given time.
func (s *hitLog) sum(l *store.Limit, at int64, units func(hit) int64) int64 {
	cutoff := at - l.Window.Microseconds()
	var sum int64
	for _, h := range s.hits {
		if h.at > cutoff {
			sum += units(h)
		}
	}
	return sum
}

func costOf(h hit) int64     { return h.cost }
func admittedOf(h hit) int64 { return h.admitted }

func (s *hitLog) used(_ *store.Entry, l *store.Limit, now int64) int64 {
	return s.sum(l, s.now(now), costOf)
}

func (s *hitLog) usedAfter(_ *store.Entry, l *store.Limit, now, wait int64) int64 {
	return s.sum(l, s.now(now+wait), costOf)
}

func (s *hitLog) timeToFit(e *store.Entry, l *store.Limit, now int64) int64 {
	if s.sum(l, s.now(now), costOf)+e.Cost <= l.Quota {
		return 0
	}
	for _, h := range s.hits {
		end := h.at + l.Window.Microseconds()
		if s.sum(l, s.now(end), costOf)+e.Cost <= l.Quota {
			return end - now
		}
	}
	panic("reference: a cost above the quota has no time to fit")
}

func (s *hitLog) resetAfter(_ *store.Entry, l *store.Limit, now int64) int64 {
	return s.resetAfterOf(l, now, costOf)
}

// resetAfterOf returns the time until the last of the units has left the window.
func (s *hitLog) resetAfterOf(l *store.Limit, now int64, units func(hit) int64) int64 {
	if s.sum(l, s.now(now), units) == 0 {
		return 0
	}
	var last int64
	for _, h := range s.hits {
		if units(h) > 0 {
			last = h.at
		}
	}
	return last + l.Window.Microseconds() - now
}

// add records a hit at its time, or at the time of the newest hit if that is later, and drops the hits
// older than keep. It reports whether the hit is needed.
func (s *hitLog) add(h hit, now int64, keep time.Duration) bool {
	if h.at = s.now(h.at); h.at+keep.Microseconds() <= now {
		return false
	}
	s.append(h, now, keep)
	return true
}

// addToBucket records a hit as add does, merged with the newest one if they share a bucket of
// time. The cost of a bucket grows up to ceiling; a bucket that already holds more keeps it.
func (s *hitLog) addToBucket(h hit, now int64, l *store.Limit, ceiling int64) {
	if h.at = s.now(h.at); h.at+l.Window.Microseconds() <= now {
		return
	}
	bucket := l.Bucket.Microseconds()
	var before hit
	if n := len(s.hits); n > 0 && s.hits[n-1].at/bucket == h.at/bucket {
		before = s.hits[n-1]
		s.hits = s.hits[:n-1]
	}
	h.cost = max(before.cost, min(before.cost+h.cost, ceiling))
	h.admitted += before.admitted
	s.append(h, now, l.Window)
}

func (s *hitLog) append(h hit, now int64, keep time.Duration) {
	s.hits = append(s.hits, h)
	for s.hits[0].at <= h.at-keep.Microseconds() {
		s.hits = s.hits[1:]
	}
	s.end = expireAfter(now, h.at+keep.Microseconds()-now)
}

func (*hitLog) endSettling(*store.Entry, *store.Limit, int64) {}

func (*hitLog) keep(*store.Entry, *store.Limit, int64) {}

func (*hitLog) afterLast(l *store.Limit, _, last, _ int64) int64 {
	return last + l.Window.Microseconds()
}
