// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

// SlidingWindow admits at most Quota units in any interval of length Window, counted in
// buckets: hits within one Bucket of time are stored as one, which counts as long as the
// latest of them. So it may deny for less than a Bucket longer than SlidingLog does, and
// never admits more. See sliding_window.lua.
const SlidingWindow Algorithm = "sw"

var slidingWindowKind = kind{
	code: SlidingWindow, name: "SlidingWindow", file: "sliding_window.lua", library: logLibrary, lean: true, attempts: true,
	arguments: func(l *Limit) []int64 { return []int64{l.Bucket.Microseconds(), l.ceiling} },
	ceiling:   func(l *Limit) int64 { return l.Threshold },
	model: func(m *Model, e *Entry, l *Limit) counter {
		return state[slidingWindow](m, e.Key, l.stateKey(e.Policy.id))
	},
}

// slidingWindow is the reference model of sliding_window.lua.
type slidingWindow struct{ hitLog }

func (s *slidingWindow) spend(e *Entry, l *Limit, now int64, _ bool) {
	ceiling := int64(1) << 62
	switch {
	case e.Policy.attempts:
		ceiling = l.ceiling
	case e.Action > Reserve:
		ceiling = mostCharged
	}
	s.addToBucket(hit{at: now, cost: e.Cost}, now, l, ceiling)
}

// mostCharged bounds what commits and charges add to a bucket.
const mostCharged = 1 << 41

func (s *slidingWindow) settle(_ *Entry, l *Limit, units, at, now int64) {
	s.addToBucket(hit{at: at, cost: units}, now, l, 1<<62)
}
