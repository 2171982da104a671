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

	asked      []asked    // of the entries of the call, in the same order
	refusals   []refusal  // by policies that refuse whatever their limits say
	exempt     []*policy  // that let the caller pass by an override
	failures   []failure  // of expressions
	ignored    []*policy  // that had no place for a requested limit
	impossible int        // the first entry that enforces what it can never fit, -1 if none
	given      script.Key // stands in for the policies' own keys, if any
	disabled   bool       // a Disabled policy was asked
}

// asked is a policy that takes part, with the limits the caller has.
type asked struct {
	*policy
	*variant
	descriptors descriptors // it applies by
	peek        bool        // nobody asks it for units
}

// refusal is a policy's no that needs no counter.
type refusal struct {
	*policy
	reason      limiter.Reason
	override    string
	descriptors descriptors
}

func newEvaluation(check *limiter.Check, policies []applied, failures []failure) *evaluation {
	v := &evaluation{failures: failures, impossible: -1}
	if check.Key != nil {
		v.given = script.EncodeKey(check.Key...)
	}
	v.call.Entries = make([]script.Entry, 0, len(policies))
	v.asked = make([]asked, 0, len(policies))
	for _, p := range policies {
		if p.plan.Mode == plan.ModeDisabled {
			v.disabled = true
			continue
		}
		v.ask(p, check)
	}
	v.weigh()
	return v
}

// weigh finds costs that can never fit. They are not asked for, and if a policy
// enforces one, nothing is touched at all.
func (v *evaluation) weigh() {
	for i, a := range v.asked {
		if v.call.Entries[i].Cost <= a.smallestQuota {
			continue
		}
		v.call.Entries[i].Peek = true
		if a.enforces() && v.impossible < 0 {
			v.impossible = i
		}
	}
	if v.impossible >= 0 {
		for i := range v.call.Entries {
			v.call.Entries[i].Peek = true
		}
	}
}

// ask finds out what part the policy takes. Overrides come before a missing
// key: an override may select a caller by its address that has no key.
func (v *evaluation) ask(p applied, check *limiter.Check) {
	var room [plan.MaxKeyParts]string
	descriptors := check.Attributes.DescriptorsOf(p.descriptor)
	key, missing := check.Key, false
	if check.Key == nil {
		var failures []failure
		key, missing, failures = p.deriveKey(room[:0], &check.Attributes, descriptors)
		v.failures = append(v.failures, failures...)
	}
	variant, applies := p.base, only(p.descriptor)
	o, failures := p.overrideOf(key, &check.Attributes, descriptors)
	v.failures = append(v.failures, failures...)
	if o != nil {
		switch o.action {
		case plan.ActionAllow:
			v.letPass(p.policy)
			return
		case plan.ActionDeny:
			v.refuseOutright(refusal{p.policy, limiter.ReasonDeniedByOverride, o.name, applies})
			return
		case plan.ActionLimit:
			variant = o.variant
		}
	}
	switch {
	case missing && p.plan.OnMissingKey == plan.MissingKeySkip:
		return
	case missing && p.plan.OnMissingKey == plan.MissingKeyDeny:
		v.refuseOutright(refusal{p.policy, limiter.ReasonMissingKey, "", applies})
		return
	}
	charge, encoded := check.ChargeOf(p.descriptor), v.given
	if charge.Limit != nil {
		variant = v.request(p.policy, variant, *charge.Limit)
	}
	if check.Key == nil {
		encoded = script.EncodeKey(key...)
	}
	v.add(asked{p.policy, variant, applies, charge.Peek}, encoded, charge)
}

// request puts the requested limit in place of one of the base's, if it can.
func (v *evaluation) request(p *policy, base *variant, limit limiter.RequestedLimit) *variant {
	if found := p.requested(base, limit); found != nil {
		return found
	}
	v.ignored = append(v.ignored, p)
	return base
}

// A policy that applies by several descriptors takes part once with each key:
// what follows is done once for each, however often it is asked for.

func (v *evaluation) letPass(p *policy) {
	if !slices.Contains(v.exempt, p) {
		v.exempt = append(v.exempt, p)
	}
}

func (v *evaluation) refuseOutright(r refusal) {
	for i := range v.refusals {
		if o := &v.refusals[i]; o.policy == r.policy && o.reason == r.reason && o.override == r.override {
			o.descriptors |= r.descriptors
			return
		}
	}
	v.refusals = append(v.refusals, r)
	v.call.Refused = v.call.Refused || r.enforces()
}

// add asks Redis about the key. If one key has different numbers by different
// descriptors, those of the first count.
func (v *evaluation) add(a asked, key script.Key, charge limiter.Charge) {
	for i := len(v.asked) - 1; i >= 0 && v.asked[i].policy == a.policy; i-- {
		if e := &v.call.Entries[i]; e.Key == key {
			v.asked[i].descriptors |= a.descriptors
			largest := charge.Or(limiter.Charge{Cost: e.Cost, Peek: e.Peek})
			e.Cost, e.Peek, v.asked[i].peek = largest.Cost, largest.Peek, largest.Peek
			return
		}
	}
	v.asked = append(v.asked, a)
	v.call.Entries = append(v.call.Entries, script.Entry{Policy: a.script, Key: key, Cost: charge.Cost, Peek: charge.Peek})
}
