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
func (ev *evaluation) decide(err error) *limiter.Decision {
	d := &limiter.Decision{Allowed: true, Reason: limiter.ReasonAllowed}
	if ev.reply != nil {
		d.Limits = ev.limitStates()
	}
	switch {
	case len(ev.participants) == 0 && len(ev.outrightDenials) == 0:
		d.Reason = ev.reasonWithoutLimits()
	case ev.deniedOutright(d):
	case ev.neverFits >= 0:
		ev.denyNeverFits(d)
	case err != nil:
		ev.degrade(d)
	default:
		ev.denyByVerdicts(d)
	}
	return d
}

// reasonWithoutLimits says why no policy took part.
func (ev *evaluation) reasonWithoutLimits() limiter.Reason {
	switch {
	case len(ev.exempt) > 0:
		return limiter.ReasonExempt
	case ev.sawDisabled:
		return limiter.ReasonDisabled
	}
	return limiter.ReasonNoPolicy
}

func deny(d *limiter.Decision, p *policy, reason limiter.Reason, limit string) {
	d.Allowed, d.Reason = false, reason
	d.Policy, d.Limit, d.Denial = p.id, limit, p.plan.Denial
}

// deniedOutright refuses in the name of the first enforcing policy of the chain
// that refuses whatever its limits say.
func (ev *evaluation) deniedOutright(d *limiter.Decision) bool {
	for _, r := range ev.outrightDenials {
		if !r.enforces() {
			continue
		}
		deny(d, r.policy, r.reason, "")
		d.Override, d.Denial.Message = r.override, messageMissingKey
		if r.reason == limiter.ReasonDeniedByOverride {
			d.Denial.Message = messageDenied
		}
		return true
	}
	return false
}

func (ev *evaluation) denyNeverFits(d *limiter.Decision) {
	a, cost := ev.participants[ev.neverFits], ev.call.Entries[ev.neverFits].Cost
	limit := slices.IndexFunc(a.quotas, func(quota int64) bool { return quota < cost })
	deny(d, a.policy, limiter.ReasonCostExceedsThreshold, a.limits[limit].Name)
}

// degrade decides without Redis: any Closed refuses, else Open admits.
func (ev *evaluation) degrade(d *limiter.Decision) {
	d.Reason, d.Degraded = limiter.ReasonStoreUnavailable, plan.FailOpen
	for _, a := range ev.participants {
		if a.enforces() && a.plan.FailureMode == plan.FailClosed {
			deny(d, a.policy, limiter.ReasonStoreUnavailable, "")
			d.Denial.Message = messageUnavailable
			d.Degraded = plan.FailClosed
			return
		}
	}
}

// refuse refuses if an enforcing policy did: in the name of the first in the
// chain, until the last limit of all fits.
func (ev *evaluation) denyByVerdicts(d *limiter.Decision) {
	for i, a := range ev.participants {
		r := &ev.reply.Entries[i]
		if r.Verdict != script.Admitted && a.enforces() && d.Allowed {
			reason, limit := a.denialReason(r)
			deny(d, a.policy, reason, limit)
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
func (a participant) denialReason(r *script.EntryReply) (limiter.Reason, string) {
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

func (ev *evaluation) limitStates() []limiter.LimitState {
	total := 0
	for _, a := range ev.participants {
		total += len(a.limits)
	}
	states := make([]limiter.LimitState, 0, total)
	for i, a := range ev.participants {
		states = a.appendStates(states, &ev.reply.Entries[i])
	}
	return states
}

func (a participant) appendStates(states []limiter.LimitState, r *script.EntryReply) []limiter.LimitState {
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
