// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"

	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/registry"
)

// publisher is the registry as the controller wants it.
type publisher struct{ *registry.Writer }

// Set implements controller.Publisher.
func (p publisher) Set(ctx context.Context, wanted *plan.Plan) error {
	return unlessWaiting(p.Writer.Set(ctx, wanted))
}

// Delete implements controller.Publisher.
func (p publisher) Delete(ctx context.Context, id string) error {
	return unlessWaiting(p.Writer.Delete(ctx, id))
}

// unlessWaiting drops the error of a registry that waits for all plans to be
// known: what was asked for is kept, and Changes tells when it is done.
func unlessWaiting(err error) error {
	if errors.Is(err, registry.ErrEpochLost) {
		return nil
	}
	return err
}

// Sweep implements controller.Publisher.
func (p publisher) Sweep(ctx context.Context, live func(id string) bool) error {
	_, err := p.Writer.Sweep(ctx, live)
	return err
}

// Standing implements controller.Publisher.
func (p publisher) Standing(id string) controller.Standing {
	err := p.Err()
	running, live := p.Enforced(id)
	return controller.Standing{
		// A registry that is lost or not ours was reached.
		Reachable:      err == nil || errors.Is(err, registry.ErrOwnedElsewhere) || errors.Is(err, registry.ErrEpochLost),
		OwnedElsewhere: errors.Is(err, registry.ErrOwnedElsewhere),
		Plan:           p.Plan(id),
		Live:           live > 0,
		Level:          live > 0 && running == live,
	}
}
