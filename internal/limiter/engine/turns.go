// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/quota"
)

// addPolicies sets the participants of the check, and its other outcomes, from the policies that
// apply.
func (ev *evaluation) addPolicies(check *limiter.Check) {
	if check.Key != nil {
		ev.givenKey = quota.EncodeKey(check.Key...)
	}
	if len(check.Policies) == 0 && !fit(ev.found) {
		ev.addInTurn(check)
		return
	}
	for _, p := range ev.found {
		if p.plan.Mode == plan.ModeDisabled {
			ev.sawDisabled = true
			ev.report.apply(p.policy, p.match, p.descriptor, nil, nil)
			ev.report.exclude(limiter.ReasonDisabled, true)
			continue
		}
		if p.leftOut {
			ev.report.apply(p.policy, p.match, p.descriptor, nil, nil)
			ev.leaveOut(p)
			continue
		}
		ev.addPolicy(p, check)
	}
}

// addInTurn adds the policies that match, Namespace by Namespace in turn, as long as there is room:
// first those with a match that certainly holds, then those whose expressions failed; of these those
// with mode Enforce first. The others are left out.
func (ev *evaluation) addInTurn(check *limiter.Check) {
	total := &room{policies: plan.MaxMatchedPolicies, limits: plan.MaxMatchedLimits}
	queues := queuesOf(ev.found)
	rooms := make([]room, len(queues))
	for i := range rooms {
		rooms[i] = room{policies: plan.MaxNamespacePolicies, limits: plan.MaxNamespaceLimits, total: total}
	}
	for waiting := len(ev.found); waiting > 0; {
		for i, queue := range queues {
			if len(queue) == 0 {
				continue
			}
			ev.room = &rooms[i]
			next := queue[0]
			if !next.leftOut && (ev.room.has(len(next.plan.Limits)) || ev.hasParticipant(next.policy)) {
				ev.addPolicy(next, check)
			} else {
				ev.report.apply(next.policy, next.match, next.descriptor, nil, nil)
				ev.leaveOut(next)
			}
			queues[i] = queue[1:]
			waiting--
		}
	}
	ev.room = nil
	ev.restoreOrder()
}

func (ev *evaluation) hasParticipant(p *policy) bool {
	for i := range ev.participants {
		if ev.participants[i].policy == p {
			return true
		}
	}
	return false
}

// restoreOrder puts the policies in the order of the chain, which is the one of their IDs.
func (ev *evaluation) restoreOrder() {
	type place struct {
		participant
		entry quota.Entry
		was   int
	}
	sorted := make([]place, len(ev.participants))
	for i := range sorted {
		sorted[i] = place{participant: ev.participants[i], entry: ev.call.Entries[i], was: i}
	}
	slices.SortStableFunc(sorted, func(a, b place) int { return strings.Compare(a.id, b.id) })
	places := make([]int, len(sorted))
	for i := range sorted {
		ev.participants[i], ev.call.Entries[i], places[sorted[i].was] = sorted[i].participant, sorted[i].entry, i
	}
	slices.SortStableFunc(ev.outrightDenials, func(a, b outrightDenial) int { return strings.Compare(a.id, b.id) })
	slices.SortStableFunc(ev.unchecked, func(a, b uncheckedPolicy) int { return strings.Compare(a.id, b.id) })
	ev.report.restore(places)
}
