// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// Messages that replace the one of the policy, which is about exceeded limits.
const (
	messageMissingKey  = "The request lacks the key that identifies its client."
	messageDenied      = "This client is denied."
	messageUnavailable = "Rate limits cannot be checked at the moment."
)

// judgeReply turns the reply of the store, or the error in its place, into a decision.
func (ev *evaluation) judgeReply() *limiter.Decision {
	d, limits, descriptors := ev.check.NewDecision()
	d.Allowed, d.Reason, d.Revision = true, limiter.ReasonAllowed, ev.prepared.snapshot.Revision()
	decided := ev.decided()
	if decided.reply != nil {
		decided.applySubstitutes()
		d.Limits = decided.appendLimitStates(limits)
		d.FromSlice = decided.reply.FromSlice
	}
	ev.setOutcome(d)
	if hits := ev.check.Hits; hits != nil {
		d.Descriptors = ev.appendDescriptorStates(descriptors, d, len(hits))
	}
	return d
}

// setOutcome sets whether the check is allowed, and why.
func (ev *evaluation) setOutcome(d *limiter.Decision) {
	switch {
	case len(ev.charged) == 0 && len(ev.outrightDenials) == 0 && len(ev.unchecked) == 0:
		d.Reason = ev.reasonWithoutLimits()
	case ev.denyOutright(d), ev.denyUnchecked(d):
	case ev.overQuota >= 0:
		ev.denyOverQuota(d)
	case ev.local != nil:
		ev.setLocalOutcome(d)
	case ev.err != nil:
		ev.degrade(d)
	case ev.denyCopiedID(d):
	default:
		ev.denyByVerdicts(d)
		ev.markUnchecked(d)
	}
}

// reasonWithoutLimits returns why no policy took part.
func (ev *evaluation) reasonWithoutLimits() limiter.Reason {
	switch {
	case ev.lateCharges != nil:
		return limiter.ReasonAllowed
	case len(ev.exempt) > 0:
		return limiter.ReasonExempt
	case ev.sawDisabled:
		return limiter.ReasonDisabled
	}
	return limiter.ReasonNoPolicy
}

// deny makes the decision a denial by the policy and, unless empty, the limit.
func deny(d *limiter.Decision, p *policy, reason limiter.Reason, limit string) {
	d.Allowed, d.Reason = false, reason
	d.Policy, d.Limit = p.id, limit
	d.Denial = p.plan.Denial
}

// denyOutright denies the check if an outright denial comes from an enforcing policy,
// and reports whether it did. The first such policy of the chain is named.
func (ev *evaluation) denyOutright(d *limiter.Decision) bool {
	for _, r := range ev.outrightDenials {
		if !r.enforces() {
			continue
		}
		deny(d, r.policy, r.reason, "")
		d.Override = r.override
		d.Denial.Message = messageMissingKey
		if r.reason == limiter.ReasonDeniedByOverride {
			d.Denial.Message = messageDenied
		}
		return true
	}
	return false
}

// denyUnchecked denies the check if an unchecked policy does, and reports whether it did.
func (ev *evaluation) denyUnchecked(d *limiter.Decision) bool {
	for i := range ev.unchecked {
		if u := &ev.unchecked[i]; u.denies() {
			denyUnavailable(d, u.policy, u.reason())
			return true
		}
	}
	return false
}

// denyUnavailable denies the check by failureMode Closed of the policy.
func denyUnavailable(d *limiter.Decision, p *policy, reason limiter.Reason) {
	deny(d, p, reason, "")
	d.Denial.Message = messageUnavailable
	d.Degraded = plan.FailClosed
}

// denyOverQuota denies a cost that is larger than the quota of some limit.
func (o *operations) denyOverQuota(d *limiter.Decision) {
	op := o.at(o.overQuota)
	deny(d, op.policy, limiter.ReasonCostExceedsThreshold, op.limitBelow(op.entry.Cost))
}

// setLocalOutcome decides by the local operations. Policies with failureMode Open admit the check. A cost may exceed
// a share while the quota admits it.
func (ev *evaluation) setLocalOutcome(d *limiter.Decision) {
	d.Degraded = plan.FailLocal
	switch {
	case ev.local.overQuota >= 0:
		ev.local.denyOverQuota(d)
		d.Reason, d.Denial.Message = limiter.ReasonStoreUnavailable, messageUnavailable
	default:
		ev.local.denyByVerdicts(d)
	}
	if d.Allowed && len(ev.local.charged) < len(ev.charged) {
		d.Reason = limiter.ReasonStoreUnavailable
	}
}

// degrade decides by failureMode without limits: one enforcing policy with Closed denies,
// otherwise the check is allowed.
func (ev *evaluation) degrade(d *limiter.Decision) {
	d.Reason, d.Degraded = limiter.ReasonStoreUnavailable, plan.FailOpen
	if p := ev.firstClosed(); p != nil {
		denyUnavailable(d, p, limiter.ReasonStoreUnavailable)
	}
}

// firstClosed returns the first enforcing policy with failureMode Closed, or nil.
func (ev *evaluation) firstClosed() *policy {
	for _, cp := range ev.charged {
		if cp.enforces() && cp.plan.FailureMode == plan.FailClosed {
			return cp.policy
		}
	}
	return nil
}

