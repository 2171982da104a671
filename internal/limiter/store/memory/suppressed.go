// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// suppressed counts all checks in buckets of time, and beside them the admitted ones.
type suppressed struct{ sliding }

const (
	// mostObserved bounds the units of a bucket: only their ratio to the quota matters.
	mostObserved = 1 << 41
	// millionths is the resolution of the share that is shed.
	millionths = 1e6
)

// judgeHit decides whether the check is admitted.
func (s suppressed) judgeHit(v *view, draw uint32) (admits, shed bool, share float64) {
	cost := v.entry.Cost
	observed := s.observed(v) + float64(cost)
	share = math.Floor(max(0, 1-float64(v.limit.Quota)/observed)*millionths) / millionths
	if cost > v.limit.Quota || s.used(v)+cost > v.limit.HardQuota {
		return false, false, share
	}
	shed = float64(draw)/(1<<32)*observed >= float64(v.limit.Quota)
	return !shed, shed, share
}

// observed estimates the units of all checks of the last window. Of a bucket that begins before
// the window it takes the part in the window, as if its checks were spread evenly.
func (s suppressed) observed(v *view) float64 {
	l := s.hits(v)
	if l == nil {
		return 0
	}
	cutoff := v.entry.now - v.window
	oldest := l.firstAfter(cutoff)
	if oldest == len(l.at) {
		return 0
	}
	units := float64(l.units.total() - l.units.before(oldest))
	last := l.at[oldest]
	begins := last - last%v.limit.Bucket.Microseconds()
	if begins >= cutoff {
		return units
	}
	inOldest := float64(l.units.before(oldest+1) - l.units.before(oldest))
	outside := float64(cutoff-begins) / float64(last-begins)
	return units - float64(inOldest*outside)
}

func (s suppressed) used(v *view) int64 { return s.usedAfter(v, 0) }

func (s suppressed) usedAfter(v *view, wait int64) int64 {
	l := s.hits(v)
	if l == nil {
		return 0
	}
	return l.since(&l.admitted, v.entry.now+wait-v.window)
}

// resetAfter waits for the last admitted hit; later hits may be denied ones.
func (s suppressed) resetAfter(v *view) int64 {
	if s.used(v) == 0 {
		return 0
	}
	l := v.log
	return l.at[l.admitted.reaching(l.admitted.total())] + v.window - v.entry.now
}

// settle does nothing: policies with a Suppressed limit take no reservations.
func (suppressed) settle(*view, int64, int64) {}

func (s suppressed) spend(v *view, passes bool) {
	l, now := s.open(v), v.entry.now
	before, admitted := l.takeBucket(now, v.limit.Bucket.Microseconds())
	units := max(before, min(before+v.entry.Cost, mostObserved))
	switch {
	case passes && v.entry.Action > store.Reserve:
		admitted += units - before
	case passes:
		admitted += v.entry.Cost
	}
	l.add(now, v.window, units, admitted)
	v.expireAfter(now, v.window)
}
