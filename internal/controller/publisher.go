// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Publisher is the controller's interface to the registry. Its methods may be
// called concurrently, also for the same ID.
//
// Set, Delete and Sweep fail at once while the registry is known to be
// unreachable or owned elsewhere. The publisher remembers each Set and
// Delete, retries by itself and signals Changes when it has written it.
type Publisher interface {
	// Set makes p the wanted plan of its ID and returns when the registry holds it.
	// Setting the plan that the registry already holds costs nothing.
	Set(ctx context.Context, p *plan.Plan) error

	// Delete makes the ID one without a plan and returns when the registry holds
	// none. Deleting an ID without a plan succeeds.
	Delete(ctx context.Context, id string) error

	// Sweep deletes the plans whose IDs are not live. A plan that is set during the
	// call stays. After an error the caller must sweep again; live is not called
	// after the return.
	Sweep(ctx context.Context, live func(id string) bool) error

	// Synced reports to the publisher that Set or Delete was called for every policy
	// since the term began, whatever they returned. Only then may the publisher
	// replace a registry that was lost: with only some of the plans known, it would
	// remove the others.
	Synced()

	// Rollout returns how far the plan of the ID has got, without any I/O. Reachable,
	// OwnedElsewhere and HasReplicas are the same for every ID, also for "".
	Rollout(id string) plan.Rollout

	// Changes receives a value, coalesced, after the Rollout of any ID may have
	// changed. Only the controller receives from it.
	Changes() <-chan struct{}
}
