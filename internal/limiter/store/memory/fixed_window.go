// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"github.com/weir-dev/weir/internal/limiter/store"
)

// fixedWindow stores the units of the window in data[0]. The window ends with the life of the
// state.
type fixedWindow struct{}

func (fixedWindow) used(v *view) int64 {
	if !v.exists(v.entry.now) {
		return 0
	}
	return v.data[0]
}

func (w fixedWindow) usedAfter(v *view, wait int64) int64 {
	used := w.used(v)
	if used > 0 && wait >= v.left(v.entry.now) {
		return 0
	}
	return used
}

func (w fixedWindow) timeToFit(v *view, cost int64) int64 {
	if w.used(v)+cost <= v.limit.Quota {
		return 0
	}
	return v.left(v.entry.now)
}

func (w fixedWindow) resetAfter(v *view) int64 {
	if w.used(v) == 0 {
		return 0
	}
	return v.left(v.entry.now)
}

func (w fixedWindow) spend(v *view, _ bool) {
	if !v.exists(v.entry.now) {
		v.data[0] = 0
		v.gone = v.limit.WindowEnd(v.entry.now / 1000)
		w.record(v)
	}
	ceiling := int64(store.LargestCount)
	if v.entry.Policy.CountsAttempts() {
		ceiling = v.limit.Ceiling()
	}
	v.data[0] += max(0, min(v.entry.Cost, ceiling-v.data[0]))
}

// record records the last millisecond of the window with the holds, if there are any.
func (fixedWindow) record(v *view) {
	if h := v.entry.holds; h.Len() > 0 {
		h.Windows[v.limit.StateName(v.entry.Policy.ID())] = v.gone - 1
	}
}

// settle counts the units in the window that contains the time, unless it has ended. Without such a window they
// start one.
func (w fixedWindow) settle(v *view, units, at int64) {
	now, windows, name := v.entry.now, v.entry.holds.Windows, v.limit.StateName(v.entry.Policy.ID())
	if used := w.used(v); used > 0 {
		v.data[0] += min(units, store.LargestCount-used)
		return
	}
	if last, known := windows[name]; known && last < now/1000 && at/1000 <= last {
		return
	}
	last := v.limit.WindowEnd(at/1000) - 1
	if last >= now/1000 {
		last = max(last, now/1000+1) // as in Redis, which has no shorter TTL
		v.data[0], v.gone, v.spent = units, last+1, true
	}
	windows[name] = last
}

func (fixedWindow) endSettling(*view) {}

func (w fixedWindow) keep(v *view) {
	if w.used(v) > 0 {
		w.record(v)
	}
}

func (fixedWindow) afterLast(v *view, _, last, _ int64) int64 {
	return last + v.limit.LongestWindow().Microseconds()
}
