// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// room is how many policies and limits of one Namespace still take part in a check. A policy counts
// once for each of its keys. A nil room is unbounded.
type room struct {
	policies, limits int
	total            *room // of all Namespaces; nil for the total itself
}

// has reports whether there is room for a policy with that number of limits.
func (r *room) has(limits int) bool {
	return r == nil || r.policies > 0 && r.limits >= limits && r.total.has(limits)
}

// take takes the room of a policy with that number of limits.
func (r *room) take(limits int) {
	if r != nil {
		r.policies, r.limits = r.policies-1, r.limits-limits
		r.total.take(limits)
	}
}

// fit reports whether the policies fit into a chain, whatever their Namespaces are.
func fit(found []applicable) bool {
	if len(found) > limiter.MaxNamespacePolicies {
		return false
	}
	limits := 0
	for i := range found {
		limits += len(found[i].plan.Limits)
	}
	return limits <= limiter.MaxNamespaceLimits
}

// addInTurn adds the policies that match, Namespace by Namespace in turn, as long as there is room:
// first those with a match that certainly holds, then those whose expressions failed; of these those
// with mode Enforce first. The others are left out.
func (ev *evaluation) addInTurn(check *limiter.Check) {
	total := &room{policies: limiter.MaxMatchedPolicies, limits: limiter.MaxMatchedLimits}
	queues := queuesOf(ev.found)
	rooms := make([]room, len(queues))
	for i := range rooms {
		rooms[i] = room{policies: limiter.MaxNamespacePolicies, limits: limiter.MaxNamespaceLimits, total: total}
	}
	for left := len(ev.found); left > 0; {
		for i, queue := range queues {
			if len(queue) == 0 {
				continue
			}
			ev.room = &rooms[i]
			next := queue[0]
			if !next.leftOut && (ev.room.has(len(next.plan.Limits)) || ev.hasParticipant(next.policy)) {
				ev.addPolicy(next, check)
			} else {
				ev.report.apply(next, nil, nil)
				ev.leaveOut(next, check)
			}
			queues[i] = queue[1:]
			left--
		}
	}
	ev.room = nil
	ev.restoreOrder()
}

// queuesOf divides the policies, which are in the order of their IDs, by Namespace. Each queue has the
// order in which policies are added.
func queuesOf(found []applicable) [][]applicable {
	var queues [][]applicable
	for len(found) > 0 {
		namespace := found[0].plan.Namespace
		n := slices.IndexFunc(found, func(c applicable) bool { return c.plan.Namespace != namespace })
		if n < 0 {
			n = len(found)
		}
		queue := slices.Clone(found[:n])
		slices.SortStableFunc(queue, func(a, b applicable) int {
			return cmp.Or(compareBools(a.failed, b.failed), compareBools(!a.enforces(), !b.enforces()))
		})
		queues = append(queues, queue)
		found = found[n:]
	}
	return queues
}

// compareBools compares two booleans; false is less.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (ev *evaluation) hasParticipant(p *policy) bool {
	return slices.ContainsFunc(ev.participants, func(pt participant) bool { return pt.policy == p })
}

// restoreOrder puts the policies in the order of the chain, which is the one of their IDs.
func (ev *evaluation) restoreOrder() {
	type place struct {
		participant
		entry script.Entry
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

// uncheckedPolicy is a policy that applies and whose limits were not evaluated, for a reason that
// does not concern the others. Its failureMode decides; Local is as Open.
type uncheckedPolicy struct {
	*policy
	cause       script.Cause
	descriptors descriptorSet
}

// denies reports whether the policy denies the check.
func (u *uncheckedPolicy) denies() bool { return u.enforces() && u.plan.FailureMode == plan.FailClosed }

// leaveOut lets the failureMode of the policy decide, because there is no room for it. If it applies
// because its expression failed, the check is denied: a client can make expressions fail, and could
// otherwise push policies out.
func (ev *evaluation) leaveOut(p applicable, check *limiter.Check) {
	if p.failed && p.enforces() {
		ev.addOutrightDenial(p, check, limiter.ReasonMissingKey, "")
		return
	}
	left := uncheckedPolicy{policy: p.policy, cause: script.CauseChain, descriptors: descriptorSetOf(p.descriptor)}
	ev.report.settle(limiter.ReasonTooManyPolicies, !left.denies())
	if !p.isCharged(check.HitsOf(p.descriptor)) {
		ev.addUnchecked(left)
		ev.call.Denied = ev.call.Denied || left.denies()
	}
}

// addUnchecked lets the failureMode of the policy decide.
func (ev *evaluation) addUnchecked(added uncheckedPolicy) {
	for i := range ev.unchecked {
		if u := &ev.unchecked[i]; u.policy == added.policy {
			u.descriptors |= added.descriptors
			return
		}
	}
	ev.unchecked = append(ev.unchecked, added)
}

// denyUnchecked denies the check if an unchecked policy does, and reports whether it did.
func (ev *evaluation) denyUnchecked(d *limiter.Decision) bool {
	for i := range ev.unchecked {
		if u := &ev.unchecked[i]; u.denies() {
			denyUnavailable(d, u.policy)
			return true
		}
	}
	return false
}

// markUnchecked marks an allowed decision that an unchecked policy could have denied.
func (ev *evaluation) markUnchecked(d *limiter.Decision) {
	if d.Allowed && slices.ContainsFunc(ev.unchecked, func(u uncheckedPolicy) bool { return u.enforces() }) {
		d.Reason, d.Degraded = limiter.ReasonStoreUnavailable, plan.FailOpen
	}
}
