// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"sync"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/quota"
)

// evaluation is one check on its way to a decision: the policies that take part, the
// call to the store, and its reply.
type evaluation struct {
	call  quota.Call
	reply *quota.Reply // nil if the store was not called or did not answer
	err   error        // of the store, in place of its reply

	search

	participants    []participant // participants[i] belongs to call.Entries[i]
	outrightDenials []outrightDenial
	unchecked       []uncheckedPolicy
	uncheckedPlaces map[*policy]int // in unchecked, until it is sorted
	exempt          []*policy       // policies whose override exempts the key
	ignoredLimits   []*policy       // policies that ignore a requested limit, having none it could replace
	overQuota       int             // index of the first enforcing participant whose quota the cost exceeds, or -1
	givenKey        quota.Key       // the key of the check, encoded; empty if it has none
	room            *room           // for the policies of the Namespace that are added now; nil is unbounded
	sawDisabled     bool            // a policy with mode Disabled was named

	reserve       *limiter.Reserve // the request for a reservation; nil for others
	reservationID string
	isOpen        bool        // a reservation with the ID was open, which denies the check of Envoy
	charged       *evaluation // what the check of Envoy spends whatever the limits admit; nil if nothing

	candidates []candidateCheck // of the policies that have some

	local    *evaluation      // of the policies with failureMode Local, if the store did not answer
	degraded plan.FailureMode // of a local evaluation
	replicas int64            // of a local evaluation, which has the share of one of them
}

// participant is a policy that takes part in a decision, with the variant for the key.
type participant struct {
	*policy
	*variant
	selected    *variant      // the variant without a requested limit
	descriptors descriptorSet // the descriptors because of which it applies
	action      limiter.HitsAction
	peek        bool // the check spends nothing from it
}

// candidateCheck is a check as one policy would decide it with its candidates, beside the limits in
// force of the other policies. It is evaluated after the check, and answers no caller.
type candidateCheck struct {
	*evaluation // its participants have the candidates

	standIns []standIn // of the participants, in the same order
}

