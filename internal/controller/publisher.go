// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Publisher is what the controller needs of the registry. Its methods may be
// called by several goroutines at once, also for one ID.
//
// Set, Delete and Sweep fail at once while the registry is known to be out of
// reach or owned elsewhere. What Set and Delete were asked for stays asked for:
// the publisher goes on trying by itself and says through Changes when it got
// there.
type Publisher interface {
	// Set makes p the plan that its ID should have and returns when the registry
	// has it. Asking for what is there already costs nothing.
	Set(ctx context.Context, p *plan.Plan) error

	// Delete makes the ID one that should have no plan and returns when the
	// registry has none. It needs no plan to be there.
	Delete(ctx context.Context, id string) error

	// Sweep deletes the plans whose IDs are not live. A plan that is set meanwhile
	// stays. After an error it is up to the caller to sweep again; live is not
	// called after the return.
	Sweep(ctx context.Context, live func(id string) bool) error

	// Synced says that Set or Delete was called for every policy since the term
	// began, whatever they returned. From then on the publisher may replace a
	// registry that was lost: one that knew only a part of the plans would withdraw
	// the others.
	Synced()

	// Rollout reports how far the plan of the ID has got, without any I/O. Reachable,
	// OwnedElsewhere and HasReplicas are the same for every ID, also for "".
	Rollout(id string) plan.Rollout

	// Changes is sent to, coalesced, after the Rollout of any ID may have changed.
	// The controller is the only one to receive from it.
	Changes() <-chan struct{}
}
