// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// decideLocally lets the policies with failureMode Local decide, after the store did not answer.
func (e *Engine) decideLocally(ctx context.Context, ev *evaluation) {
	if ev.needsLocal() {
		ev.local = ev.localOperations(int64(e.options.Replicas()))
		ev.local.run(ctx, e.options.Local.Evaluate)
	}
}

// needsLocal reports whether a check that the store did not answer is decided by the limits of
// policies with failureMode Local: unless it is denied already, or by a policy with Closed.
func (ev *evaluation) needsLocal() bool {
	if ev.call.Denied || ev.overQuota >= 0 || ev.firstClosed() != nil {
		return false
	}
	return slices.ContainsFunc(ev.charged, func(cp chargedPolicy) bool { return cp.plan.FailureMode == plan.FailLocal })
}

// localOperations returns the operations of the policies with failureMode Local, each with the share of
// one of the replicas, for the store of this process. The call of ev may still be in flight.
func (ev *evaluation) localOperations(replicas int64) *operations {
	local := newOperations()
	local.replicas, local.call.Draw = replicas, ev.call.Draw
	for _, op := range ev.all() {
		if op.plan.FailureMode != plan.FailLocal {
			continue
		}
		cp, entry := *op.chargedPolicy, *op.entry
		cp.selected, cp.variant = cp.selected.perReplica(replicas), cp.perReplica(replicas)
		entry.Policy, entry.OnlyKnown = cp.stored, false
		entry.Action = store.Check // a reserve spends its estimate here, and is committed as a charge
		local.add(cp, entry)
	}
	local.markOverQuota()
	return local
}
