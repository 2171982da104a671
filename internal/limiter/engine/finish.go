// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
)

// finish logs and counts the decision, and judges it by the candidates. It returns the error of a canceled caller whose
// reserve it has withdrawn.
func (e *Engine) finish(ctx context.Context, ev *evaluation, d *limiter.Decision) error {
	e.log.write(ctx, ev.check, ev.decided(), d)
	if ev.err != nil && d.Degraded != "" {
		e.log.degraded(ctx, ev.err, d)
		e.metrics.countDegraded(ev)
	}
	if len(ev.unchecked) > 0 {
		e.log.unchecked(ev.unchecked)
		e.metrics.countUnchecked(ev)
	}
	if !ev.check.IsPeek() {
		ev.markSightings()
		e.metrics.count(ev, d)
		e.metrics.countHolds(ev)
		e.metrics.duration.Observe(time.Since(ev.start).Seconds())
		if e.options.Observer != nil {
			ev.observe(e.options.Observer)
		}
		if len(ev.trials) > 0 && ev.copiedID() == nil {
			e.trials.runTrials(ctx, ev)
		}
	}
	if ev.mustWithdraw(ctx, d) {
		e.withdraw(ctx, ev)
		return ctx.Err()
	}
	ev.release()
	return nil
}
