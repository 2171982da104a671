// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

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

func (w fixedWindow) timeToFit(v *view) int64 {
	if w.used(v)+v.entry.cost <= v.limit.Quota {
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

func (fixedWindow) spend(v *view, _ bool) {
	if !v.exists(v.entry.now) {
		v.data[0] = 0
		v.expireIn(v.entry.now, v.window/1000)
	}
	units := v.entry.cost
	if v.entry.policy.CountsAttempts() {
		units = max(0, min(units, v.limit.Ceiling()-v.data[0]))
	}
	v.data[0] += units
}
