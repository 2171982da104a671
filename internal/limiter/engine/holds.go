// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// addHolds turns the entries of the policies that take reservations into reserves of their estimates.
// All others spend 1.
func (ev *evaluation) addHolds(r *limiter.Reserve) error {
	if err := ev.checkCosts(r.Costs); err != nil {
		return err
	}
	ev.reservationID = r.ID
	if r.ID == "" {
		ev.reservationID, ev.withdraws = newReservationID(), true
	}
	for _, op := range ev.all() {
		cost, holds := estimateOf(r, op.policy, op.entry.Cost)
		op.entry.Cost = cost
		if holds {
			op.entry.Action, op.entry.ID = store.Reserve, ev.reservationID
		}
	}
	if err := ev.setTTL(r.TTL); err != nil {
		return err
	}
	return ev.checkReservationSize()
}

// checkCosts returns a *limiter.FieldError for a policy with an estimate that does not apply or
// takes no reservations.
func (ev *evaluation) checkCosts(costs limiter.Costs) error {
	return costs.Check(func(id string, _ int64) string {
		i := slices.IndexFunc(ev.found, func(p matchedPolicy) bool { return p.id == id })
		switch {
		case i < 0:
			return "is no policy of the check"
		case !ev.found[i].plan.Reservations.Allowed():
			return "is a policy that takes no reservations"
		}
		return ""
	})
}

// estimateOf returns the units that the policy holds for the reserve, or else the unit that it spends.
func estimateOf(r *limiter.Reserve, p *policy, cost int64) (units int64, holds bool) {
	if r.Costs != nil {
		cost, holds = r.Costs[p.id]
	} else {
		holds = p.plan.Reservations.Allowed()
	}
	if !holds {
		return 1, false
	}
	return cost, true
}

// setTTL sets how long the entries hold. It accepts at most the smallest maxTTL of their policies, which is
// also the default for 0.
func (o *operations) setTTL(ttl time.Duration) error {
	var shortest *policy
	for _, op := range o.all() {
		if op.entry.Action != store.Check && (shortest == nil || op.plan.Reservations.MaxTTL() < shortest.plan.Reservations.MaxTTL()) {
			shortest = op.policy
		}
	}
	if shortest == nil {
		return nil
	}
	longest := shortest.plan.Reservations.MaxTTL()
	if ttl > longest {
		return &limiter.FieldError{Field: "ttl", Problem: fmt.Sprintf("must be at most %v, the maxTTL of %s", longest, shortest.id)}
	}
	for i := range o.call.Entries {
		if entry := &o.call.Entries[i]; entry.Action != store.Check {
			entry.TTL = cmp.Or(ttl, longest)
		}
	}
	return nil
}

// checkReservationSize returns a *limiter.FieldError if the text of the reservation would be longer than
// limiter.MaxReservationBytes. An overflow key may replace a key.
func (ev *evaluation) checkReservationSize() error {
	const fixed = 64 // the names of members and their punctuation
	size := fixed + len(ev.reservationID)
	for i, op := range ev.all() {
		if key := op.entry.Key; op.entry.Action == store.Reserve {
			longest := max(len(key), len(ev.call.OverflowKey(i)))
			size += fixed + len(op.id) + len(op.override) + longest + escapesIn(string(key)) + 2*plan.MaxKeyParts
		}
	}
	if size*4/3 < limiter.MaxReservationBytes { // the text is Base64
		return nil
	}
	field := "attributes"
	if ev.givenKey != "" {
		field = "key"
	}
	return &limiter.FieldError{Field: field, Problem: "makes keys that are too long for a reservation"}
}

// escapesIn returns how many bytes longer than the text its JSON is, at most.
func escapesIn(text string) int {
	return strings.Count(text, `"`) + strings.Count(text, `\`) + 3*strings.Count(text, "\u2028") + 3*strings.Count(text, "\u2029")
}

func newReservationID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// endReserve sets the reservation of the decision. A reserve that differs from an open one with its ID
// holds nothing.
func (e *Engine) endReserve(ctx context.Context, ev *evaluation, d *limiter.Decision) error {
	err := ev.setReservation(d)
	if err != nil {
		e.cancelTaken(ctx, ev)
	}
	return err
}

// setReservation sets the reservation of an allowed decision. It returns limiter.ErrReservationDiffers if an
// open reservation with its ID has other estimates.
func (ev *evaluation) setReservation(d *limiter.Decision) error {
	reservation := &limiter.Reservation{ID: ev.reservationID, Charged: d.Degraded != ""}
	for i, op := range ev.all() {
		if op.entry.Action != store.Reserve {
			continue
		}
		if key, held := ev.heldKey(i); held {
			reservation.Holds = append(reservation.Holds, limiter.Hold{
				Policy: op.id, Override: op.override, Key: encodedPartsOf(key), Units: op.entry.Cost,
			})
		}
		if r := op.reply; r != nil && r.Hold == store.HoldFound && r.Estimate != op.entry.Cost {
			return limiter.ErrReservationDiffers
		}
	}
	if d.Allowed {
		d.Reservation = reservation
	}
	return nil
}

// heldKey returns the key for which the i-th entry, a reserve, has a hold. If the store did not answer, it
// may have one.
func (ev *evaluation) heldKey(i int) (key store.Key, held bool) {
	key = ev.call.Entries[i].Key
	if ev.reply == nil {
		return key, true
	}
	r := &ev.reply.Entries[i]
	if r.Overflow {
		key = ev.call.OverflowKey(i)
	}
	return key, r.Hold == store.HoldTaken || r.Hold == store.HoldFound
}