// denyCopiedID denies a check with a copied ID, and reports whether it did. It does so in mode Shadow, too: the
// check has spent nothing.
func (ev *evaluation) denyCopiedID(d *limiter.Decision) bool {
	p := ev.copiedID()
	if p != nil {
		deny(d, p, limiter.ReasonReservationOpen, "")
		d.RetryAfter, d.WaitsFor = store.HoldsWait, limiter.WaitsForReservations
	}
	return p != nil
}

// denyByVerdicts denies the check if an enforcing policy did not admit it. The first such
// policy of the chain is named. RetryAfter is the longest of all limits that are not in mode
// Shadow.
func (o *operations) denyByVerdicts(d *limiter.Decision) {
	waitsFor := waitsOfDenials{true, true}
	for _, op := range o.all() {
		r := op.reply
		if r == nil || r.Verdict == store.Admitted || !op.enforces() {
			continue
		}
		if d.Allowed {
			reason, limit := op.denialReason(r)
			deny(d, op.policy, reason, limit)
		}
		if r.Hold == store.HoldsFull {
			d.RetryAfter = max(d.RetryAfter, store.HoldsWait)
		}
		waitsFor.add(r, op.stored.TakesSlices())
	}
	if d.Allowed {
		return
	}
	d.WaitsFor = waitsFor.result()
	for i := range d.Limits {
		if !d.Limits[i].Shadow {
			d.RetryAfter = max(d.RetryAfter, d.Limits[i].RetryAfter)
		}
	}
}

// waitsOfDenials is what the denying policies of a check have in common: only holds deny, and only slices do.
type waitsOfDenials struct{ holds, slices bool }

func (w *waitsOfDenials) add(r *store.EntryReply, takesSlices bool) {
	w.holds = w.holds && r.OnlyHoldsDeny()
	w.slices = w.slices && takesSlices
}

// result returns what the caller waits for, other than the time.
func (w *waitsOfDenials) result() limiter.WaitsFor {
	switch {
	case !w.holds:
		return ""
	case w.slices:
		return limiter.WaitsForSlices
	}
	return limiter.WaitsForReservations
}

// denialReason returns why the policy denied and the limit that caused it: the limit that
// started the live block, else the first limit that does not admit the cost. Suppressed is the reason
// only if no limit is exceeded, TooManyReservations only if every limit admits the cost.
func (cp *chargedPolicy) denialReason(r *store.EntryReply) (limiter.Reason, string) {
	if r.Verdict == store.Blocked {
		return limiter.ReasonBlocked, r.BlockedBy
	}
	shed := ""
	for i := range r.Limits {
		switch l := &r.Limits[i]; {
		case l.Admits:
		case !l.Shed:
			return limiter.ReasonLimitExceeded, cp.limits[i].Name
		case shed == "":
			shed = cp.limits[i].Name
		}
	}
	if r.Hold == store.HoldsFull {
		return limiter.ReasonTooManyReservations, ""
	}
	return limiter.ReasonSuppressed, shed
}

// markUnchecked marks an allowed decision that an unchecked policy could have denied.
func (ev *evaluation) markUnchecked(d *limiter.Decision) {
	if i := slices.IndexFunc(ev.unchecked, func(u uncheckedPolicy) bool { return u.enforces() }); d.Allowed && i >= 0 {
		d.Reason, d.Degraded = ev.unchecked[i].reason(), plan.FailOpen
	}
}

// appendDescriptorStates appends the outcome of each of n descriptors to an empty list.
func (ev *evaluation) appendDescriptorStates(states []limiter.DescriptorState, d *limiter.Decision, n int) []limiter.DescriptorState {
	states = slices.Grow(states, n)[:n]
	for i := range states {
		states[i].Allowed = true
		for _, r := range ev.outrightDenials {
			if r.enforces() && r.descriptors.has(i) {
				states[i].Allowed = false
			}
		}
		for _, u := range ev.unchecked {
			if u.denies() && u.descriptors.has(i) {
				states[i].Allowed = false
			}
		}
	}
	limits := d.Limits
	for _, op := range ev.decided().all() {
		denies := ev.denies(op, d)
		var own []limiter.LimitState
		if op.reply != nil {
			own, limits = limits[:len(op.limits)], limits[len(op.limits):]
		}
		for j := range states {
			if op.descriptors.has(j) {
				addOutcome(&states[j], own, denies)
			}
		}
	}
	return states
}

// addOutcome adds the outcome of one policy to the state of a descriptor.
func addOutcome(s *limiter.DescriptorState, limits []limiter.LimitState, denies bool) {
	s.Allowed = s.Allowed && !denies
	for i := range limits {
		l := &limits[i]
		if l.Shadow {
			continue
		}
		if s.Tightest == nil || l.TighterThan(s.Tightest) {
			s.Tightest = l
		}
		if denies {
			s.RetryAfter = max(s.RetryAfter, l.RetryAfter)
		}
	}
}

// denies reports whether the policy of the operation denied the check.
func (ev *evaluation) denies(op operation, d *limiter.Decision) bool {
	switch {
	case d.Reason == limiter.ReasonReservationOpen:
		return op.hasCopiedID()
	case !op.enforces():
		return false
	case op.entry.Cost > op.smallestQuota:
		return true
	case op.reply != nil:
		return op.reply.Verdict != store.Admitted
	default:
		return d.Degraded == plan.FailClosed && op.plan.FailureMode == plan.FailClosed
	}
}
