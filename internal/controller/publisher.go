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
// Set and Delete wait for one attempt to write, not for the registry to recover, and
// return its error. Once an attempt could not reach the registry, they fail at once until
// the publisher has reached it again. The publisher remembers them and retries; Changes
// and Rollout report when the registry holds the result. While a lost registry waits for
// MarkSynced, they return nil.
//
// A call whose context has ended before has no effect. So nothing that one term asks for
// is done in the next.
type Publisher interface {
	// Set makes r the desired record of its ID and returns when the registry holds it.
	// Setting the record that the registry already holds costs nothing. It returns
	// plan.ErrOlderGeneration, and has no effect, if a higher generation of the same
	// object was set before. A record without room in its budget waits for it: Set
	// returns nil, and Rollout reports why. See Wanted.
	Set(ctx context.Context, r plan.Record, o plan.SetOptions) error

	// Wanted returns the IDs of records that had no room and have some now, each once. The
	// publisher has forgotten them: they must be set again. Changes announces them.
	Wanted() []string

	// Delete removes the record of the ID and returns when it is no longer in the registry.
	// Deleting an ID without a record succeeds.
	Delete(ctx context.Context, id string) error

	// Sweep deletes the records that were not set in this term and whose IDs are not live.
	// A record that is set during the call stays. live may take long; if it fails, no record
	// is deleted. After an error the caller must sweep again; live is not called after
	// the return.
	Sweep(ctx context.Context, live func(ctx context.Context, id string) (bool, error)) error

	// MarkSynced reports that every object was processed in this term: set, deleted, or
	// left unchanged because it does not compile. Failed calls count, because the publisher
	// remembers them. Only then may the publisher replace a lost registry: with only some
	// of the records it would remove the others.
	MarkSynced(ctx context.Context)

	// Rollout returns how far the record of the ID has got, without any I/O. Reachable,
	// OwnedElsewhere and HasReplicas are the same for every ID, also for "".
	Rollout(id string) plan.Rollout

	// Changes receives a value, coalesced, after the Rollout of any ID may have
	// changed. Only the controller receives from it.
	Changes() <-chan struct{}
}
