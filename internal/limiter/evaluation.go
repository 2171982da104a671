// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"slices"

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
	impossible *asked     // enforces a limit the cost can never fit
	given      script.Key // stands in for the policies' own keys, if any
	disabled   bool       // a Disabled policy was asked
}

// asked is a policy that takes part, with the limits the caller has.
type asked struct {
	*policy
	*variant
}

// refusal is a policy's no that needs no counter.
type refusal struct {
	*policy
	reason   Reason
	override string
}

func newEvaluation(check *Check, policies []applied, failures []failure) *evaluation {
	v := &evaluation{failures: failures}
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
	if v.impossible != nil { // a cost that can never fit touches nothing
		for i := range v.call.Entries {
			v.call.Entries[i].Peek = true
		}
	}
	return v
}

// ask finds out what part the policy takes. Overrides come before a missing
// key: an override may select a caller by its address that has no key.
func (v *evaluation) ask(p applied, check *Check) {
	var room [plan.MaxKeyParts]string
	descriptors := check.Attributes.DescriptorsOf(p.descriptor)
	key, missing := check.Key, false
	if check.Key == nil {
		var failures []failure
		key, missing, failures = p.deriveKey(room[:0], &check.Attributes, descriptors)
		v.failures = append(v.failures, failures...)
	}
	variant := p.base
	o, failures := p.overrideOf(key, &check.Attributes, descriptors)
	v.failures = append(v.failures, failures...)
	if o != nil {
		switch o.action {
		case plan.ActionAllow:
			v.letPass(p.policy)
			return
		case plan.ActionDeny:
			v.refuseOutright(refusal{p.policy, ReasonDeniedByOverride, o.name})
			return
		case plan.ActionLimit:
			variant = o.variant
		}
	}
	switch {
	case missing && p.plan.OnMissingKey == plan.MissingKeySkip:
	case missing && p.plan.OnMissingKey == plan.MissingKeyDeny:
		v.refuseOutright(refusal{policy: p.policy, reason: ReasonMissingKey})
	case check.Key == nil:
		v.add(asked{p.policy, variant}, script.EncodeKey(key...), check)
	default:
		v.add(asked{p.policy, variant}, v.given, check)
	}
}

// A policy that applies by several descriptors takes part once with each key:
// what follows is done once for each, however often it is asked for.

func (v *evaluation) letPass(p *policy) {
	if !slices.Contains(v.exempt, p) {
		v.exempt = append(v.exempt, p)
	}
}

func (v *evaluation) refuseOutright(r refusal) {
	if !slices.Contains(v.refusals, r) {
		v.refusals = append(v.refusals, r)
		v.call.Refused = v.call.Refused || r.enforces()
	}
}

// add asks Redis about the key. If overrides give one key different numbers by
// different descriptors, those of the first count.
func (v *evaluation) add(a asked, key script.Key, check *Check) {
	for i := len(v.asked) - 1; i >= 0 && v.asked[i].policy == a.policy; i-- {
		if v.call.Entries[i].Key == key {
			return
		}
	}
	v.asked = append(v.asked, a)
	entry := script.Entry{Policy: a.script, Key: key, Cost: check.Cost, Peek: check.Peek}
	if check.Cost > a.smallestQuota {
		entry.Peek = true
		if a.enforces() && v.impossible == nil {
			v.impossible = &v.asked[len(v.asked)-1]
		}
	}
	v.call.Entries = append(v.call.Entries, entry)
}

func (p *policy) enforces() bool { return p.plan.Mode == plan.ModeEnforce }

// count writes the metrics of the decision, once per policy and key.
func (v *evaluation) count(m *metrics, d *Decision, err error) {
	for _, p := range v.exempt {
		p.metrics.exempt().Inc()
	}
	for _, r := range v.refusals {
		r.metrics.decided(r.policy, false, "")
	}
	for _, f := range v.failures {
		f.metrics.failed(f.field)
	}
	for i, a := range v.asked {
		switch {
		case v.reply != nil:
			a.count(&v.reply.Entries[i])
		case d.Degraded == "": // refused for a reason that needs no Redis
			if a.id == d.Policy {
				a.metrics.decided(a.policy, false, d.Limit)
			}
		case err != nil:
			a.metrics.decided(a.policy, a.plan.FailureMode == plan.FailOpen, "")
			m.degraded.WithLabelValues(a.id, string(a.plan.FailureMode), string(causeOf(err))).Inc()
		}
	}
}

func (a asked) count(r *script.EntryReply) {
	if r.Verdict == script.Admitted {
		a.metrics.decided(a.policy, true, "")
		return
	}
	_, limit := a.refusal(r)
	a.metrics.decided(a.policy, false, limit)
	if r.Verdict == script.Tripped {
		a.metrics.blocked(r.BlockedBy)
	}
}
