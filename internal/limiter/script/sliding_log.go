// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"slices"
	"time"
)

// SlidingLog admits at most Quota units in any interval of length Window,
// exact to the microsecond. The state is one log of hits per policy and key,
// shared by all SlidingLog limits of the policy. See sliding_log.lua.
const SlidingLog Algorithm = "sl"

// hit is one entry of a log.
type hit struct{ at, cost int64 }

// slidingLog is the reference model of sliding_log.lua: a plain list of hits,
// counted one by one.
type slidingLog struct {
	hits []hit
	end  expiry
}

func (s *slidingLog) alive(now int64) bool { return s.end.alive(now) }

// now is the log's own time: it never runs back behind the newest hit.
func (s *slidingLog) now(server int64) int64 {
	if len(s.hits) == 0 {
		return server
	}
	return max(server, s.hits[len(s.hits)-1].at)
}

func (s *slidingLog) held(e *Entry, l *Limit, now int64) int64 {
	cutoff := s.now(now) - l.Window.Microseconds()
	var units int64
	for _, h := range s.hits {
		if h.at > cutoff {
			units += h.cost
		}
	}
	if e.Policy.attempts {
		units = min(units, l.Threshold)
	}
	return units
}

func (s *slidingLog) heldAfter(e *Entry, l *Limit, now, wait int64) int64 {
	return s.held(e, l, now+wait)
}

func (s *slidingLog) spend(e *Entry, _ *Limit, now int64) {
	at := s.now(now)
	s.hits = append(s.hits, hit{at: at, cost: e.Cost})
	for s.hits[0].at <= at-e.Policy.keep.Microseconds() {
		s.hits = s.hits[1:]
	}
	if e.Policy.attempts {
		var units int64
		for i, h := range slices.Backward(s.hits) {
			if units += h.cost; units >= e.Policy.keepUnits {
				s.hits = s.hits[i:]
				break
			}
		}
	}
	s.end = expireIn(now, e.Policy.keep+time.Millisecond)
}

func (s *slidingLog) fit(e *Entry, l *Limit, now int64) int64 {
	if s.held(e, l, now)+e.Cost <= l.Quota {
		return 0
	}
	for _, h := range s.hits {
		end := h.at + l.Window.Microseconds()
		if s.held(e, l, end)+e.Cost <= l.Quota {
			return end - now
		}
	}
	panic("script: a cost above the quota has no time to fit")
}

func (s *slidingLog) idle(e *Entry, l *Limit, now int64) int64 {
	if s.held(e, l, now) == 0 {
		return 0
	}
	return s.hits[len(s.hits)-1].at + l.Window.Microseconds() - now
}
