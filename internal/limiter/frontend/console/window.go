// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

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
	Never   bool
	RetryMs int64
	// Length describes the window or the calendar, such as "in 1m".
	Length string
}

func newWindow(l *answer.LimitState, limit *plan.Limit, quota int64) *window {
	w := &window{Quota: quota, Length: lengthText(limit), Span: max(limit.NominalWindow().Milliseconds(), l.ResetAfterMs, 1)}
	w.Used = coordinate(plotWidth * shareOf(l.Used, max(quota, 1)))
	switch {
	case l.Allowed:
	case l.RetryAfterMs == 0:
		w.Never = true
	default:
		w.RetryMs = int64(l.RetryAfterMs)
		w.Span = max(w.Span, w.RetryMs)
		w.Retry = coordinate(plotWidth * shareOf(w.RetryMs, w.Span))
	}
	w.Reset = coordinate(plotWidth * shareOf(l.ResetAfterMs, w.Span))
	return w
}

// lengthText describes the window or the calendar of the limit after its threshold.
func lengthText(l *plan.Limit) string {
	if l.Algorithm == plan.Concurrency {
		return windowText(l)
	}
	return "in " + windowText(l)
}

// shareOf returns the share, 0..1.
func shareOf(n, of int64) float64 { return min(float64(n)/float64(of), 1) }
