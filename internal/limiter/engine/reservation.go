// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// Reserve implements limiter.Reserver.
func (e *Engine) Reserve(ctx context.Context, reserve *limiter.Reserve) (*limiter.Decision, error) {
	if err := reserve.Validate(); err != nil {
		return nil, err
	}
	return e.decideCheck(ctx, "reserve", &reserve.Check, reserve)
}

// Charge implements limiter.Reserver. Policies that deny the key outright, or exempt it, have no limits
// and spend nothing.
func (e *Engine) Charge(ctx context.Context, c *limiter.Charge) (charged *limiter.Charged, err error) {
	ctx, end := startChange(ctx, e.options.Tracer, "charge")
	defer func() { end(charged != nil && charged.Charged, err) }()
	start := time.Now() //nolint:forbidigo // for the budget of new keys
	v, err := e.begin(c)
	if err != nil {
		return nil, err
	}
	ev, err := v.findCharged(c, start)
	if err != nil {
		return nil, err
	}
	if err := e.charge(ctx, &ev.operations, start); err != nil {
		return nil, err
	}
	isEmpty := len(ev.charged) == 0 // then nothing is left to charge
	charged = &limiter.Charged{Charged: isEmpty, Revision: v.snapshot.Revision()}
	for _, op := range ev.all() {
		charged.Charged = charged.Charged || op.reply.Hold != store.HoldMissing
		charged.Limits = op.appendStates(charged.Limits, op.reply)
	}
	e.metrics.countFailures(&ev.search)
	ev.release()
	return charged, nil
}

// findCharged returns an evaluation with the charges of all policies that apply.
func (v *preparedSnapshot) findCharged(c *limiter.Charge, start time.Time) (*evaluation, error) {
	ev := newEvaluation(v, &c.Check, start)
	matched, err := ev.match(ev.check)
	if err != nil {
		return nil, err
	}
	ev.addPolicies(matched)
	ev.call.Denied = false
	for i := range ev.call.Entries {
		ev.call.Entries[i].Action, ev.call.Entries[i].ID = store.Charge, c.ID
	}
	return ev, nil
}

// heldPolicies are the holds of a reservation, with the operations of a commit or a renewal on them.
type heldPolicies struct {
	holds []limiter.Hold
	*operations
	// places[i] is the index of the operation on holds[i], or one of the constants below.
	places   []int
	revision int64
}

const (
	policyGone  = -1 // the policy has no plan
	nothingHeld = -2 // the policy has no hold, and nothing to spend
)

// Commit implements limiter.Reserver. It works in every mode, even Disabled.
func (e *Engine) Commit(ctx context.Context, c *limiter.Commit) (committed *limiter.Committed, err error) {
	ctx, end := startChange(ctx, e.options.Tracer, "commit")
	defer func() { end(committed != nil && committed.Found(), err) }()
	v, err := e.begin(c)
	if err != nil {
		return nil, err
	}
	var failed search
	h, err := v.findHolds(c.Reservation, func(p *policy, hold *limiter.Hold) (store.Entry, bool, error) {
		cost, err := failed.costOf(p, hold, c)
		entry := store.Entry{Action: store.Commit, Cost: cost}
		if c.Reservation.Charged || !p.plan.Reservations.Allowed() {
			entry.Action = store.CommitOrCharge
		}
		return entry, entry.Cost > 0 || p.plan.Reservations.Allowed(), err
	})
	if err != nil {
		return nil, err
	}
	if err := e.change(ctx, h.operations, "commit"); err != nil {
		return nil, err
	}
	committed = h.committed()
	e.metrics.countCommits(h.operations)
	e.metrics.countFailures(&failed)
	h.release()
	return committed, nil
}

// committed returns the answer to the commit.
func (h *heldPolicies) committed() *limiter.Committed {
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
			policy.Override, policy.Exception = op.override, op.exceptionName()
			policy.Committed = op.reply.Hold != store.HoldMissing
			if policy.Committed {
				policy.Cost, policy.Estimate = op.entry.Cost, op.reply.Estimate
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
	ctx, end := startChange(ctx, e.options.Tracer, "renew")
	defer func() { end(renewed != nil, err) }()
	v, err := e.begin(r)
	if err != nil {
		return nil, err
	}
	h, err := v.findHolds(r.Reservation, func(p *policy, _ *limiter.Hold) (store.Entry, bool, error) {
		return store.Entry{Action: store.Renew}, p.plan.Reservations.Allowed(), nil
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
	e.metrics.countRenewals(h.operations)
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
		found := place >= 0 && h.reply.Entries[place].Hold == store.HoldFound
		open = open || found
		answer.Policies = append(answer.Policies, limiter.RenewedPolicy{Policy: h.holds[i].Policy, Renewed: found})
	}
	return answer, open
}

// findHolds returns the holds of the reservation, with the limits that are now in force. entryOf
// returns what the call does with the hold of a policy, and whether it does anything. Its error ends the call.
func (v *preparedSnapshot) findHolds(
	r *limiter.Reservation, entryOf func(*policy, *limiter.Hold) (entry store.Entry, needed bool, err error),
) (*heldPolicies, error) {
	h := &heldPolicies{holds: r.Holds, operations: newOperations(), revision: v.snapshot.Revision()}
	for i := range r.Holds {
		hold := &r.Holds[i]
		p, err := v.policyOf(hold.Policy)
		if err != nil {
			h.places = append(h.places, policyGone)
			continue
		}
		key, ok := p.keyOfEncoded(hold.Key)
		if !ok || h.has(p, key) {
			return nil, invalidReservation(fmt.Sprintf("has holds[%d].key, which is no key of %s or is there twice", i, p.id))
		}
		entry, needed, err := entryOf(p, hold)
		if err != nil {
			return nil, err
		}
		if !needed {
			h.places = append(h.places, nothingHeld)
			continue
		}
		entry.ID, entry.Key = r.ID, key
		h.addHeld(p, p.exceptionFor(key, nil).variantOf(p.plan, p.variantNamed(hold.Override)), entry)
	}
	return h, nil
}

func invalidReservation(problem string) error {
	return &limiter.FieldError{Field: "reservation", Problem: problem}
}

// has reports whether there is an operation for the policy and the key.
func (h *heldPolicies) has(p *policy, key store.Key) bool {
	for _, op := range h.all() {
		if op.policy == p && op.entry.Key == key {
			return true
		}
	}
	return false
}

// addHeld adds the operation on the next hold.
func (h *heldPolicies) addHeld(p *policy, v *variant, entry store.Entry) {
	entry.Policy = v.stored
	h.places = append(h.places, len(h.charged))
	h.add(chargedPolicy{policy: p, variant: v, selected: v}, entry)
}
