// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
)

// charge makes the charges and counts them.
func (e *Engine) charge(ctx context.Context, charges *operations, start time.Time) error {
	charges.call.Draw = e.options.Draw()
	charges.protect(e.options.MemoryLow(), start)
	if err := e.change(ctx, charges, "charge"); err != nil {
		return err
	}
	charges.countNewKeys(start)
	e.metrics.countCharges(charges)
	return nil
}

// change evaluates a call that is never denied, such as a commit; an empty call changes nothing. It returns
// limiter.ErrStoreUnavailable if Redis does not answer, and the error of a canceled context.
func (e *Engine) change(ctx context.Context, o *operations, name string) error {
	if len(o.call.Entries) == 0 {
		return nil
	}
	start := time.Now()    //nolint:forbidigo // for the ends of blocks
	o.call.Uncached = true // a remembered denial does not answer it
	o.protectIDs(e.options.MemoryLow(), start)
	o.run(ctx, e.options.Store.Evaluate)
	switch {
	case o.err == nil:
		o.countIDs(start)
		o.applySubstitutes()
		if e.options.Observer != nil {
			o.observeBlocks(e.options.Observer, start)
		}
		e.log.changed(ctx, name, o)
		e.trials.change(ctx, o)
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	}
	e.log.changeFailed(name, o.err)
	return fmt.Errorf("%w: %w", limiter.ErrStoreUnavailable, o.err)
}
