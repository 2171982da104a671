// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/quota"
)

// Commit implements limiter.Reserver. It works in every mode, even Disabled.
func (e *Engine) Commit(ctx context.Context, c *limiter.Commit) (committed *limiter.Committed, err error) {
	ctx, end := startChange(ctx, e.tracer, "commit")
	defer func() { end(committed != nil && committed.Found(), err) }()
	v := e.active.Load()
	if v == nil {
		return nil, limiter.ErrNotReady
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	h, err := v.findHolds(c.Reservation, func(p *policy, hold *limiter.Hold) (quota.Entry, bool) {
		entry := quota.Entry{Action: quota.Commit, Cost: c.CostOf(hold.Policy)}
		if c.Reservation.Charged || !p.plan.Reservations.Allowed() {
			entry.Action = quota.CommitOrCharge
		}
		return entry, entry.Cost > 0 || p.plan.Reservations.Allowed()
	})
	if err != nil {
		return nil, err
	}
	if err := e.change(ctx, h.operations, "commit"); err != nil {
		return nil, err
	}
	committed = h.committed(c)
	e.metrics.countCommits(h.operations, v.series)
	h.release()
	return committed, nil
}

// committed returns the answer to the commit.
func (h *heldPolicies) committed(c *limiter.Commit) *limiter.Committed {
	answer := &limiter.Committed{Revision: h.revision}
	for i := range h.holds {
		hold := &h.holds[i]
		policy := limiter.CommittedPolicy{Policy: hold.Policy}
		switch place := h.places[i]; place {
		case policyGone:
			policy.Gone = true
		case nothingHeld:
			policy.Committed = true
		default:
			op := h.at(place)
			policy.Override, policy.Committed = op.override, op.reply.Hold != quota.HoldMissing
			if policy.Committed {
				policy.Cost, policy.Estimate = c.CostOf(hold.Policy), op.reply.Estimate
			}
			policy.Limits = op.appendStates(nil, op.reply)
		}
		answer.Policies = append(answer.Policies, policy)
	}
	return answer
}

// Renew implements limiter.Reserver. A reservation that was given out without Redis, or that holds
// nothing, never ends.
func (e *Engine) Renew(ctx context.Context, r *limiter.Renew) (renewed *limiter.Renewed, err error) {
	ctx, end := startChange(ctx, e.tracer, "renew")
	defer func() { end(renewed != nil, err) }()
	v := e.active.Load()
	if v == nil {
		return nil, limiter.ErrNotReady
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	h, err := v.findHolds(r.Reservation, func(p *policy, _ *limiter.Hold) (quota.Entry, bool) {
		return quota.Entry{Action: quota.Renew}, p.plan.Reservations.Allowed()
	})
	if err != nil {
		return nil, err
	}
	if err := h.setTTL(r.TTL); err != nil {
		return nil, err
	}
	if err := e.change(ctx, h.operations, "renew"); err != nil {
		return nil, err
	}
	answer, open := h.renewed()
	e.metrics.countRenewals(h.operations, v.series)
	h.release()
	if !open && !r.Reservation.Charged && len(r.Reservation.Holds) > 0 {
		return nil, limiter.ErrReservationEnded
	}
	return answer, nil
}

// renewed returns the answer to a renewal, and whether it renewed a hold.
func (h *heldPolicies) renewed() (answer *limiter.Renewed, open bool) {
	answer = &limiter.Renewed{Revision: h.revision}
	for i := range h.holds {
		place := h.places[i]
		found := place >= 0 && h.reply.Entries[place].Hold == quota.HoldFound
		open = open || found
		answer.Policies = append(answer.Policies, limiter.RenewedPolicy{Policy: h.holds[i].Policy, Renewed: found})
	}
	return answer, open
}
