// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// addHits sets the actions of the entries by the hits of Envoy, which reserve, commit or spend. It
// moves the entries that are never denied to ev.lateCharges.
func (ev *evaluation) addHits() error {
	kept := 0
	for i := range ev.charged {
		cp, entry := &ev.charged[i], &ev.call.Entries[i]
		if cp.neverDenies(limiter.Hits{Cost: entry.Cost, Peek: entry.Peek, Action: cp.action}) {
			ev.addLateCharge(cp, entry)
			continue
		}
		if cp.action == limiter.HitsReserve {
			cp.reserveHits(entry, ev.check.ReservationID)
			ev.withdraws = true
		}
		if kept < i {
			ev.charged[kept], ev.call.Entries[kept] = *cp, *entry
		}
		kept++
	}
	ev.charged = slices.Delete(ev.charged, kept, len(ev.charged))
	ev.call.Entries = slices.Delete(ev.call.Entries, kept, len(ev.call.Entries))
	return ev.setTTL(0)
}

// reserveHits turns the entry of a policy that takes reservations into a reserve. The hits are an
// estimate, so other policies spend 1.
func (cp *chargedPolicy) reserveHits(entry *store.Entry, id string) {
	switch {
	case entry.Peek:
	case cp.plan.Reservations.Allowed():
		cp.ignoreRequestedLimit(entry)
		entry.Action, entry.ID = store.Reserve, id
	default:
		entry.Cost = 1
	}
}

// addLateCharge adds an entry that is never denied to ev.lateCharges, unless it spends nothing.
func (ev *evaluation) addLateCharge(cp *chargedPolicy, entry *store.Entry) {
	charge := store.Entry{Policy: cp.selected.stored, Key: entry.Key, Cost: entry.Cost}
	switch {
	case cp.action == limiter.HitsCommit && cp.plan.Reservations.Allowed():
		charge.Action, charge.ID = store.CommitOrCharge, ev.check.ReservationID
		if cp.cost != nil {
			charge.Cost = ev.computedCost(cp.policy, ev.check.ResponseCode, max(1, entry.Cost))
		}
	case cp.action == limiter.HitsCommit && !cp.plan.LateCharges.Include(entry.Cost):
		return
	case cp.action == limiter.HitsCommit:
		charge.Action, charge.ID = store.Charge, ev.check.ReservationID
	default:
		charge.Action, charge.ID = store.Charge, newReservationID()
	}
	if ev.lateCharges == nil {
		ev.lateCharges = newOperations()
	}
	added := *cp
	added.variant = cp.selected
	ev.lateCharges.add(added, charge)
}

// ignoreRequestedLimit replaces a requested limit, which may have a state of its own, by the limit of the
// policy.
func (cp *chargedPolicy) ignoreRequestedLimit(entry *store.Entry) {
	cp.variant, entry.Policy = cp.selected, cp.selected.stored
}

// spendLateCharges makes the charges of the check, even if the caller has canceled: the request is over. It returns
// the charges that Redis did not confirm.
func (e *Engine) spendLateCharges(ctx context.Context, ev *evaluation) []limiter.Commit {
	if e.charge(context.WithoutCancel(ctx), ev.lateCharges, ev.start) == nil {
		return nil
	}
	return ev.lateCharges.unsent()
}

// unsent returns the charges as commits that the caller can retry, of reservations without a hold. If Redis
// made a charge and its reply was lost, the retry spends nothing: it has the ID of the charge.
func (o *operations) unsent() []limiter.Commit {
	commits := make([]limiter.Commit, len(o.charged))
	for i, op := range o.all() {
		hold := limiter.Hold{Policy: op.id, Override: op.override, Key: encodedPartsOf(op.entry.Key), Units: op.entry.Cost}
		commits[i] = limiter.Commit{
			Reservation: &limiter.Reservation{ID: op.entry.ID, Holds: []limiter.Hold{hold}, Charged: true},
			Cost:        op.entry.Cost, CostIsFinal: true,
		}
	}
	return commits
}
