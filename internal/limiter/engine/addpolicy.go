// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// addPolicy adds the policy to the charged policies, the outright denials, the exemptions or the unchecked policies.
func (ev *evaluation) addPolicy(p *matchedPolicy) {
	switch {
	case p.plan.Mode == plan.ModeDisabled:
		ev.sawDisabled = true
		ev.report.apply(p.policy, p.match, p.descriptor, nil, &selection{})
		ev.report.exclude(limiter.ReasonDisabled, true)
	case p.leftOut != "":
		ev.report.apply(p.policy, p.match, p.descriptor, nil, &selection{})
		ev.leaveOut(p, p.leftOut)
	default:
		ev.addByKey(p)
	}
}

// addByKey finds the key and its override, and adds the policy.
//
//   - Overrides come before onMissingKey: an override can select a client without a key by its address.
//   - An ambiguous key is denied with any onMissingKey.
func (ev *evaluation) addByKey(p *matchedPolicy) {
	descriptors := ev.check.Attributes.DescriptorsOf(p.descriptor)
	var buffer [plan.MaxKeyParts]string
	key := ev.keyOf(p, descriptors, buffer[:0])
	groups := p.groupsOf(key.parts, ev.prepared.groups)
	selected := p.overrideOf(key.parts, &groups, &ev.check.Attributes, descriptors)
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
func (ev *evaluation) addLimited(p *matchedPolicy, selected *selection, key derivedKey) {
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
func (ev *evaluation) keyOf(p *matchedPolicy, descriptors []plan.Descriptor, buffer []string) derivedKey {
	if ev.check.Key != nil {
		return derivedKey{parts: ev.check.Key, given: true}
	}
	key, failures := p.deriveKey(buffer, &ev.check.Attributes, descriptors)
	ev.failures = append(ev.failures, failures...)
	return key
}

// addLimits adds the policy to the charged policies, with the limits of the selected variant, in which a
// requested limit may replace one.
func (ev *evaluation) addLimits(p *matchedPolicy, found *selection, selected *variant, encoded store.Key) {
	variant := selected
	if p.hits.Limit != nil {
		variant = ev.applyRequestedLimit(p.policy, variant, *p.hits.Limit)
	}
	added := chargedPolicy{
		policy: p.policy, variant: variant, selected: selected, group: found.group, known: found.known,
		descriptors: descriptorSetOf(p.descriptor), action: p.hits.Action, peek: p.hits.Peek,
	}
	switch {
	case ev.mergeCharged(&added, encoded, p.hits):
	case ev.capacity.has(len(variant.limits)):
		ev.capacity.take(len(variant.limits))
		ev.addCharged(added, encoded, p.hits)
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

// A policy that matches several descriptors is matched once for each. The functions below
// merge those with the same outcome, so that each counts once.

func (ev *evaluation) addExempt(p *policy) {
	ev.report.exclude(limiter.ReasonExempt, true)
	if !slices.Contains(ev.exempt, p) {
		ev.capacity.take(0)
		ev.exempt = append(ev.exempt, p)
	}
}

func (ev *evaluation) addOutrightDenial(p *matchedPolicy, reason limiter.Reason, override string) {
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
	ev.capacity.take(0)
	ev.outrightDenials = append(ev.outrightDenials, outrightDenial{
		policy: p.policy, reason: reason, override: override, descriptors: descriptors,
	})
	ev.call.Denied = ev.call.Denied || p.enforces()
}

// mergeCharged adds the hits to the entry of the same policy and key, and reports whether there is
// one. Where descriptors give one policy and key different limits, the limits of the first descriptor
// apply, with the largest hits.
func (ev *evaluation) mergeCharged(added *chargedPolicy, key store.Key, hits limiter.Hits) bool {
	inTurn := ev.capacity != nil // else the charged policies of one policy follow each other
	for i := len(ev.charged) - 1; i >= 0 && (inTurn || ev.charged[i].policy == added.policy); i-- {
		entry, earlier := &ev.call.Entries[i], &ev.charged[i]
		if earlier.policy != added.policy || entry.Key != key {
			continue
		}
		largest := hits.Merge(limiter.Hits{Cost: entry.Cost, Peek: entry.Peek, Action: earlier.action})
		entry.Cost, entry.Peek = largest.Cost, largest.Peek
		earlier.peek, earlier.action = largest.Peek, largest.Action
		earlier.descriptors |= added.descriptors
		ev.report.charge(i)
		return true
	}
	return false
}

// addCharged adds an entry to the call.
func (ev *evaluation) addCharged(added chargedPolicy, key store.Key, hits limiter.Hits) {
	ev.report.charge(len(ev.charged))
	ev.add(added, store.Entry{Policy: added.stored, Key: key, Cost: hits.Cost, Peek: hits.Peek})
}

// leaveOut lets the failureMode of the policy decide, because there is no room for it or no time for its
// expressions. If it applies because its expression failed, the check is denied: a client can make
// expressions fail, and could otherwise push policies out.
func (ev *evaluation) leaveOut(p *matchedPolicy, cause store.Cause) {
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
