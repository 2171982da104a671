// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// judgeReserve sets the outcome of an entry that reserves, if its hold is open or has no room.
func (e *Entry) judgeReserve(r *store.EntryReply) {
	found, isOpen := e.Holds.find(e.ID, e.Now)
	if isOpen {
		r.Hold, r.Estimate = store.HoldFound, found.units
		return
	}
	if r.Verdict == store.Admitted && (found != nil || e.Holds.Len() >= e.Policy.MaxOpen()) {
		r.Verdict, r.Hold = store.Denied, store.HoldsFull
	}
}

// foundHold reports whether an earlier call took the hold of the entry.
func (e *Entry) foundHold(r *store.EntryReply) bool {
	return e.Policy.TakesHold(e.Action) && r.Hold == store.HoldFound
}

// admitRepeated admits an entry of a call that repeats an earlier one, unless its hold is missing.
func (e *Entry) admitRepeated(r *store.EntryReply) {
	if e.Policy.TakesHold(e.Action) && r.Hold != store.HoldFound {
		return
	}
	e.isRepeated = true
	r.Verdict, r.BlockLeft, r.BlockedBy = store.Admitted, 0, ""
	for i := range r.Limits {
		r.Limits[i].Admits, r.Limits[i].Shed = true, false
	}
}

// takeHold holds the units.
func (e *Entry) takeHold(units int64) {
	if e.Holds == nil {
		e.Holds = newHoldSet()
	}
	end := e.Now + e.TTL.Microseconds()
	e.Holds.add(e.ID, units, end)
	e.extend(end)
}

// extend keeps the holds, and what settling them needs, for a hold with that end.
func (e *Entry) extend(end int64) {
	e.Holds.until = max(e.Holds.until, end+e.Policy.KeptAfterEnd())
	e.StoreHolds(e.Holds)
	for i := range e.Policy.Limits() {
		if !e.isStateless(i) {
			e.Keep(i)
		}
	}
}

// takeSlice takes a slice, and reports whether it did. found is the hold with its ID, or nil.
func (e *Entry) takeSlice(r *store.EntryReply, found *hold) (taken bool) {
	held := e.Holds.Units()
	room := e.Policy.MostSliced() - held
	units := min(e.Cost, room, max(store.SmallestSlice, room/2))
	for i := range e.Policy.Limits() {
		if free := e.limit(i).Quota - e.used(i) - held; free < 2*units {
			units = free / 2
		}
	}
	_, _, blocked := e.Block()
	if found != nil || blocked || units < store.SmallestSlice {
		r.Hold = store.HoldsFull
		return false
	}
	e.takeHold(units)
	r.Hold, r.Estimate = store.HoldTaken, units
	return true
}

// change commits, renews, charges or takes a slice, and reports whether it spent units or took a slice.
func (e *Entry) change(r *store.EntryReply) (spent bool) {
	found, isOpen := e.Holds.find(e.ID, e.Now)
	switch {
	case isOpen && e.Action == store.TakeSlice:
		r.Hold, r.Estimate = store.HoldFound, found.units
		return false
	case e.Action == store.TakeSlice:
		return e.takeSlice(r, found)
	case isOpen && e.Action == store.Renew:
		r.Hold, r.Estimate = store.HoldFound, found.units
		end := e.Now + e.TTL.Microseconds()
		e.Holds.renew(found, end)
		e.extend(end)
		return false
	case isOpen && e.Action != store.Charge:
		r.Hold, r.Estimate = store.HoldFound, found.units
		e.Holds.remove(found)
		e.StoreHolds(e.Holds)
		e.remember()
	case e.Action == store.Commit, e.Action == store.Renew,
		e.Action == store.CommitOrCharge && found != nil, !e.remember():
		r.Hold = store.HoldMissing
		return false
	}
	return e.Cost > 0 && e.spendLimits(true)
}

// remember remembers the ID as the ID of a charge, and returns false if it was remembered already.
func (e *Entry) remember() bool { return !e.Remembers() || e.Remember(e.ID) }

// waitsForHolds reports whether only holds keep limit i from admitting the cost.
func (e *Entry) waitsForHolds(r *store.EntryReply, i int) bool {
	return e.Holds.Units() > 0 && !r.Limits[i].Admits && e.used(i)+e.Cost <= e.limit(i).Quota
}

// retryAfter returns the time until limit i admits the cost of a denied entry.
func (e *Entry) retryAfter(i int, held int64, admits bool) time.Duration {
	switch quotaOf := e.limit(i).Quota; {
	case held == 0:
		return e.timeToFit(i, e.Cost)
	case admits:
		return 0
	case e.used(i)+e.Cost <= quotaOf:
		return store.HoldsWait
	case held+e.Cost > quotaOf:
		return max(e.timeToFit(i, e.Cost), store.HoldsWait)
	}
	return e.timeToFit(i, e.Cost+held)
}

// resetAfter returns the time until nothing is used, at the latest.
func (e *Entry) resetAfter(i int, held int64) time.Duration {
	wait := int64(0)
	if !e.isStateless(i) {
		wait = e.ResetAfter(i)
	}
	if held > 0 {
		last := e.Holds.until - e.Policy.KeptAfterEnd() - e.Now // the end of the last hold
		if e.isStateless(i) {
			wait = max(0, last)
		} else {
			wait = max(wait, e.AfterLast(i, held, last, wait))
		}
	}
	return Duration(wait)
}
