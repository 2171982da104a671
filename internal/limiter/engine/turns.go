// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// addInTurn adds the policies, one of each Namespace in turn, as long as there is room. It leaves out the
// others.
func (ev *evaluation) addInTurn(matched []matchedPolicy) {
	total := &capacity{policies: plan.MaxMatchedPolicies, limits: plan.MaxMatchedLimits}
	queues := queuesOf(matched)
	capacities := make([]capacity, len(queues))
	for i := range capacities {
		capacities[i] = capacity{policies: plan.MaxNamespacePolicies, limits: plan.MaxNamespaceLimits, total: total}
	}
	for waiting := len(matched); waiting > 0; {
		for i, queue := range queues {
			if len(queue) == 0 {
				continue
			}
			ev.capacity = &capacities[i]
			next := &queue[0]
			if next.leftOut == "" && !ev.capacity.has(len(next.plan.Limits)) && !ev.hasCharged(next.policy) {
				next.leftOut = store.CauseChain
			}
			ev.addPolicy(next)
			queues[i] = queue[1:]
			waiting--
		}
	}
	ev.capacity = nil
	ev.restoreOrder()
}

func (ev *evaluation) hasCharged(p *policy) bool {
	for i := range ev.charged {
		if ev.charged[i].policy == p {
			return true
		}
	}
	return false
}

// restoreOrder puts the policies in the order of the chain, which is the one of their IDs.
func (ev *evaluation) restoreOrder() {
	type place struct {
		chargedPolicy
		entry store.Entry
		was   int
	}
	sorted := make([]place, len(ev.charged))
	for i := range sorted {
		sorted[i] = place{chargedPolicy: ev.charged[i], entry: ev.call.Entries[i], was: i}
	}
	slices.SortStableFunc(sorted, func(a, b place) int { return strings.Compare(a.id, b.id) })
	places := make([]int, len(sorted))
	for i := range sorted {
		ev.charged[i], ev.call.Entries[i], places[sorted[i].was] = sorted[i].chargedPolicy, sorted[i].entry, i
	}
	slices.SortStableFunc(ev.outrightDenials, func(a, b outrightDenial) int { return strings.Compare(a.id, b.id) })
	slices.SortStableFunc(ev.unchecked, func(a, b uncheckedPolicy) int { return strings.Compare(a.id, b.id) })
	ev.report.reorder(places)
}
