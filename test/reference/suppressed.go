// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"math"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// mostObserved bounds the observed units of a bucket.
const mostObserved = 1 << 41

// suppressed is the reference model of suppressed.lua.
type suppressed struct{ hitLog }

func (s *suppressed) judge(e *store.Entry, l *store.Limit, now int64, draw uint32) (admits, shed bool, suppression float64) {
	observed := s.observed(l, now) + float64(e.Cost)
	suppression = math.Floor(max(0, 1-float64(l.Quota)/observed)*1e6) / 1e6
	if e.Cost > l.Quota || s.used(e, l, now)+e.Cost > l.HardQuota {
		return false, false, suppression
	}
	shed = float64(draw)/(1<<32)*observed >= float64(l.Quota)
	return !shed, shed, suppression
}

// observed estimates the units of all checks of the last window: a bucket that lies only
// partly in the window counts with that part.
func (s *suppressed) observed(l *store.Limit, now int64) float64 {
	cutoff := s.now(now) - l.Window.Microseconds()
	var units float64
	for _, h := range s.hits {
		if h.at > cutoff {
			units += float64(h.cost)
		}
	}
	for _, h := range s.hits {
		first := h.at - h.at%l.Bucket.Microseconds()
		if h.at > cutoff && first < cutoff {
			units -= float64(float64(h.cost) * (float64(cutoff-first) / float64(h.at-first)))
		}
	}
	return units
}

func (s *suppressed) used(_ *store.Entry, l *store.Limit, now int64) int64 {
	return s.sum(l, s.now(now), admittedOf)
}

func (s *suppressed) usedAfter(_ *store.Entry, l *store.Limit, now, wait int64) int64 {
	return s.sum(l, s.now(now+wait), admittedOf)
}

func (s *suppressed) resetAfter(_ *store.Entry, l *store.Limit, now int64) int64 {
	return s.resetAfterOf(l, now, admittedOf)
}

func (s *suppressed) spend(e *store.Entry, l *store.Limit, now int64, passes bool) {
	h := hit{at: now, cost: e.Cost}
	if passes {
		h.admitted = e.Cost
		if e.Action > store.Reserve {
			h.admitted = min(e.Cost, mostObserved-s.inBucket(now, l))
		}
	}
	s.addToBucket(h, now, l, mostObserved)
}

// inBucket returns the observed units of the current bucket.
func (s *suppressed) inBucket(now int64, l *store.Limit) int64 {
	bucket := l.Bucket.Microseconds()
	if n := len(s.hits); n > 0 && s.hits[n-1].at/bucket == s.now(now)/bucket {
		return s.hits[n-1].cost
	}
	return 0
}
