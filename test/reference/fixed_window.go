// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import "github.com/weir-dev/weir/internal/limiter/quota"

// fixedWindow is the reference model of fixed_window.lua.
type fixedWindow struct {
	units int64
	end   expiry
	holds *holdSet
}

func (w *fixedWindow) alive(now int64) bool { return w.end.alive(now) }

func (w *fixedWindow) used(_ *quota.Entry, _ *quota.Limit, now int64) int64 {
	if !w.end.alive(now) {
		return 0
	}
	return w.units
}

func (w *fixedWindow) usedAfter(e *quota.Entry, l *quota.Limit, now, wait int64) int64 {
	if w.used(e, l, now) == 0 || wait >= w.left(e, l, now) {
		return 0
	}
	return w.units
}

func (w *fixedWindow) spend(e *quota.Entry, l *quota.Limit, now int64, _ bool) {
	if !w.end.alive(now) {
		w.units, w.end = 0, endOfWindow(l, now)
		w.record(e, l)
	}
	ceiling := int64(quota.LargestCount)
	if e.Policy.CountsAttempts() {
		ceiling = l.Ceiling()
	}
	w.units += max(0, min(e.Cost, ceiling-w.units))
}

func (w *fixedWindow) timeToFit(e *quota.Entry, l *quota.Limit, now int64) int64 {
	if w.used(e, l, now)+e.Cost <= l.Quota {
		return 0
	}
	return w.left(e, l, now)
}

func (w *fixedWindow) resetAfter(e *quota.Entry, l *quota.Limit, now int64) int64 {
	if w.used(e, l, now) == 0 {
		return 0
	}
	return w.left(e, l, now)
}

// left returns the microseconds until the window ends. After the server's clock is set
// back that would be more than the window; then the window is restarted.
func (w *fixedWindow) left(e *quota.Entry, l *quota.Limit, now int64) int64 {
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
func (w *fixedWindow) record(e *quota.Entry, l *quota.Limit) {
	if h := w.holds.set; h.Len() > 0 {
		h.Windows[l.StateName(e.Policy.ID())] = int64(w.end)
	}
}

func (w *fixedWindow) settle(e *quota.Entry, l *quota.Limit, units, at, now int64) {
	if w.used(e, l, now) > 0 {
		w.units = min(w.units+units, quota.LargestCount)
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

func (*fixedWindow) endSettling(*quota.Entry, *quota.Limit, int64) {}

func (w *fixedWindow) keep(e *quota.Entry, l *quota.Limit, now int64) {
	if w.used(e, l, now) > 0 {
		if w.end > expireIn(now, l.LongestWindow()) {
			w.end = endOfWindow(l, now)
		}
		w.record(e, l)
	}
}

func (*fixedWindow) afterLast(l *quota.Limit, _, last, _ int64) int64 {
	return last + l.LongestWindow().Microseconds()
}

// endOfWindow returns the expiry of a window that begins at the time.
func endOfWindow(l *quota.Limit, at int64) expiry { return expiry(l.WindowEnd(at/1000) - 1) }
