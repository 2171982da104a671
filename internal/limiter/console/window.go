// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import "strconv"

// window draws what a limit holds and when it frees.
type window struct {
	// Used is the share of the quota that is held, as the width of a bar. Quota is its end.
	Used  string
	Quota int64
	// The drawing of time begins now and ends after Span, in milliseconds. Reset is where all units are
	// free, Retry where one more unit is admitted; Retry is empty if that is now or never.
	Reset, Retry string
	Span         int64
	// Never is true if no waiting helps.
	Never    bool
	RetryMs  int64
	WindowMs int64
}

func newWindow(l *limitState, length, quota int64) *window {
	w := &window{Quota: quota, WindowMs: length, Span: max(length, l.ResetAfterMs)}
	w.Used = coordinate(plotWidth * shareOf(l.Used, max(quota, 1)))
	switch {
	case l.Allowed:
	case l.RetryAfterMs == nil || *l.RetryAfterMs == 0:
		w.Never = true
	default:
		w.RetryMs = *l.RetryAfterMs
		w.Span = max(w.Span, w.RetryMs)
		w.Retry = coordinate(plotWidth * shareOf(w.RetryMs, w.Span))
	}
	w.Reset = coordinate(plotWidth * shareOf(l.ResetAfterMs, w.Span))
	return w
}

// shareOf returns the share, 0..1.
func shareOf(n, of int64) float64 { return min(float64(n)/float64(of), 1) }

// Left returns the percentage at which the label of Retry is.
func (w *window) Left() string { return strconv.FormatInt(w.RetryMs*100/w.Span, 10) }
