// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// needsLocal reports whether a check that the store did not answer is decided by the limits of
// policies with failureMode Local: unless it is denied already, or by a policy with Closed.
func (ev *evaluation) needsLocal() bool {
	if ev.call.Denied || ev.overQuota >= 0 || ev.firstClosed() != nil {
		return false
	}
	return slices.ContainsFunc(ev.participants, func(pt participant) bool { return pt.plan.FailureMode == plan.FailLocal })
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
		pt, entry := *op.participant, *op.entry
		pt.selected, pt.variant = pt.selected.shareOf(replicas), pt.shareOf(replicas)
		entry.Policy, entry.OnlyKnown = pt.stored, false
		entry.Action = store.Check // a reserve spends its estimate here, and is committed as a charge
		local.add(pt, entry)
	}
	local.markOverQuota()
	return local
}

// outcome returns the operation that decided for the i-th participant, and whether the store did. If this process
// did, the operation is the local one for the same policy and key; if neither did, it has no reply.
func (ev *evaluation) outcome(i int) (op operation, inStore bool) {
	op = ev.at(i)
	if op.reply != nil || ev.local == nil || op.plan.FailureMode != plan.FailLocal {
		return op, op.reply != nil
	}
	at := 0
	for _, pt := range ev.participants[:i] {
		if pt.plan.FailureMode == plan.FailLocal {
			at++
		}
	}
	return ev.local.at(at), false
}
