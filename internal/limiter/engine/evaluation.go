// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// evaluation is one check on its way to a decision: the policies that take part,
// the call that asks about them, and the reply.
type evaluation struct {
	call  script.Call
	reply *script.Reply // nil when Redis did not answer or was not asked

	participants    []participant       // of the entries of the call, in the same order
	outrightDenials []outrightDenial    // by policies that refuse whatever their limits say
	exempt          []*policy           // that let the caller pass by an override
	failures        []expressionFailure // of expressions
	ignoredRequests []*policy           // that had no place for a requested limit
	neverFits       int                 // the first entry that enforces what it can never fit, -1 if none
	givenKey        script.Key          // stands in for the policies' own keys, if any
	sawDisabled     bool                // a Disabled policy was asked
}

// asked is a policy that takes part, with the limits the caller has.
type participant struct {
	*policy
	*variant
	descriptors descriptorSet // it applies by
	peek        bool          // nobody asks it for units
}

// refusal is a policy's no that needs no counter.
type outrightDenial struct {
	*policy
	reason      limiter.Reason
	override    string
	descriptors descriptorSet
}

func newEvaluation(check *limiter.Check, policies []applicable, failures []expressionFailure) *evaluation {
	ev := &evaluation{failures: failures, neverFits: -1}
	if check.Key != nil {
		ev.givenKey = script.EncodeKey(check.Key...)
	}
	ev.call.Entries = make([]script.Entry, 0, len(policies))
	ev.participants = make([]participant, 0, len(policies))
	for _, p := range policies {
		if p.plan.Mode == plan.ModeDisabled {
			ev.sawDisabled = true
			continue
		}
		ev.addPolicy(p, check)
	}
	ev.markCostsThatNeverFit()
	return ev
}

// weigh finds costs that can never fit. They are not asked for, and if a policy
// enforces one, nothing is touched at all.
func (ev *evaluation) markCostsThatNeverFit() {
	for i, a := range ev.participants {
		if ev.call.Entries[i].Cost <= a.smallestQuota {
			continue
		}
		ev.call.Entries[i].Peek = true
		if a.enforces() && ev.neverFits < 0 {
			ev.neverFits = i
		}
	}
	if ev.neverFits >= 0 {
		for i := range ev.call.Entries {
			ev.call.Entries[i].Peek = true
		}
	}
}

// ask finds out what part the policy takes. Overrides come before a missing
// key: an override may select a caller by its address that has no key.
func (ev *evaluation) addPolicy(p applicable, check *limiter.Check) {
	var room [plan.MaxKeyParts]string
	descriptors := check.Attributes.DescriptorsOf(p.descriptor)
	key, missing := check.Key, false
	if check.Key == nil {
		var failures []expressionFailure
		key, missing, failures = p.deriveKey(room[:0], &check.Attributes, descriptors)
		ev.failures = append(ev.failures, failures...)
	}
	variant, applies := p.base, descriptorSetOf(p.descriptor)
	o, failures := p.overrideOf(key, &check.Attributes, descriptors)
	ev.failures = append(ev.failures, failures...)
	if o != nil {
		switch o.action {
		case plan.ActionAllow:
			ev.addExempt(p.policy)
			return
		case plan.ActionDeny:
			ev.denyOutright(outrightDenial{p.policy, limiter.ReasonDeniedByOverride, o.name, applies})
			return
		case plan.ActionLimit:
			variant = o.variant
		}
	}
	switch {
	case missing && p.plan.OnMissingKey == plan.MissingKeySkip:
		return
	case missing && p.plan.OnMissingKey == plan.MissingKeyDeny:
		ev.denyOutright(outrightDenial{p.policy, limiter.ReasonMissingKey, "", applies})
		return
	}
	charge, encoded := check.ChargeOf(p.descriptor), ev.givenKey
	if charge.Limit != nil {
		variant = ev.applyRequestedLimit(p.policy, variant, *charge.Limit)
	}
	if check.Key == nil {
		encoded = script.EncodeKey(key...)
	}
	ev.add(participant{p.policy, variant, applies, charge.Peek}, encoded, charge)
}

// request puts the requested limit in place of one of the base's, if it can.
func (ev *evaluation) applyRequestedLimit(p *policy, base *variant, limit limiter.RequestedLimit) *variant {
	if found := p.requested(base, limit); found != nil {
		return found
	}
	ev.ignoredRequests = append(ev.ignoredRequests, p)
	return base
}

// A policy that applies by several descriptors takes part once with each key:
// what follows is done once for each, however often it is asked for.

func (ev *evaluation) addExempt(p *policy) {
	if !slices.Contains(ev.exempt, p) {
		ev.exempt = append(ev.exempt, p)
	}
}

func (ev *evaluation) denyOutright(r outrightDenial) {
	for i := range ev.outrightDenials {
		if o := &ev.outrightDenials[i]; o.policy == r.policy && o.reason == r.reason && o.override == r.override {
			o.descriptors |= r.descriptors
			return
		}
	}
	ev.outrightDenials = append(ev.outrightDenials, r)
	ev.call.Refused = ev.call.Refused || r.enforces()
}

// add asks Redis about the key. If one key has different numbers by different
// descriptors, those of the first count.
func (ev *evaluation) add(a participant, key script.Key, charge limiter.Charge) {
	for i := len(ev.participants) - 1; i >= 0 && ev.participants[i].policy == a.policy; i-- {
		if e := &ev.call.Entries[i]; e.Key == key {
			ev.participants[i].descriptors |= a.descriptors
			largest := charge.Larger(limiter.Charge{Cost: e.Cost, Peek: e.Peek})
			e.Cost, e.Peek, ev.participants[i].peek = largest.Cost, largest.Peek, largest.Peek
			return
		}
	}
	ev.participants = append(ev.participants, a)
	ev.call.Entries = append(ev.call.Entries, script.Entry{Policy: a.script, Key: key, Cost: charge.Cost, Peek: charge.Peek})
}
