// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// What callers are told where the policy's own message would mislead.
const (
	messageMissingKey  = "The request lacks what identifies its caller."
	messageDenied      = "This caller is denied."
	messageUnavailable = "Rate limits cannot be checked at the moment."
)

// decide turns the reply, or the error that came instead, into a decision.
func (v *evaluation) decide(err error) *limiter.Decision {
	d := &limiter.Decision{Allowed: true, Reason: limiter.ReasonAllowed}
	if v.reply != nil {
		d.Limits = v.limitStates()
	}
	switch {
	case len(v.asked) == 0 && len(v.refusals) == 0:
		d.Reason = v.reasonOfNobody()
	case v.refusedOutright(d):
	case v.impossible >= 0:
		v.refuseImpossible(d)
	case err != nil:
		v.degrade(d)
	default:
		v.refuse(d)
	}
	return d
}

// reasonOfNobody says why no policy took part.
func (v *evaluation) reasonOfNobody() limiter.Reason {
	switch {
	case len(v.exempt) > 0:
		return limiter.ReasonExempt
	case v.disabled:
		return limiter.ReasonDisabled
	}
	return limiter.ReasonNoPolicy
}

func refusedBy(d *limiter.Decision, p *policy, reason limiter.Reason, limit string) {
	d.Allowed, d.Reason = false, reason
	d.Policy, d.Limit, d.Denial = p.id, limit, p.plan.Denial
}

// refusedOutright refuses in the name of the first enforcing policy of the chain
// that refuses whatever its limits say.
func (v *evaluation) refusedOutright(d *limiter.Decision) bool {
	for _, r := range v.refusals {
		if !r.enforces() {
			continue
		}
		refusedBy(d, r.policy, r.reason, "")
		d.Override, d.Denial.Message = r.override, messageMissingKey
		if r.reason == limiter.ReasonDeniedByOverride {
			d.Denial.Message = messageDenied
		}
		return true
	}
	return false
}

func (v *evaluation) refuseImpossible(d *limiter.Decision) {
	a, cost := v.asked[v.impossible], v.call.Entries[v.impossible].Cost
	limit := slices.IndexFunc(a.quotas, func(quota int64) bool { return quota < cost })
	refusedBy(d, a.policy, limiter.ReasonCostExceedsThreshold, a.limits[limit].Name)
}

// degrade decides without Redis: any Closed refuses, else Open admits.
func (v *evaluation) degrade(d *limiter.Decision) {
	d.Reason, d.Degraded = limiter.ReasonStoreUnavailable, plan.FailOpen
	for _, a := range v.asked {
		if a.enforces() && a.plan.FailureMode == plan.FailClosed {
			refusedBy(d, a.policy, limiter.ReasonStoreUnavailable, "")
			d.Denial.Message = messageUnavailable
			d.Degraded = plan.FailClosed
			return
		}
	}
}

// refuse refuses if an enforcing policy did: in the name of the first in the
// chain, until the last limit of all fits.
func (v *evaluation) refuse(d *limiter.Decision) {
	for i, a := range v.asked {
		r := &v.reply.Entries[i]
		if r.Verdict != script.Admitted && a.enforces() && d.Allowed {
			reason, limit := a.refusal(r)
			refusedBy(d, a.policy, reason, limit)
		}
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

// refusal says why the policy refused, and names the limit behind it: the one
// that started the live block, else the first that does not fit. Being shed by
// chance is the reason only where nothing else is.
func (a asked) refusal(r *script.EntryReply) (limiter.Reason, string) {
	if r.Verdict == script.Blocked {
		return limiter.ReasonBlocked, r.BlockedBy
	}
	shed := ""
	for i := range r.Limits {
		switch l := &r.Limits[i]; {
		case l.Fits:
		case !l.Shed:
			return limiter.ReasonLimitExceeded, a.limits[i].Name
		case shed == "":
			shed = a.limits[i].Name
		}
	}
	return limiter.ReasonSuppressed, shed
}

func (v *evaluation) limitStates() []limiter.LimitState {
	total := 0
	for _, a := range v.asked {
		total += len(a.limits)
	}
	states := make([]limiter.LimitState, 0, total)
	for i, a := range v.asked {
		states = a.appendStates(states, &v.reply.Entries[i])
	}
	return states
}

func (a asked) appendStates(states []limiter.LimitState, r *script.EntryReply) []limiter.LimitState {
	for i, l := range a.limits {
		lr, quota := &r.Limits[i], a.quotas[i]
		states = append(states, limiter.LimitState{
			Policy:                a.id,
			Limit:                 l.Name,
			Override:              a.override,
			Algorithm:             l.Algorithm,
			Allowed:               lr.Fits && r.Verdict != script.Blocked,
			Blocked:               r.Verdict == script.Blocked,
			Shadow:                a.plan.Mode == plan.ModeShadow,
			Used:                  lr.Used,
			Remaining:             max(0, quota-lr.Used),
			SuppressionFactor:     lr.Suppression,
			Quota:                 quota,
			Threshold:             l.Threshold,
			Window:                l.Window(),
			RetryAfter:            lr.Wait,
			RemainingAfterWaiting: max(0, quota-lr.UsedThen),
			ResetAfter:            lr.Idle,
		})
	}
	return states
}
