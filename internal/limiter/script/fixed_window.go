// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

// FixedWindow admits at most Quota units per window. The window starts with the first
// unit and later units never extend it, so up to twice the quota may be admitted around
// the end of a window. The state is one counter with a TTL. See fixed_window.lua.
const FixedWindow Algorithm = "fw"

var fixedWindowKind = kind{
	code: FixedWindow, name: "FixedWindow", file: "fixed_window.lua", attempts: true,
	arguments: func(l *Limit) []int64 { return []int64{l.ceiling} },
	ceiling:   func(l *Limit) int64 { return l.Threshold },
	model: func(m *Model, e *Entry, l *Limit) counter {
		return state[fixedWindow](m, e.Key, l.stateKey(e.Policy.id))
	},
}

// fixedWindow is the reference model of fixed_window.lua.
type fixedWindow struct {
	units int64
	end   expiry
}

func (w *fixedWindow) alive(now int64) bool { return w.end.alive(now) }

func (w *fixedWindow) used(_ *Entry, _ *Limit, now int64) int64 {
	if !w.end.alive(now) {
		return 0
	}
	return w.units
}

func (w *fixedWindow) usedAfter(e *Entry, l *Limit, now, wait int64) int64 {
	if w.used(e, l, now) == 0 || wait >= w.left(e, l, now) {
		return 0
	}
	return w.units
}

func (w *fixedWindow) spend(e *Entry, l *Limit, now int64, _ bool) {
	if !w.end.alive(now) {
		*w = fixedWindow{end: expireIn(now, l.Window)}
	}
	units := e.Cost
	if e.Policy.attempts {
		units = max(0, min(units, l.ceiling-w.units))
	}
	w.units += units
}

func (w *fixedWindow) timeToFit(e *Entry, l *Limit, now int64) int64 {
	if w.used(e, l, now)+e.Cost <= l.Quota {
		return 0
	}
	return w.left(e, l, now)
}

func (w *fixedWindow) resetAfter(e *Entry, l *Limit, now int64) int64 {
	if w.used(e, l, now) == 0 {
		return 0
	}
	return w.left(e, l, now)
}

// left returns the microseconds until the window ends. After the server's clock is set
// back that would be more than the window; then the window is restarted.
func (w *fixedWindow) left(e *Entry, l *Limit, now int64) int64 {
	whole := expireIn(now, l.Window)
	if w.end <= whole {
		return w.end.left(now)
	}
	if !e.Peek {
		w.end = whole
	}
	return whole.left(now)
}
