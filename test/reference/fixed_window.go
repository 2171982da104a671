// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import "github.com/weir-dev/weir/internal/limiter/store"

// fixedWindow is the reference model of fixed_window.lua.
type fixedWindow struct {
	units int64
	end   expiry
	holds *holdSet
}

func (w *fixedWindow) alive(now int64) bool { return w.end.alive(now) }

func (w *fixedWindow) used(_ *store.Entry, _ *store.Limit, now int64) int64 {
	if !w.end.alive(now) {
		return 0
	}
	return w.units
}

func (w *fixedWindow) usedAfter(e *store.Entry, l *store.Limit, now, wait int64) int64 {
	if w.used(e, l, now) == 0 || wait >= w.left(e, l, now) {
		return 0
	}
	return w.units
}

func (w *fixedWindow) spend(e *store.Entry, l *store.Limit, now int64, _ bool) {
	if !w.end.alive(now) {
		w.units, w.end = 0, endOfWindow(l, now)
		w.record(e, l)
	}
	ceiling := int64(store.LargestCount)
	if e.Policy.CountsAttempts() {
		ceiling = l.Ceiling()
	}
	w.units += max(0, min(e.Cost, ceiling-w.units))
}

func (w *fixedWindow) timeToFit(e *store.Entry, l *store.Limit, now int64) int64 {
	if w.used(e, l, now)+e.Cost <= l.Quota {
		return 0
	}
	return w.left(e, l, now)
}

func (w *fixedWindow) resetAfter(e *store.Entry, l *store.Limit, now int64) int64 {
	if w.used(e, l, now) == 0 {
		return 0
	}
	return w.left(e, l, now)
}

// left returns the microseconds until the window ends. After the server's clock is set
// back that would be more than the window; then the window is restarted.
func (w *fixedWindow) left(e *store.Entry, l *store.Limit, now int64) int64 {
	if w.end <= expireIn(now, l.LongestWindow()) {
		return w.end.left(now)
	}
	whole := endOfWindow(l, now)
	if !e.Peek {
		w.end = whole
	}
	return whole.left(now)
}

// record records the end of the window with the holds, if there are any.
func (w *fixedWindow) record(e *store.Entry, l *store.Limit) {
	if h := w.holds.set; h.Len() > 0 {
		h.Windows[l.StateName(e.Policy.ID())] = int64(w.end)
	}
}

func (w *fixedWindow) settle(e *store.Entry, l *store.Limit, units, at, now int64) {
	if w.used(e, l, now) > 0 {
		w.units = min(w.units+units, store.LargestCount)
		return
	}
	name, windows := l.StateName(e.Policy.ID()), w.holds.set.Windows
	if last, ok := windows[name]; ok && !expiry(last).alive(now) && expiry(last).alive(at) {
		return
	}
	w.units, w.end = units, endOfWindow(l, at)
	if int64(w.end) == now/1000 {
		w.end++ // Redis has no shorter TTL
	}
	windows[name] = int64(w.end)
	if !w.end.alive(now) {
		w.units, w.end = 0, 0
	}
}

func (*fixedWindow) endSettling(*store.Entry, *store.Limit, int64) {}

func (w *fixedWindow) keep(e *store.Entry, l *store.Limit, now int64) {
	if w.used(e, l, now) > 0 {
		if w.end > expireIn(now, l.LongestWindow()) {
			w.end = endOfWindow(l, now)
		}
		w.record(e, l)
	}
}

func (*fixedWindow) afterLast(l *store.Limit, _, last, _ int64) int64 {
	return last + l.LongestWindow().Microseconds()
}

// endOfWindow returns the expiry of a window that begins at the time.
func endOfWindow(l *store.Limit, at int64) expiry { return expiry(l.WindowEnd(at/1000) - 1) }
