// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// This file is the reference model of hold.lua.

// modelHold is an open hold.
type modelHold struct {
	id         string
	units, end int64
}

// holdSet is the holds of a key.
type holdSet struct {
	open  []modelHold
	until int64 // when the holds are not needed any more
	// windows are the ends of the latest windows of FixedWindow limits, by the key of their state.
	windows map[string]expiry
	end     expiry
}

func (h *holdSet) alive(now int64) bool { return h.end.alive(now) }

func (h *holdSet) units() (sum int64) {
	for _, hold := range h.open {
		sum += hold.units
	}
	return sum
}

// holds returns the holds of the entry; none if its policy takes no reservations.
func (m *Model) holds(e *quota.Entry) *holdSet {
	if !e.Policy.TakesReservations() {
		return &holdSet{}
	}
	return state[holdSet](m, e.Key, e.Policy.HoldsName())
}

// dropOld drops holds whose units would not count any more.
func (h *holdSet) dropOld(now int64) {
	if len(h.open) > 0 && h.needed(now) <= 0 {
		*h = holdSet{}
	}
}

// needed returns the microseconds for which the holds are kept.
func (h *holdSet) needed(now int64) int64 { return h.until - now }

// expiry returns the expiry of the holds, and of what they need.
func (h *holdSet) expiry() expiry { return expiry((h.until+999)/1000 + 1) }

// store sets the expiry after a change.
func (h *holdSet) store() {
	if len(h.open) == 0 {
		*h = holdSet{}
		return
	}
	h.end = h.expiry()
}

// settle spends the first holds that have ended.
func (m *Model) settle(e *quota.Entry, r *quota.EntryReply, now int64) {
	h := m.holds(e)
	if !e.Policy.SettlesHolds() {
		return
	}
	slices.SortFunc(h.open, func(a, b modelHold) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.id, b.id)) })
	for len(h.open) > 0 && h.open[0].end <= now && r.Settled < quota.MostSettled {
		hold := h.open[0]
		h.open = h.open[1:]
		r.Settled++
		m.spendEnded(e, hold, now)
	}
	if r.Settled == 0 {
		return
	}
	for i := range e.Policy.Limits() {
		l := &e.Policy.Limits()[i]
		c := m.counter(e, l)
		c.(settler).settled(e, l, now) //nolint:forcetypeassert // Suppressed limits have no holds
		if d, ok := c.(debtor); ok {
			r.DebtCut += d.cutDebt(e, l, now)
		}
	}
	h.store()
}

func (m *Model) spendEnded(e *quota.Entry, hold modelHold, now int64) {
	state[chargeID](m, e.Key, quota.ChargeName(e.Policy.ID(), hold.id)).end = expireIn(now, quota.ChargeMemory)
	logged := false
	for i := range e.Policy.Limits() {
		l := &e.Policy.Limits()[i]
		if l.Algorithm == quota.SlidingLog {
			if logged {
				continue
			}
			logged = true
		}
		m.counter(e, l).(settler).settle(e, l, hold.units, hold.end, now) //nolint:forcetypeassert // see settle
	}
}

// find returns the index of the open hold, or -1.
func (h *holdSet) find(id string, now int64) int {
	return slices.IndexFunc(h.open, func(hold modelHold) bool { return hold.id == id && hold.end > now })
}

// has reports whether the hold is there. It may have ended, and not be spent yet.
func (h *holdSet) has(id string) bool {
	return slices.ContainsFunc(h.open, func(hold modelHold) bool { return hold.id == id })
}

func (m *Model) judgeReserve(e *quota.Entry, r *quota.EntryReply, now int64) {
	h := m.holds(e)
	if i := h.find(e.ID, now); i >= 0 {
		r.Hold, r.Estimate = quota.HoldFound, h.open[i].units
		return
	}
	if r.Verdict == quota.Admitted && (h.has(e.ID) || int64(len(h.open)) >= e.Policy.MaxOpen()) {
		r.Verdict, r.Hold = quota.Denied, quota.HoldsFull
	}
}

// admitRepeated admits an entry of a call that repeats an earlier one, unless its hold is missing. It
// reports whether it did.
func admitRepeated(e *quota.Entry, r *quota.EntryReply) bool {
	if e.Policy.TakesHold(e.Action) && r.Hold != quota.HoldFound {
		return false
	}
	r.Verdict, r.BlockLeft, r.BlockedBy = quota.Admitted, 0, ""
	for i := range r.Limits {
		r.Limits[i].Admits, r.Limits[i].Shed = true, false
	}
	return true
}

