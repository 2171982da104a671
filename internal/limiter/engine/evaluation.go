// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// evaluation is one check on its way to a decision: the policies that apply, the call to the store for those
// whose limits decide, and its reply.
type evaluation struct {
	operations
	search

	outrightDenials []outrightDenial
	unchecked       []uncheckedPolicy
	uncheckedPlaces map[*policy]int // in unchecked, until it is sorted
	exempt          []*policy       // policies whose override exempts the key
	givenKey        store.Key       // the key of the check, encoded; empty if it has none
	room            *room           // of the Namespace whose policy is being added; nil is unbounded
	sawDisabled     bool            // a policy with mode Disabled was named

	reservationID string // of a reserve
	withdraws     bool   // it has reserves that its caller cannot repeat: they end if the caller cancels

	charges    *operations      // spent whatever the limits admit; nil if none
	candidates []candidateCheck // one for each policy with candidates
	local      *operations      // of the policies with failureMode Local, if the store did not answer
}

// candidateCheck evaluates a check again, with the candidates of one policy and the limits in force of all
// others. It follows the check, and answers no caller.
type candidateCheck struct {
	*operations // the participants have the candidates

	comparisons []comparison // of the operations, in the same order
}

// comparison is one operation of a candidateCheck, and the verdicts that it is compared with.
type comparison struct {
	*candidate

	original int    // index of the operation of the check
	live     []bool // whether the limits with a candidate allow the check, in the order of replaced
}

// outrightDenial is a denial that needs no counter: by an override with action Deny, or
// for a missing key.
type outrightDenial struct {
	*policy
	reason      limiter.Reason
	override    string
	descriptors descriptorSet
}

var evaluations = sync.Pool{New: func() any { return &evaluation{} }}

func newEvaluation() *evaluation {
	ev := evaluations.Get().(*evaluation) //nolint:forcetypeassert // the pool holds only these
	ev.overQuota = -1
	return ev
}

// release returns the evaluation and its operations to the pools. What a store still uses is left to the
// garbage collector.
func (ev *evaluation) release() {
	if ev.local != nil {
		ev.local.release()
	}
	if ev.charges != nil {
		ev.charges.release()
	}
	if !ev.isFree() {
		return
	}
	ev.clear()
	clear(ev.matches)
	clear(ev.found)
	clear(ev.demands)
	clear(ev.outrightDenials)
	*ev = evaluation{
		operations: ev.operations, search: search{matches: ev.matches[:0], found: ev.found[:0], demands: ev.demands[:0]},
		outrightDenials: ev.outrightDenials[:0],
	}
	evaluations.Put(ev)
}

// decided returns the operations that decide the check.
func (ev *evaluation) decided() *operations { return cmp.Or(ev.local, &ev.operations) }

// addPolicies sets the participants of the check, and its other outcomes, from the policies that
// apply.
func (ev *evaluation) addPolicies(check *limiter.Check) {
	if check.Key != nil {
		ev.givenKey = store.EncodeKey(check.Key...)
	}
	if len(check.Policies) == 0 && !fit(ev.found) {
		ev.addInTurn(check)
		return
	}
	for _, p := range ev.found {
		if p.plan.Mode == plan.ModeDisabled {
			ev.sawDisabled = true
			ev.report.apply(p.policy, p.match, p.descriptor, nil, &selection{})
			ev.report.exclude(limiter.ReasonDisabled, true)
			continue
		}
		if p.leftOut != "" {
			ev.report.apply(p.policy, p.match, p.descriptor, nil, &selection{})
			ev.leaveOut(p, p.leftOut)
			continue
		}
		ev.addPolicy(p, check)
	}
}

