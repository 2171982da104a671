// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
)

// Decide implements limiter.Decider. A store that does not answer is not an error: the
// failure modes of the policies decide, and the decision is marked as degraded.
func (e *Engine) Decide(ctx context.Context, check *limiter.Check) (*limiter.Decision, error) {
	return e.decideCheck(ctx, "decide", check, nil)
}

// decideCheck decides the check. reserve is nil for plain checks, and span is the name of the span in the trace.
func (e *Engine) decideCheck(
	ctx context.Context, span string, check *limiter.Check, reserve *limiter.Reserve,
) (decision *limiter.Decision, err error) {
	ctx, end := startDecision(ctx, e.options.Tracer, span)
	defer func() { end(decision, err) }()
	start := time.Now() //nolint:forbidigo // for the duration metric and the budget of new keys
	v, err := e.begin(check)
	if err != nil {
		return nil, err
	}
	ev := newEvaluation(v, check, start)
	ev.reserve = reserve
	if decision, err = e.runPhases(ctx, ev); err != nil {
		return nil, err
	}
	if err := e.finish(ctx, ev, decision); err != nil {
		return nil, err
	}
	return decision, nil
}

// runPhases decides the check in four phases. A canceled caller gets no decision, unless the decision lists charges
// that Redis did not confirm.
func (e *Engine) runPhases(ctx context.Context, ev *evaluation) (*limiter.Decision, error) {
	matched, err := ev.match(ev.check) // which policies apply
	if err != nil {
		return nil, err
	}
	if err := ev.addCharges(matched); err != nil { // what the check charges, to which keys
		return nil, err
	}
	unsent, err := e.askStore(ctx, ev) // which limits admit it
	if err != nil {
		return nil, err
	}
	decision := ev.judgeReply() // what the caller gets
	decision.Unsent = unsent
	if ev.reserve != nil {
		return decision, e.endReserve(ctx, ev, decision)
	}
	return decision, nil
}
