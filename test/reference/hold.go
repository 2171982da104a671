// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/steps"
)

// holdSet is the holds of a key.
type holdSet struct{ set *steps.HoldSet }

func (h *holdSet) alive(now int64) bool { return h.set.Len() > 0 && h.expiry().alive(now) }

// holds returns the holds of the entry; none if its policy reads none.
func (m *Model) holds(e *store.Entry) *holdSet {
	if !e.Policy.ReadsHolds() {
		return &holdSet{}
	}
	return state[holdSet](m, e.Key, e.Policy.HoldsName())
}

// dropOld drops holds whose units would not count any more.
func (h *holdSet) dropOld(now int64) {
	if !h.set.IsNeeded(now) {
		h.set = nil
	}
}

// expiry returns the expiry of the holds, and of what they need.
func (h *holdSet) expiry() expiry { return expiry(h.set.LastMilli()) }

// StoreHolds stores the holds, if there are any.
func (e *entry) StoreHolds(h *steps.HoldSet) {
	if h.Len() == 0 {
		h = nil
	}
	e.model.holds(e.Entry).set = h
}

// Keep keeps what settling needs of the limit.
func (e *entry) Keep(i int) {
	l, c := e.limit(i)
	c.(settler).keep(e.Entry, l, e.now) //nolint:forcetypeassert // Suppressed limits have no holds
}

// settle spends the first holds that have ended.
func (e *entry) settle(r *store.EntryReply) {
	h := e.model.holds(e.Entry).set
	if !e.Policy.SettlesHolds() || !h.HasEnded(e.now) {
		return
	}
	r.Settled = h.Settle(e.now, func(id string, units, end int64) {
		state[chargeID](e.model, e.Key, store.ChargeName(e.Policy.ID(), id)).end = expireIn(e.now, store.MemoryOf(id))
		e.forEachSettler(func(i int, l *store.Limit, s settler) {
			if !sharesLog(e.Policy, i) {
				s.settle(e.Entry, l, units, end, e.now)
			}
		})
	})
	e.forEachSettler(func(i int, l *store.Limit, s settler) {
		s.endSettling(e.Entry, l, e.now)
		e.addDebtCut(i)
	})
	e.StoreHolds(h)
}

// forEachSettler calls do with the limits that settle holds: all but Concurrency. Suppressed limits have no
// holds.
func (e *entry) forEachSettler(do func(i int, l *store.Limit, s settler)) {
	for i := range e.Policy.Limits() {
		if l, c := e.limit(i); l.Algorithm != store.Concurrency {
			do(i, l, c.(settler)) //nolint:forcetypeassert // see above
		}
	}
}

// chargeID is the memory of a charge.
type chargeID struct{ end expiry }

func (c *chargeID) alive(now int64) bool { return c.end.alive(now) }

// Remember remembers the ID of a charge, and returns false if it was remembered.
func (e *entry) Remember(id string) bool {
	c := state[chargeID](e.model, e.Key, store.ChargeName(e.Policy.ID(), id))
	if c.alive(e.now) {
		return false
	}
	c.end = expireIn(e.now, store.MemoryOf(id))
	return true
}