func (m *Model) takeHold(e *quota.Entry, r *quota.EntryReply, now int64) {
	h := m.holds(e)
	r.Hold = quota.HoldTaken
	h.add(modelHold{id: e.ID, units: e.Cost, end: now + e.TTL.Microseconds()}, e)
	m.keep(e, now)
}

func (h *holdSet) add(hold modelHold, e *quota.Entry) {
	if len(h.open) == 0 {
		h.until = 0
	}
	h.open = append(h.open, hold)
	h.until = max(h.until, hold.end+e.Policy.KeptAfterEnd())
	h.store()
}

// keep keeps what settling the holds needs.
func (m *Model) keep(e *quota.Entry, now int64) {
	for i := range e.Policy.Limits() {
		l := &e.Policy.Limits()[i]
		m.counter(e, l).(settler).keep(e, l, now) //nolint:forcetypeassert // see settle
	}
}

// change commits, renews or charges, and reports whether it spent units.
func (m *Model) change(e *quota.Entry, r *quota.EntryReply, now int64) bool {
	h := m.holds(e)
	if i := h.find(e.ID, now); i >= 0 && e.Action != quota.Charge {
		hold := h.open[i]
		r.Hold, r.Estimate = quota.HoldFound, hold.units
		if e.Action == quota.Renew {
			h.open[i].end = now + e.TTL.Microseconds()
			h.until = max(h.until, h.open[i].end+e.Policy.KeptAfterEnd())
			h.store()
			m.keep(e, now)
			return false
		}
		h.open = slices.Delete(h.open, i, i+1)
		h.store()
		m.remember(e, now)
	} else if e.Action == quota.Commit || e.Action == quota.Renew || e.Action == quota.CommitOrCharge && h.has(e.ID) || !m.remember(e, now) {
		r.Hold = quota.HoldMissing
		return false
	}
	return e.Cost > 0 && m.spendLimits(e, r, true, now)
}

// chargeID is the memory of a charge.
type chargeID struct{ end expiry }

func (c *chargeID) alive(now int64) bool { return c.end.alive(now) }

// remember remembers the ID of a charge, and returns false if it was remembered.
func (m *Model) remember(e *quota.Entry, now int64) bool {
	if !e.Remembers() {
		return true
	}
	c := state[chargeID](m, e.Key, quota.ChargeName(e.Policy.ID(), e.ID))
	if c.alive(now) {
		return false
	}
	c.end = expireIn(now, quota.ChargeMemory)
	return true
}

// waitsForHolds reports whether only holds keep limit i from admitting the cost.
func (m *Model) waitsForHolds(e *quota.Entry, r *quota.EntryReply, i int, now int64) bool {
	l := &e.Policy.Limits()[i]
	return m.holds(e).units() > 0 && !r.Limits[i].Admits && m.counter(e, l).used(e, l, now)+e.Cost <= l.Quota
}

// timeToFit returns the time until the limit admits the cost of a denied entry.
func (m *Model) timeToFit(e *quota.Entry, l *quota.Limit, admits bool, now int64) time.Duration {
	c, held := m.counter(e, l), m.holds(e).units()
	fits := func(units int64) time.Duration {
		other := *e
		other.Cost += units
		return inMicros(c.timeToFit(&other, l, now))
	}
	used := c.used(e, l, now)
	switch {
	case held == 0:
		return fits(0)
	case admits:
		return 0
	case used+e.Cost <= l.Quota:
		return quota.HoldsWait
	case held+e.Cost > l.Quota:
		return max(fits(0), quota.HoldsWait)
	}
	return fits(held)
}

// resetAfter returns the time until nothing is used, at the latest.
func (m *Model) resetAfter(e *quota.Entry, l *quota.Limit, now int64) time.Duration {
	c, h := m.counter(e, l), m.holds(e)
	wait := c.resetAfter(e, l, now)
	if held := h.units(); held > 0 {
		wait = max(wait, c.(settler).afterLast(l, held, h.needed(now)-e.Policy.KeptAfterEnd(), wait)) //nolint:forcetypeassert // see settle
	}
	return inMicros(wait)
}
