// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// hold is an open hold, or one that has ended and is not spent yet.
type hold struct {
	id         string
	units, end int64
	place      int // in holdSet.ends
}

// holdSet is the holds of a caller.
type holdSet struct {
	byID  map[string]*hold
	ends  holdHeap
	units int64
	until int64 // when the holds are not needed any more, in microseconds
	// windows are the ends of the latest windows of FixedWindow limits, in milliseconds.
	windows map[stateID]int64
}

// holdHeap orders holds by their ends.
type holdHeap []*hold

// Len, Less, Swap, Push and Pop are for container/heap.
func (h *holdHeap) Len() int { return len(*h) }

func (h *holdHeap) Less(i, j int) bool { return compareEnds((*h)[i], (*h)[j]) < 0 }

func (h *holdHeap) Swap(i, j int) {
	list := *h
	list[i], list[j] = list[j], list[i]
	list[i].place, list[j].place = i, j
}

func compareEnds(a, b *hold) int {
	return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.id, b.id))
}

func (h *holdHeap) Push(x any) {
	added := x.(*hold) //nolint:forcetypeassert // only holds are pushed
	added.place = len(*h)
	*h = append(*h, added)
}

func (h *holdHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}

// open returns the number of holds.
func (h *holdSet) open() int64 {
	if h == nil {
		return 0
	}
	return int64(len(h.ends))
}

// heldUnits returns the units of all holds.
func (h *holdSet) heldUnits() int64 {
	if h == nil {
		return 0
	}
	return h.units
}

func (h *holdSet) add(id string, units, end int64) {
	id = strings.Clone(id) // it may be a part of a large request
	added := &hold{id: id, units: units, end: end}
	h.byID[id] = added
	heap.Push(&h.ends, added)
	h.units += units
}

func (h *holdSet) remove(of *hold) {
	heap.Remove(&h.ends, of.place)
	delete(h.byID, of.id)
	h.units -= of.units
}

// find returns the open hold with the ID, or nil.
func (h *holdSet) find(id string, now int64) *hold {
	if h == nil {
		return nil
	}
	if found := h.byID[id]; found != nil && found.end > now {
		return found
	}
	return nil
}

// has reports whether the hold is there. It may have ended, and not be spent yet.
func (h *holdSet) has(id string) bool { return h != nil && h.byID[id] != nil }

// holdsOf returns the holds of the caller, or nil. It drops those that are not needed any more.
func (s *shard) holdsOf(c uint32, of stateID, now int64) *holdSet {
	n := s.stateOf(c, of, now)
	h := s.holds[n]
	if h != nil && h.until <= now {
		s.states.at(n).gone = 0
		return nil
	}
	return h
}

// storeHolds sets when the holds of the entry expire.
func (e *entry) storeHolds() {
	n := e.shard.stateOf(e.caller, e.holdsID, e.now)
	if n == 0 {
		n = e.shard.put(e.ensureCaller(), state{id: e.holdsID}, e.now)
	}
	e.shard.holds[n] = e.holds
	gone := int64(0)
	if e.holds.open() > 0 {
		gone = e.holds.lastMilli() + 1
	} else {
		e.holds = nil
	}
	e.shard.states.at(n).gone = gone
}

// lastMilli returns the last millisecond in which the holds are kept, and what settling needs.
func (h *holdSet) lastMilli() int64 { return (h.until+999)/1000 + 1 }

// settle spends the holds of the entry that have ended, as of their ends. A peek does so, too.
func (d *decision) settle(e *entry, r *quota.EntryReply) {
	if e.holds.open() == 0 || !e.policy.SettlesHolds() || e.holds.ends[0].end > e.now {
		return
	}
	peek, views, states := e.peek, len(d.views), len(d.opened)
	e.peek = false
	d.open(e)
	for e.holds.open() > 0 && e.holds.ends[0].end <= e.now && r.Settled < quota.MostSettled {
		ended := e.holds.ends[0]
		e.holds.remove(ended)
		e.shard.charges.remember(e.chargeID(ended.id), e.now)
		r.Settled++
		for i := range e.views {
			v := &e.views[i]
			if v.limit.Algorithm != quota.SlidingLog || v.settled < r.Settled {
				v.settled = r.Settled // limits that share a log settle in it once
				v.algorithm.settle(v, ended.units, ended.end)
			}
		}
	}
	for i := range e.views {
		e.views[i].algorithm.endSettling(&e.views[i])
	}
	e.storeHolds()
	e.store()
	e.ends = e.shard.ends(e.caller)
	clear(d.views[views:])
	clear(d.opened[states:])
	d.views, d.opened, e.peek = d.views[:views], d.opened[:states], peek
}

// judgeReserve sets the outcome of an entry that reserves, if its hold is open or has no room.
func (e *entry) judgeReserve(r *quota.EntryReply) {
	if found := e.holds.find(e.holdID, e.now); found != nil {
		r.Hold, r.Estimate = quota.HoldFound, found.units
		return
	}
	if r.Verdict == quota.Admitted && (e.holds.has(e.holdID) || e.holds.open() >= e.policy.MaxOpen()) {
		r.Verdict, r.Hold = quota.Denied, quota.HoldsFull
	}
}

