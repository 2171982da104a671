// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// mustWithdraw reports whether the caller has canceled a reserve that it cannot repeat. It still gets a decision with
// charges that Redis did not confirm.
func (ev *evaluation) mustWithdraw(ctx context.Context, d *limiter.Decision) bool {
	return ev.withdraws && d.Unsent == nil && errors.Is(ctx.Err(), context.Canceled)
}

// withdraw cancels the holds of a reserve whose caller has canceled: it does not learn of them, so it cannot commit
// them. They are counted as reserved and canceled.
func (e *Engine) withdraw(ctx context.Context, ev *evaluation) {
	taken := ev.cancellations()
	if e.change(context.WithoutCancel(ctx), taken, "withdraw") == nil {
		e.metrics.countCommits(taken)
	}
	taken.release()
	ev.release()
}

// cancelTaken cancels the holds that a rejected reserve has taken, beside the holds of the open reservation
// with its ID. If Redis does not answer, they end by themselves.
func (e *Engine) cancelTaken(ctx context.Context, ev *evaluation) {
	taken := ev.cancellations()
	_ = e.change(context.WithoutCancel(ctx), taken, "cancel")
	taken.release()
}

// cancellations returns commits of 0 for the holds that the call has taken.
func (ev *evaluation) cancellations() *operations {
	taken := newOperations()
	for _, op := range ev.all() {
		if r := op.reply; r != nil && r.Hold == store.HoldTaken {
			entry := *op.entry
			entry.Action, entry.Cost = store.Commit, 0
			taken.add(*op.chargedPolicy, entry)
		}
	}
	return taken
}

// withoutCancel returns a context that ends only at the deadline of ctx, if it has one.
func withoutCancel(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, hasDeadline := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	if !hasDeadline {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline)
}
