// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// sliding is what the algorithms with a log have in common. The state itself only has the end
// of the log's life.
type sliding struct{}

func (sliding) hits(v *view) *hitLog {
	if v.log == nil || !v.exists(v.entry.now) {
		return nil
	}
	return v.log
}

// unitsAt returns the units of the window that ends at that time.
func (s sliding) unitsAt(v *view, at int64) int64 {
	l := s.hits(v)
	if l == nil {
		return 0
	}
	return l.since(&l.units, at-v.window)
}

func (s sliding) used(v *view) int64 { return s.unitsAt(v, v.entry.now) }

func (s sliding) usedAfter(v *view, wait int64) int64 { return s.unitsAt(v, v.entry.now+wait) }

func (s sliding) timeToFit(v *view, cost int64) int64 {
	if s.used(v)+cost <= v.limit.Quota {
		return 0
	}
	l := v.log
	leaving := l.units.reaching(l.units.total() + cost - v.limit.Quota)
	return l.at[leaving] + v.window - v.entry.now
}

func (s sliding) resetAfter(v *view) int64 {
	if s.used(v) == 0 {
		return 0
	}
	return v.log.newest() + v.window - v.entry.now
}

// open returns the log for a hit that is about to be added.
func (s sliding) open(v *view) *hitLog {
	if s.hits(v) == nil {
		v.log = &hitLog{}
	}
	return v.log
}

// timeOf returns when a hit of that time is recorded: not before the newest hit.
func (s sliding) timeOf(v *view, at int64) int64 {
	if l := s.hits(v); l != nil {
		return max(at, l.newest())
	}
	return at
}

func (sliding) endSettling(*view) {}

func (sliding) keep(*view) {}

func (sliding) afterLast(v *view, _, last, _ int64) int64 { return last + v.window }

// slidingWindow counts hits in buckets of time.
type slidingWindow struct{ sliding }

// mostCharged bounds what commits and charges add to a bucket.
const mostCharged = 1 << 41

func (s slidingWindow) spend(v *view, _ bool) {
	ceiling := int64(math.MaxInt64)
	switch {
	case v.entry.Policy.CountsAttempts():
		ceiling = v.limit.Ceiling()
	case v.entry.Action > store.Reserve:
		ceiling = mostCharged
	}
	s.add(v, v.entry.Cost, v.entry.now, ceiling)
}

func (s slidingWindow) settle(v *view, units, at int64) {
	if at = s.timeOf(v, at); at+v.window > v.entry.now {
		s.add(v, units, at, math.MaxInt64)
		v.spent = true
	}
}

// add adds the units to the bucket of that time, up to the ceiling.
func (s slidingWindow) add(v *view, units, at, ceiling int64) {
	l := s.open(v)
	before, _ := l.takeBucket(at, v.limit.Bucket.Microseconds())
	l.add(at, v.window, max(before, min(before+units, ceiling)), notSuppressed)
	v.expireAfter(v.entry.now, at+v.window-v.entry.now)
}

// slidingLog counts every hit. All SlidingLog limits of a caller share one log, which keeps hits
// as long as any of them needs them. data[0] is the largest number of units that a requested
// limit has needed, which counts until the millisecond data[1].
type slidingLog struct{ sliding }

// life returns how long the log exists.
func (slidingLog) life(v *view) int64 {
	keep, _ := v.entry.Policy.Kept()
	return v.keepAlive(v.log.newest() + keep.Microseconds() - v.entry.now)
}

func (s slidingLog) timeToFit(v *view, cost int64) int64 {
	wait := s.sliding.timeToFit(v, cost)
	if wait == 0 {
		return 0
	}
	return min(wait, s.life(v))
}

func (s slidingLog) usedAfter(v *view, wait int64) int64 {
	if s.used(v) == 0 || wait >= s.life(v) {
		return 0
	}
	return s.sliding.usedAfter(v, wait)
}

func (s slidingLog) resetAfter(v *view) int64 {
	reset := s.sliding.resetAfter(v)
	if reset == 0 {
		return 0
	}
	return min(reset, s.life(v))
}

func (s slidingLog) spend(v *view, _ bool) {
	s.add(v, v.entry.Cost, v.entry.now, v.entry.Action <= store.Commit)
}

func (s slidingLog) settle(v *view, units, at int64) {
	keep, _ := v.entry.Policy.Kept()
	if at = s.timeOf(v, at); at+keep.Microseconds() > v.entry.now {
		s.add(v, units, at, true)
		v.spent = true
	}
}

// add adds a hit of that time and drops those that no limit needs. A plan, perhaps with a larger threshold, has admitted or
// held its units if isAdmitted is true.
func (s slidingLog) add(v *view, units, at int64, isAdmitted bool) {
	l, now := s.open(v), v.entry.now
	found := l.units.total() - l.units.base // another plan may need them
	keep, largest := v.entry.Policy.Kept()
	if v.entry.Policy.IsRequestable() && now/1000 < v.data[1] {
		largest = max(largest, v.data[0])
	}
	l.add(at, keep.Microseconds(), units, notSuppressed)
	v.expireAfter(now, at+keep.Microseconds()-now)
	if v.entry.Policy.Enlarges() {
		v.data[0], v.data[1] = largest, v.gone
	}
	if !v.entry.Policy.CountsAttempts() {
		largest *= 2 // as in Redis, where hits can be refunded
	}
	if isAdmitted && !v.entry.Policy.CountsAttempts() && v.entry.Policy.ShortestLog() == keep { // all count
		return
	}
	if most := l.units.total() - largest; l.units.base < most {
		// If a plan with a larger threshold has left more, as many units stay, of the oldest hit perhaps a part.
		needed := l.units.before(l.units.reaching(most + 1))
		kept := l.units.total() - max(l.units.base, min(needed, l.units.total()-found))
		l.drop(l.units.reaching(l.units.total() - kept + 1))
		l.units.base = l.units.total() - kept
	}
}
