// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// evaluation is one check on its way to a decision: the policies that take part,
// the call that asks about them, and the reply.
type evaluation struct {
	call  script.Call
	reply *script.Reply // nil when Redis did not answer or was not asked

	policies   []*policy // of the entries of the call, in the same order
	missingKey []*policy // refuse because a key part is missing
	impossible *policy   // enforces a limit the cost can never fit
	disabled   bool      // a Disabled policy was asked
}

func newEvaluation(check *Check, policies []*policy) *evaluation {
	v := &evaluation{}
	var given script.Key
	if check.Key != nil {
		given = script.EncodeKey(check.Key...)
	}
	v.call.Entries = make([]script.Entry, 0, len(policies))
	for _, p := range policies {
		if p.plan.Mode == plan.ModeDisabled {
			v.disabled = true
			continue
		}
		key := given
		if check.Key == nil {
			derived, missing := deriveKey(p.plan.Key, &check.Attributes)
			if missing && p.plan.OnMissingKey == plan.MissingKeySkip {
				continue
			}
			if missing && p.plan.OnMissingKey == plan.MissingKeyDeny {
				v.missingKey = append(v.missingKey, p)
				v.call.Refused = v.call.Refused || p.enforces()
				continue
			}
			key = derived
		}
		v.add(p, key, check)
	}
	if v.impossible != nil { // a cost that can never fit touches nothing
		for i := range v.call.Entries {
			v.call.Entries[i].Peek = true
		}
	}
	return v
}

func (v *evaluation) add(p *policy, key script.Key, check *Check) {
	entry := script.Entry{Policy: p.script, Key: key, Cost: check.Cost, Peek: check.Peek}
	if check.Cost > p.smallestQuota {
		entry.Peek = true
		if p.enforces() && v.impossible == nil {
			v.impossible = p
		}
	}
	v.policies = append(v.policies, p)
	v.call.Entries = append(v.call.Entries, entry)
}

func (p *policy) enforces() bool { return p.plan.Mode == plan.ModeEnforce }

// decide turns the reply, or the error that came instead, into a decision.
func (v *evaluation) decide(err error) *Decision {
	d := &Decision{Allowed: true, Reason: ReasonAllowed}
	if v.reply != nil {
		d.Limits = v.limitStates()
	}
	switch {
	case len(v.policies) == 0 && len(v.missingKey) == 0 && v.disabled:
		d.Reason = ReasonDisabled
	case len(v.policies) == 0 && len(v.missingKey) == 0:
		d.Reason = ReasonNoPolicy
	case v.refuseMissingKey(d):
	case v.impossible != nil:
		v.refuseImpossible(d)
	case err != nil:
		v.degrade(d)
	default:
		v.refuse(d)
	}
	return d
}

func (d *Decision) refusedBy(p *policy, reason Reason, limit string) {
	d.Allowed, d.Reason = false, reason
	d.Policy, d.Limit, d.Denial = p.id, limit, p.plan.Denial
}

func (v *evaluation) refuseMissingKey(d *Decision) bool {
	for _, p := range v.missingKey {
		if p.enforces() {
			d.refusedBy(p, ReasonMissingKey, "")
			d.Denial.Message = messageMissingKey
			return true
		}
	}
	return false
}

func (v *evaluation) refuseImpossible(d *Decision) {
	limit := ""
	for _, l := range v.impossible.plan.Limits {
		if v.impossible.plan.Quota(l) < v.call.Entries[0].Cost {
			limit = l.Name
			break
		}
	}
	d.refusedBy(v.impossible, ReasonCostExceedsThreshold, limit)
}

// What callers are told where the policy's own message would mislead.
const (
	messageMissingKey  = "The request lacks what identifies its caller."
	messageUnavailable = "Rate limits cannot be checked at the moment."
)

// degrade decides without Redis: any Closed refuses, else Open admits.
func (v *evaluation) degrade(d *Decision) {
	d.Reason, d.Degraded = ReasonStoreUnavailable, plan.FailOpen
	for _, p := range v.policies {
		if p.enforces() && p.plan.FailureMode == plan.FailClosed {
			d.refusedBy(p, ReasonStoreUnavailable, "")
			d.Denial.Message = messageUnavailable
			d.Degraded = plan.FailClosed
			return
		}
	}
}

// refuse refuses if an enforcing policy did: in the name of the first in the
// chain, until the last limit of all fits.
func (v *evaluation) refuse(d *Decision) {
	for i, p := range v.policies {
		r := &v.reply.Entries[i]
		if r.Verdict == script.Admitted || !p.enforces() || !d.Allowed {
			continue
		}
		reason := ReasonLimitExceeded
		if r.Verdict == script.Blocked {
			reason = ReasonBlocked
		}
		d.refusedBy(p, reason, p.refusingLimit(r))
	}
	if d.Allowed {
		return
	}
	for i := range d.Limits {
		if !d.Limits[i].Shadow {
			d.RetryAfter = max(d.RetryAfter, d.Limits[i].RetryAfter)
		}
	}
}

// refusingLimit names the limit behind a refusal: the one that started the
// live block, else the first that does not fit.
func (p *policy) refusingLimit(r *script.EntryReply) string {
	if r.Verdict == script.Blocked {
		return r.BlockedBy
	}
	for i := range r.Limits {
		if !r.Limits[i].Fits {
			return p.plan.Limits[i].Name
		}
	}
	return ""
}

func (v *evaluation) limitStates() []LimitState {
	total := 0
	for _, p := range v.policies {
		total += len(p.plan.Limits)
	}
	states := make([]LimitState, 0, total)
	for i, p := range v.policies {
		r := &v.reply.Entries[i]
		for j, l := range p.plan.Limits {
			lr, quota := &r.Limits[j], p.plan.Quota(l)
			states = append(states, LimitState{
				Policy:                p.id,
				Limit:                 l.Name,
				Allowed:               lr.Fits && r.Verdict != script.Blocked,
				Shadow:                p.plan.Mode == plan.ModeShadow,
				Used:                  lr.Used,
				Remaining:             max(0, quota-lr.Used),
				Threshold:             l.Threshold,
				Window:                l.Window(),
				RetryAfter:            lr.Wait,
				RemainingAfterWaiting: max(0, quota-lr.UsedThen),
				ResetAfter:            lr.Idle,
			})
		}
	}
	return states
}

// count writes the metrics of the decision, once per policy.
func (v *evaluation) count(m *metrics, d *Decision, err error) {
	for _, p := range v.missingKey {
		p.metrics.decided(p, false, "")
	}
	for i, p := range v.policies {
		switch {
		case v.reply != nil:
			r := &v.reply.Entries[i]
			p.metrics.decided(p, r.Verdict == script.Admitted, p.refusingLimit(r))
			if r.Verdict == script.Tripped {
				p.metrics.blocked(r.BlockedBy)
			}
		case d.Degraded == "": // refused for a reason that needs no Redis
			if p.id == d.Policy {
				p.metrics.decided(p, false, d.Limit)
			}
		case err != nil:
			p.metrics.decided(p, p.plan.FailureMode == plan.FailOpen, "")
			m.degraded.WithLabelValues(p.id, string(p.plan.FailureMode), string(causeOf(err))).Inc()
		}
	}
}
