// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// askStore lets the store decide the charges. If the store does not answer, this process decides for policies with
// failureMode Local. It returns the late charges that the store did not confirm, and the error of a canceled caller without any.
func (e *Engine) askStore(ctx context.Context, ev *evaluation) (unsent []limiter.Commit, err error) {
	if len(ev.call.Entries) > 0 {
		e.decideInStore(ctx, ev)
	}
	if ev.lateCharges != nil {
		unsent = e.spendLateCharges(ctx, ev)
	}
	if ev.err != nil && unsent == nil && errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err()
	}
	if ev.check.Hits != nil && ev.rejectCopiedIDs() {
		e.cancelTaken(ctx, ev)
	}
	if ev.err != nil {
		e.decideLocally(ctx, ev)
	}
	return unsent, nil
}

// decideInStore lets the store decide the call; if the script fails, a call for each Namespace. It waits for the holds of
// a canceled caller, to withdraw them.
func (e *Engine) decideInStore(ctx context.Context, ev *evaluation) {
	ev.call.Draw = e.options.Draw()
	ev.protect(e.options.MemoryLow(), ev.start)
	if ev.withdraws {
		var cancel context.CancelFunc
		ctx, cancel = withoutCancel(ctx)
		defer cancel()
	}
	ev.run(ctx, e.options.Store.Evaluate)
	if failure, ok := errors.AsType[*store.Error](ev.err); ok && failure.Unwritten {
		ev.evaluateApart(ctx, e.options.Store.Evaluate)
	}
	ev.countNewKeys(ev.start)
}
