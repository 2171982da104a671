// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/steps"
)

// holdsOf returns the holds of the caller, or nil. It drops those that are not needed any more.
func (s *shard) holdsOf(c uint32, of stateID, now int64) *steps.HoldSet {
	n := s.stateOf(c, of, now)
	h := s.holds[n]
	if h != nil && !h.IsNeeded(now) {
		s.states.at(n).gone = 0
		return nil
	}
	return h
}

// holdsID returns the state of the holds.
func (e *entry) holdsID() stateID { return e.hashes.state(e.Policy.HoldsName()) }

// StoreHolds stores the holds, and sets when they expire.
func (e *entry) StoreHolds(h *steps.HoldSet) {
	of := e.holdsID()
	n := e.shard.stateOf(e.caller, of, e.now)
	if n == 0 {
		n = e.shard.put(e.ensureCaller(), state{id: of}, e.now)
	}
	e.holds = nil
	gone := int64(0)
	if h.Len() > 0 {
		e.holds, gone = h, h.LastMilli()+1
	}
	e.shard.holds[n] = e.holds
	e.shard.states.at(n).gone = gone
}

// Keep keeps what settling needs of the limit.
func (e *entry) Keep(i int) { e.views[i].algorithm.keep(&e.views[i]) }

// Remember remembers the ID of a charge, and returns false if it was remembered already.
func (e *entry) Remember(id string) bool {
	of := chargeID{e.id, e.hashes.charge(id)}
	known := e.shard.charges.has(of, e.now)
	if !known {
		e.shard.charges.remember(of, store.MemoryOf(id), e.now)
	}
	return !known
}

// settle spends the holds of the entry that have ended, as of their ends. A peek does so, too.
func (d *decision) settle(e *entry, r *store.EntryReply) {
	if !e.holds.HasEnded(e.now) || !e.Policy.SettlesHolds() {
		return
	}
	peek, views, states := e.peek, len(d.views), len(d.opened)
	e.peek = false
	d.open(e)
	h := e.holds
	r.Settled = h.Settle(e.now, func(id string, units, end int64) {
		e.shard.charges.remember(chargeID{e.id, e.hashes.charge(id)}, store.MemoryOf(id), e.now)
		for i := range e.views {
			if v := &e.views[i]; v.algorithm != nil && !v.sharesLog {
				v.algorithm.settle(v, units, end)
			}
		}
	})
	for i := range e.views {
		if v := &e.views[i]; v.algorithm != nil {
			v.algorithm.endSettling(v)
		}
	}
	e.StoreHolds(h)
	e.store()
	for i := range d.opened[states:] {
		if h := &d.opened[states+i]; h.isCurrent {
			e.settled = append(e.settled, settledBucket{h.id, h.current})
		}
	}
	e.ends = e.shard.ends(e.caller)
	clear(d.views[views:])
	clear(d.opened[states:])
	d.views, d.opened, e.peek = d.views[:views], d.opened[:states], peek
}

// Holds returns the open holds of the key that end first, at most the given number. It returns no
// error.
func (s *Store) Holds(_ context.Context, policy *store.Policy, key store.Key, most int) ([]store.Hold, error) {
	sh, _, c := s.lockCaller(policy.ID(), key)
	defer sh.mu.Unlock()
	now := s.micros()
	return sh.holdsOf(c, s.hashes.state(policy.HoldsName()), now).List(now, most), nil
}