// repeats reports whether the call took the hold of the entry before.
func (e *entry) repeats(r *quota.EntryReply) bool {
	return e.policy.TakesHold(e.action) && r.Hold == quota.HoldFound
}

// admitRepeated admits an entry of a call that repeats an earlier one, unless its hold is missing.
func (e *entry) admitRepeated(r *quota.EntryReply) {
	if e.policy.TakesHold(e.action) && r.Hold != quota.HoldFound {
		return
	}
	e.repeated = true
	r.Verdict, r.BlockLeft, r.BlockedBy = quota.Admitted, 0, ""
	for i := range r.Limits {
		r.Limits[i].Admits, r.Limits[i].Shed = true, false
	}
}

// takeHold holds the cost.
func (e *entry) takeHold(r *quota.EntryReply) {
	if e.holds == nil {
		e.holds = &holdSet{byID: map[string]*hold{}, windows: map[stateID]int64{}}
	}
	end := e.now + e.ttl.Microseconds()
	e.holds.add(e.holdID, e.cost, end)
	r.Hold = quota.HoldTaken
	e.extend(end)
}

// extend keeps the holds, and what settling them needs, for a hold with that end.
func (e *entry) extend(end int64) {
	e.holds.until = max(e.holds.until, end+e.policy.KeptAfterEnd())
	e.storeHolds()
	for i := range e.views {
		e.views[i].algorithm.keep(&e.views[i])
	}
}

// change commits, renews or charges, and reports whether it spent units.
func (e *entry) change(r *quota.EntryReply) bool {
	found := e.holds.find(e.holdID, e.now)
	switch {
	case found != nil && e.action == quota.Renew:
		r.Hold, r.Estimate = quota.HoldFound, found.units
		found.end = e.now + e.ttl.Microseconds()
		heap.Fix(&e.holds.ends, found.place)
		e.extend(found.end)
		return false
	case found != nil && e.action != quota.Charge:
		r.Hold, r.Estimate = quota.HoldFound, found.units
		e.holds.remove(found)
		e.storeHolds()
		e.remember()
	case e.action == quota.Commit, e.action == quota.Renew,
		e.action == quota.CommitOrCharge && e.holds.has(e.holdID), !e.remember():
		r.Hold = quota.HoldMissing
		return false
	}
	spent := false
	for i := range e.views {
		if v := &e.views[i]; e.cost > 0 && !v.stateless() {
			v.algorithm.spend(v, true)
			v.spent, spent = true, true
		}
	}
	return spent
}

// stateless reports whether the limit has no state but the holds.
func (v *view) stateless() bool { return v.limit.Algorithm == quota.Concurrency }

// remember remembers the ID of a charge, and returns false if it was remembered already.
func (e *entry) remember() bool {
	if !e.remembers {
		return true
	}
	of := e.chargeID(e.holdID)
	if e.shard.charges.has(of, e.now) {
		return false
	}
	e.shard.charges.remember(of, e.now)
	return true
}

func (e *entry) chargeID(of string) chargeID { return chargeID{e.id, e.hashes.charge(of)} }

// waitsForHolds reports whether only holds keep the limit from admitting the cost.
func (v *view) waitsForHolds(admits bool) bool {
	return v.entry.holds.heldUnits() > 0 && !admits && v.algorithm.used(v)+v.entry.cost <= v.limit.Quota
}

// timeToFit returns the time until the limit of a denied entry admits the cost.
func (v *view) timeToFit(admits bool) time.Duration {
	e, held := v.entry, v.entry.holds.heldUnits()
	switch {
	case held == 0:
		return micros(v.algorithm.timeToFit(v))
	case admits:
		return 0
	case v.algorithm.used(v)+e.cost <= v.limit.Quota:
		return quota.HoldsWait
	case held+e.cost > v.limit.Quota:
		return max(micros(v.algorithm.timeToFit(v)), quota.HoldsWait)
	}
	e.cost += held
	wait := micros(v.algorithm.timeToFit(v))
	e.cost -= held
	return wait
}

// resetAfter returns the time until nothing is used, at the latest.
func (v *view) resetAfter() time.Duration {
	e, wait := v.entry, v.algorithm.resetAfter(v)
	if held := e.holds.heldUnits(); held > 0 {
		last := e.holds.until - e.policy.KeptAfterEnd() - e.now
		wait = max(wait, v.algorithm.afterLast(v, held, last, wait))
	}
	return micros(wait)
}

// Holds returns the open holds of the key that end first, at most the given number. It returns no
// error.
func (s *Store) Holds(_ context.Context, policy *quota.Policy, key quota.Key, most int) ([]quota.Hold, error) {
	of, number := s.hashes.caller(policy.ID(), key)
	sh := &s.shards[number]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.micros()
	h := sh.holdsOf(sh.index[of], s.hashes.state(policy.HoldsName()), now)
	if h == nil {
		return nil, nil
	}
	open := slices.DeleteFunc(slices.Clone(h.ends), func(other *hold) bool { return other.end <= now })
	slices.SortFunc(open, compareEnds)
	holds := make([]quota.Hold, min(most, len(open)))
	for i := range holds {
		holds[i] = quota.Hold{ID: open[i].id, Units: open[i].units, EndsIn: micros(open[i].end - now)}
	}
	return holds, nil
}
