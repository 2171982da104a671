// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter/store"
)

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

func (s *slidingLog) spend(e *store.Entry, _ *store.Limit, now int64, _ bool) {
	s.addHit(e, hit{at: now, cost: e.Cost}, now, e.Action <= store.Commit)
}

func (s *slidingLog) settle(e *store.Entry, _ *store.Limit, units, at, now int64) {
	s.addHit(e, hit{at: at, cost: units}, now, true)
}

// addHit adds the hit and drops those that no limit needs. A plan, perhaps with a larger threshold, has admitted or held its
// units if isAdmitted is true.
func (s *slidingLog) addHit(e *store.Entry, h hit, now int64, isAdmitted bool) {
	keep, ceiling := e.Policy.Kept()
	found := sumOf(s.hits)
	if !s.add(h, now, keep) {
		return
	}
	if e.Policy.IsRequestable() && s.largest.alive(now) {
		ceiling = max(ceiling, s.largest.units)
	}
	if e.Policy.Enlarges() {
		s.largest.units, s.largest.end = ceiling, s.end
	}
	if !e.Policy.CountsAttempts() {
		ceiling *= 2
	}
	if isAdmitted && !e.Policy.CountsAttempts() && e.Policy.ShortestLog() == keep { // all count
		return
	}
	s.trim(ceiling, found)
}

func sumOf(hits []hit) (units int64) {
	for _, h := range hits {
		units += h.cost
	}
	return units
}

// trim drops the hits that neither a limit with that ceiling needs nor another plan, which needs as many units as were found.
func (s *slidingLog) trim(ceiling, found int64) {
	var units int64
	for i, h := range slices.Backward(s.hits) {
		before := units
		if units += h.cost; units < max(ceiling, found) {
			continue
		}
		s.hits = s.hits[i:]
		if before >= ceiling { // only the other plan needs this hit
			s.hits[0].cost -= units - found
		}
		return
	}
}

// left returns the microseconds until the log expires.
func (s *slidingLog) left(e *store.Entry, now int64) int64 {
	keep, _ := e.Policy.Kept()
	left, end := s.end.keepAlive(e, now, s.hits[len(s.hits)-1].at+keep.Microseconds()-now)
	s.end = end
	return left
}

func (s *slidingLog) timeToFit(e *store.Entry, l *store.Limit, now int64) int64 {
	wait := s.hitLog.timeToFit(e, l, now)
	if wait == 0 {
		return 0
	}
	return min(wait, s.left(e, now))
}

func (s *slidingLog) usedAfter(e *store.Entry, l *store.Limit, now, wait int64) int64 {
	if s.used(e, l, now) == 0 || wait >= s.left(e, now) {
		return 0
	}
	return s.hitLog.usedAfter(e, l, now, wait)
}

func (s *slidingLog) resetAfter(e *store.Entry, l *store.Limit, now int64) int64 {
	resetAfter := s.hitLog.resetAfter(e, l, now)
	if resetAfter == 0 {
		return 0
	}
	return min(resetAfter, s.left(e, now))
}
