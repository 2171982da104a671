// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/quota"
)

// Reserve implements limiter.Reserver.
func (e *Engine) Reserve(ctx context.Context, reserve *limiter.Reserve) (*limiter.Decision, error) {
	if err := reserve.Validate(); err != nil {
		return nil, err
	}
	return e.decideAndCount(ctx, &reserve.Check, &purpose{
		span:   "reserve",
		change: func(ev *evaluation, _ *limiter.Check) error { return ev.addHolds(reserve) },
		end:    e.endReserve,
	})
}

// endReserve sets the reservation of the decision. A reserve that differs from an open one with its ID
// holds nothing.
func (e *Engine) endReserve(ctx context.Context, ev *evaluation, d *limiter.Decision) error {
	err := ev.setReservation(d)
	if err != nil {
		e.cancelTaken(ctx, ev)
	}
	return err
}

// Charge implements limiter.Reserver. Policies that deny the key outright, or exempt it, have no limits
// and spend nothing.
func (e *Engine) Charge(ctx context.Context, c *limiter.Charge) (charged *limiter.Charged, err error) {
	ctx, end := startChange(ctx, e.tracer, "charge")
	defer func() { end(charged != nil && charged.Charged, err) }()
	start := time.Now() //nolint:forbidigo // for the budget of new keys
	v := e.active.Load()
	if v == nil {
		return nil, limiter.ErrNotReady
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	ev, err := v.findCharged(c)
	if err != nil {
		return nil, err
	}
	ev.call.Draw = e.draw()
	ev.protect(e.memoryLow(), start)
	if err := e.change(ctx, &ev.operations, "charge"); err != nil {
		return nil, err
	}
	ev.countNewKeys(start)
	charged = &limiter.Charged{Charged: len(ev.participants) == 0, Revision: v.snapshot.Revision()}
	for _, op := range ev.all() {
		charged.Charged = charged.Charged || op.reply.Hold != quota.HoldMissing
		charged.Limits = op.appendStates(charged.Limits, op.reply)
	}
	e.metrics.countFailures(&ev.search, v.series)
	e.metrics.countCharges(&ev.operations, v.series)
	ev.release()
	return charged, nil
}

// findCharged returns an evaluation with the charges of all policies that apply.
func (v *activeView) findCharged(c *limiter.Charge) (*evaluation, error) {
	c.Check.Attributes.Normalize()
	ev := newEvaluation()
	if err := ev.find(v.view, &c.Check); err != nil {
		return nil, err
	}
	ev.addPolicies(&c.Check)
	ev.call.Denied = false
	for i := range ev.call.Entries {
		ev.call.Entries[i].Action, ev.call.Entries[i].ID = quota.Charge, c.ID
	}
	return ev, nil
}
