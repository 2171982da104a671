// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import "github.com/weir-dev/weir/internal/limiter/store"

// slidingWindow is the reference model of sliding_window.lua.
type slidingWindow struct{ hitLog }

func (s *slidingWindow) spend(e *store.Entry, l *store.Limit, now int64, _ bool) {
	ceiling := int64(1) << 62
	switch {
	case e.Policy.CountsAttempts():
		ceiling = l.Ceiling()
	case e.Action > store.Reserve:
		ceiling = mostCharged
	}
	s.addToBucket(hit{at: now, cost: e.Cost}, now, l, ceiling)
}

// mostCharged bounds what commits and charges add to a bucket.
const mostCharged = 1 << 41

func (s *slidingWindow) settle(_ *store.Entry, l *store.Limit, units, at, now int64) {
	s.addToBucket(hit{at: at, cost: units}, now, l, 1<<62)
}