// addInTurn adds the policies, one of each Namespace in turn, as long as there is room. It leaves out the
// others.
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
			if next.leftOut == "" && (ev.room.has(len(next.plan.Limits)) || ev.hasParticipant(next.policy)) {
				ev.addPolicy(next, check)
			} else {
				ev.report.apply(next.policy, next.match, next.descriptor, nil, &selection{})
				ev.leaveOut(next, cmp.Or(next.leftOut, store.CauseChain))
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

// addPolicy finds the key and its override and adds the policy to the participants, the outright denials
// or the exemptions.
//
//   - Overrides come before onMissingKey: an override can select a client without a key by its address.
//   - An ambiguous key is denied with any onMissingKey.
func (ev *evaluation) addPolicy(p applicable, check *limiter.Check) {
	descriptors := check.Attributes.DescriptorsOf(p.descriptor)
	var buffer [plan.MaxKeyParts]string
	key := ev.keyOf(p, check, descriptors, buffer[:0])
	groups := p.groupsOf(key.parts, ev.groups)
	selected := p.overrideOf(key.parts, &groups, &check.Attributes, descriptors)
	o := selected.override
	ev.failures = append(ev.failures, selected.failures...)
	ev.report.apply(p.policy, p.match, p.descriptor, key.parts, &selected)
	switch {
	case o != nil && o.action == plan.ActionAllow && selected.unjudged == 0:
		ev.addExempt(p.policy)
	case o != nil && o.action == plan.ActionDeny:
		ev.addOutrightDenial(p, limiter.ReasonDeniedByOverride, o.name)
	case key.missing && !key.ambiguous && p.plan.OnMissingKey == plan.MissingKeySkip:
		ev.report.exclude(limiter.ReasonMissingKey, true)
	case key.ambiguous || key.missing && p.plan.OnMissingKey == plan.MissingKeyDeny:
		ev.addOutrightDenial(p, limiter.ReasonMissingKey, "")
	default:
		ev.addLimited(p, &selected, key)
	}
}

// addLimited adds the policy with the limits that are in force for the key, unless an exception exempts it.
func (ev *evaluation) addLimited(p applicable, selected *selection, key derivedKey) {
	encoded := ev.givenKey
	if !key.given {
		encoded = store.EncodeKey(key.parts...)
	}
	x := p.exceptionFor(encoded, selected.override)
	ev.report.except(x)
	if x.exempts() {
		ev.addExempt(p.policy)
		return
	}
	ev.addLimits(p, selected, x.variantOf(p.plan, p.selectedVariant(selected)), encoded)
}

// keyOf returns the key of the check or, if it has none, the key that the policy derives,
// appended to buffer.
func (ev *evaluation) keyOf(
	p applicable, check *limiter.Check, descriptors []plan.Descriptor, buffer []string,
) derivedKey {
	if check.Key != nil {
		return derivedKey{parts: check.Key, given: true}
	}
	key, failures := p.deriveKey(buffer, &check.Attributes, descriptors)
	ev.failures = append(ev.failures, failures...)
	return key
}

// addLimits adds the policy to the participants, with the limits of the selected variant, in which a
// requested limit may replace one.
func (ev *evaluation) addLimits(p applicable, found *selection, selected *variant, encoded store.Key) {
	variant := selected
	if p.hits.Limit != nil {
		variant = ev.applyRequestedLimit(p.policy, variant, *p.hits.Limit)
	}
	added := participant{
		policy: p.policy, variant: variant, selected: selected, group: found.group, known: found.known,
		descriptors: descriptorSetOf(p.descriptor), action: p.hits.Action, peek: p.hits.Peek,
	}
	switch {
	case ev.mergeParticipant(&added, encoded, p.hits):
	case ev.room.has(len(variant.limits)):
		ev.room.take(len(variant.limits))
		ev.addParticipant(added, encoded, p.hits)
	default:
		ev.leaveOut(p, store.CauseChain)
	}
}

// applyRequestedLimit returns the selected variant with the requested limit in it, or the
// selected variant itself if it has no limit to replace.
func (ev *evaluation) applyRequestedLimit(p *policy, selected *variant, limit limiter.RequestedLimit) *variant {
	if found := p.requestedVariant(selected, limit); found != nil {
		return found
	}
	ev.ignoredLimits = append(ev.ignoredLimits, p)
	return selected
}

// A policy that matches several descriptors is applicable once for each. The functions below
// merge those with the same outcome, so that each counts once.

func (ev *evaluation) addExempt(p *policy) {
	ev.report.exclude(limiter.ReasonExempt, true)
	if !slices.Contains(ev.exempt, p) {
		ev.room.take(0)
		ev.exempt = append(ev.exempt, p)
	}
}

func (ev *evaluation) addOutrightDenial(p applicable, reason limiter.Reason, override string) {
	ev.report.exclude(reason, false)
	if p.neverDenies(p.hits) {
		return
	}
	descriptors := descriptorSetOf(p.descriptor)
	for i := range ev.outrightDenials {
		if o := &ev.outrightDenials[i]; o.policy == p.policy && o.reason == reason && o.override == override {
			o.descriptors |= descriptors
			return
		}
	}
	ev.room.take(0)
	ev.outrightDenials = append(ev.outrightDenials, outrightDenial{
		policy: p.policy, reason: reason, override: override, descriptors: descriptors,
	})
	ev.call.Denied = ev.call.Denied || p.enforces()
}

// mergeParticipant adds the hits to the entry of the same policy and key, and reports whether there is
// one. Where descriptors give one policy and key different limits, the limits of the first descriptor
// apply, with the largest hits.
func (ev *evaluation) mergeParticipant(added *participant, key store.Key, hits limiter.Hits) bool {
	inTurn := ev.room != nil // else the participants of one policy follow each other
	for i := len(ev.participants) - 1; i >= 0 && (inTurn || ev.participants[i].policy == added.policy); i-- {
		entry, earlier := &ev.call.Entries[i], &ev.participants[i]
		if earlier.policy != added.policy || entry.Key != key {
			continue
		}
		largest := hits.Merge(limiter.Hits{Cost: entry.Cost, Peek: entry.Peek, Action: earlier.action})
		entry.Cost, entry.Peek = largest.Cost, largest.Peek
		earlier.peek, earlier.action = largest.Peek, largest.Action
		earlier.descriptors |= added.descriptors
		ev.report.participate(i)
		return true
	}
	return false
}

// addParticipant adds an entry to the call.
func (ev *evaluation) addParticipant(added participant, key store.Key, hits limiter.Hits) {
	ev.report.participate(len(ev.participants))
	ev.add(added, store.Entry{Policy: added.stored, Key: key, Cost: hits.Cost, Peek: hits.Peek})
}

// leaveOut lets the failureMode of the policy decide, because there is no room for it or no time for its
// expressions. If it applies because its expression failed, the check is denied: a client can make
// expressions fail, and could otherwise push policies out.
func (ev *evaluation) leaveOut(p applicable, cause store.Cause) {
	if p.failed && p.enforces() {
		ev.addOutrightDenial(p, limiter.ReasonMissingKey, "")
		return
	}
	added := uncheckedPolicy{policy: p.policy, cause: cause, descriptors: descriptorSetOf(p.descriptor)}
	reason := limiter.ReasonTooManyPolicies
	if cause == store.CauseExpressions {
		reason = limiter.ReasonExpressionsOverBudget
	}
	ev.report.exclude(reason, !added.denies())
	if !p.neverDenies(p.hits) {
		ev.addUnchecked(added)
		ev.call.Denied = ev.call.Denied || added.denies()
	}
}

// addUnchecked lets the failureMode of the policy decide.
func (ev *evaluation) addUnchecked(added uncheckedPolicy) {
	if place, found := ev.uncheckedPlaces[added.policy]; found {
		ev.unchecked[place].descriptors |= added.descriptors
		return
	}
	if ev.uncheckedPlaces == nil {
		ev.uncheckedPlaces = map[*policy]int{}
	}
	ev.uncheckedPlaces[added.policy] = len(ev.unchecked)
	ev.unchecked = append(ev.unchecked, added)
}

// restoreOrder puts the policies in the order of the chain, which is the one of their IDs.
func (ev *evaluation) restoreOrder() {
	type place struct {
		participant
		entry store.Entry
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
	ev.report.reorder(places)
}