// standIn is what a participant with candidates stands in for.
type standIn struct {
	*candidate

	original int    // index of the participant of the check
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

// release returns the evaluation to the pool. It must not be called while the call may still be
// in flight.
func (ev *evaluation) release() {
	clear(ev.matches)
	clear(ev.found)
	clear(ev.demands)
	clear(ev.participants)
	clear(ev.outrightDenials)
	ev.call.Clear()
	*ev = evaluation{
		call: ev.call, search: search{matches: ev.matches[:0], found: ev.found[:0], demands: ev.demands[:0]},
		participants: ev.participants[:0], outrightDenials: ev.outrightDenials[:0],
	}
	evaluations.Put(ev)
}

// releaseAll returns the evaluation to the pool, unless its call may still be in flight because
// the store did not answer. The local evaluation is complete in any case.
func (ev *evaluation) releaseAll() {
	if ev.local != nil {
		ev.local.release()
	}
	if ev.charged != nil {
		ev.charged.releaseAll()
	}
	if ev.err == nil && (ev.reply == nil || !ev.reply.Unanswered) {
		ev.release()
	}
}

// isKnown reports whether there is a reply for the i-th participant.
func (ev *evaluation) isKnown(i int) bool { return ev.reply != nil && !ev.reply.Entries[i].Unknown }

// addPolicy finds the key and its override and adds the policy to the
// participants, the outright denials or the exemptions. Overrides come before
// onMissingKey: an override can select a client without a key by its address. An ambiguous key
// is denied with any onMissingKey.
func (ev *evaluation) addPolicy(p applicable, check *limiter.Check) {
	descriptors := check.Attributes.DescriptorsOf(p.descriptor)
	var buffer [plan.MaxKeyParts]string
	key := ev.keyOf(p, check, descriptors, buffer[:0])
	selected := p.overrideOf(key.parts, &check.Attributes, descriptors)
	o := selected.override
	ev.failures = append(ev.failures, selected.failures...)
	ev.report.apply(p.policy, p.match, p.descriptor, key.parts, o)
	switch {
	case o != nil && o.action == plan.ActionAllow && selected.unjudged == 0:
		ev.addExempt(p.policy)
	case o != nil && o.action == plan.ActionDeny:
		ev.addOutrightDenial(p, check, limiter.ReasonDeniedByOverride, o.name)
	case key.missing && !key.ambiguous && p.plan.OnMissingKey == plan.MissingKeySkip:
		ev.report.settle(limiter.ReasonMissingKey, true)
	case key.ambiguous || key.missing && p.plan.OnMissingKey == plan.MissingKeyDeny:
		ev.addOutrightDenial(p, check, limiter.ReasonMissingKey, "")
	default:
		ev.addLimits(p, p.variantFor(&selected), key.parts, check)
	}
}

// addLimits adds the policy to the participants, with the limits of the selected variant or those
// that the check requests.
func (ev *evaluation) addLimits(p applicable, selected *variant, key []string, check *limiter.Check) {
	variant := selected
	hits := check.HitsOf(p.descriptor)
	if hits.Limit != nil {
		variant = ev.applyRequestedLimit(p.policy, variant, *hits.Limit)
	}
	encoded := ev.givenKey
	if check.Key == nil {
		encoded = quota.EncodeKey(key...)
	}
	added := participant{
		policy: p.policy, variant: variant, selected: selected,
		descriptors: descriptorSetOf(p.descriptor), action: hits.Action, peek: hits.Peek,
	}
	switch {
	case ev.mergeParticipant(&added, encoded, hits):
	case ev.room.has(len(variant.limits)):
		ev.room.take(len(variant.limits))
		ev.addParticipant(added, encoded, hits)
	default:
		ev.leaveOut(p, check)
	}
}

// keyOf returns the key of the check or, if it has none, the key that the policy derives,
// appended to buffer.
func (ev *evaluation) keyOf(
	p applicable, check *limiter.Check, descriptors []plan.Descriptor, buffer []string,
) derivedKey {
	if check.Key != nil {
		return derivedKey{parts: check.Key}
	}
	key, failures := p.deriveKey(buffer, &check.Attributes, descriptors)
	ev.failures = append(ev.failures, failures...)
	return key
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
	ev.report.settle(limiter.ReasonExempt, true)
	if !slices.Contains(ev.exempt, p) {
		ev.room.take(0)
		ev.exempt = append(ev.exempt, p)
	}
}

func (ev *evaluation) addOutrightDenial(p applicable, check *limiter.Check, reason limiter.Reason, override string) {
	ev.report.settle(reason, false)
	if p.isCharged(check.HitsOf(p.descriptor)) {
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
// one. Where descriptors give one policy and key different limits, those of the first descriptor
// apply, with the largest hits.
func (ev *evaluation) mergeParticipant(added *participant, key quota.Key, hits limiter.Hits) bool {
	for i := len(ev.participants) - 1; i >= 0 && (ev.room != nil || ev.participants[i].policy == added.policy); i-- {
		entry, same := &ev.call.Entries[i], &ev.participants[i]
		if same.policy != added.policy || entry.Key != key {
			continue
		}
		largest := hits.Merge(limiter.Hits{Cost: entry.Cost, Peek: entry.Peek, Action: same.action})
		entry.Cost, entry.Peek = largest.Cost, largest.Peek
		same.peek, same.action = largest.Peek, largest.Action
		same.descriptors |= added.descriptors
		ev.report.participate(i)
		return true
	}
	return false
}

// addParticipant adds an entry to the call.
func (ev *evaluation) addParticipant(added participant, key quota.Key, hits limiter.Hits) {
	ev.report.participate(len(ev.participants))
	ev.participants = append(ev.participants, added)
	ev.call.Entries = append(ev.call.Entries, quota.Entry{
		Policy: added.script, Key: key, Cost: hits.Cost, Peek: hits.Peek,
	})
}

// leaveOut lets the failureMode of the policy decide, because there is no room for it. If it applies
// because its expression failed, the check is denied: a client can make expressions fail, and could
// otherwise push policies out.
func (ev *evaluation) leaveOut(p applicable, check *limiter.Check) {
	if p.failed && p.enforces() {
		ev.addOutrightDenial(p, check, limiter.ReasonMissingKey, "")
		return
	}
	left := uncheckedPolicy{policy: p.policy, cause: quota.CauseChain, descriptors: descriptorSetOf(p.descriptor)}
	ev.report.settle(limiter.ReasonTooManyPolicies, !left.denies())
	if !p.isCharged(check.HitsOf(p.descriptor)) {
		ev.addUnchecked(left)
		ev.call.Denied = ev.call.Denied || left.denies()
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

// applySubstitutes sets the variants that decided in place of those of the call.
func (ev *evaluation) applySubstitutes() {
	for i := range ev.reply.Entries {
		pt, r := &ev.participants[i], &ev.reply.Entries[i]
		switch {
		case r.Overflow:
			pt.variant = pt.base.shareOf(ev.replicas)
		case r.RequestIgnored:
			pt.variant = pt.selected
			ev.ignoredLimits = append(ev.ignoredLimits, pt.policy)
		}
	}
}

// markOverQuota turns entries whose cost exceeds a quota into peeks. If one of
// them enforces, the check is denied, so all entries become peeks. A peek holds nothing.
func (ev *evaluation) markOverQuota() {
	for i, pt := range ev.participants {
		if ev.call.Entries[i].Cost <= pt.smallestQuota {
			continue
		}
		ev.call.Entries[i].Peek, ev.call.Entries[i].Action = true, quota.Check
		if pt.enforces() && ev.overQuota < 0 {
			ev.overQuota = i
		}
	}
	if ev.overQuota >= 0 {
		for i := range ev.call.Entries {
			ev.call.Entries[i].Peek, ev.call.Entries[i].Action = true, quota.Check
		}
	}
}

// closed returns the first enforcing policy with failureMode Closed, or nil.
func (ev *evaluation) closed() *policy {
	for _, pt := range ev.participants {
		if pt.enforces() && pt.plan.FailureMode == plan.FailClosed {
			return pt.policy
		}
	}
	return nil
}
