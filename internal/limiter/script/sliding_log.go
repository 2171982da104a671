// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import "slices"

// SlidingLog admits at most Quota units in any interval of length Window, exact to the
// microsecond. The state is one log of hits per policy and key, which all SlidingLog
// limits share. Only a requested limit with another window has a StateSuffix and a log of
// its own; a check requests at most one. See sliding_log.lua.
const SlidingLog Algorithm = "sl"

var slidingLogKind = kind{
	code: SlidingLog, name: "SlidingLog", file: "sliding_log.lua", library: logLibrary, lean: true, attempts: true,
	model: func(m *Model, e *Entry, l *Limit) counter {
		log := state[slidingLog](m, e.Key, l.stateKey(e.Policy.id))
		log.largest = state[largestServed](m, e.Key, largestKey(l.stateKey(e.Policy.id)))
		return log
	},
}

// slidingLog is the reference model of sliding_log.lua.
type slidingLog struct {
	hitLog

	largest *largestServed
}

// largestServed is the largest number that the log serves for requested limits.
type largestServed struct {
	units int64
	end   expiry
}

func (s *largestServed) alive(now int64) bool { return s.end.alive(now) }

func (s *slidingLog) spend(e *Entry, _ *Limit, now int64, _ bool) {
	s.addHit(e, hit{at: now, cost: e.Cost}, now)
}

func (s *slidingLog) settle(e *Entry, _ *Limit, units, at, now int64) {
	s.addHit(e, hit{at: at, cost: units}, now)
}

// addHit adds the hit and drops those that no limit needs.
func (s *slidingLog) addHit(e *Entry, h hit, now int64) {
	if !s.add(h, now, e.Policy.keep) {
		return
	}
	ceiling := e.Policy.keepUnits
	if e.Policy.requestable && s.largest.alive(now) {
		ceiling = max(ceiling, s.largest.units)
	}
	if e.Policy.flags&flagEnlarges != 0 {
		s.largest.units, s.largest.end = ceiling, s.end
	}
	if !e.Policy.attempts {
		ceiling *= 2
	}
	var units int64
	for i, h := range slices.Backward(s.hits) {
		if units += h.cost; units >= ceiling {
			s.hits = s.hits[i:]
			return
		}
	}
}

// left returns the microseconds until the log expires.
func (s *slidingLog) left(e *Entry, now int64) int64 {
	left, end := s.end.keepAlive(e, now, s.hits[len(s.hits)-1].at+e.Policy.keep.Microseconds()-now)
	s.end = end
	return left
}

func (s *slidingLog) timeToFit(e *Entry, l *Limit, now int64) int64 {
	wait := s.hitLog.timeToFit(e, l, now)
	if wait == 0 {
		return 0
	}
	return min(wait, s.left(e, now))
}

func (s *slidingLog) usedAfter(e *Entry, l *Limit, now, wait int64) int64 {
	if s.used(e, l, now) == 0 || wait >= s.left(e, now) {
		return 0
	}
	return s.hitLog.usedAfter(e, l, now, wait)
}

func (s *slidingLog) resetAfter(e *Entry, l *Limit, now int64) int64 {
	resetAfter := s.hitLog.resetAfter(e, l, now)
	if resetAfter == 0 {
		return 0
	}
	return min(resetAfter, s.left(e, now))
}
