// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"slices"
	"sync"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/steps"
)

// decision is one call on its way to its reply.
type decision struct {
	store   *Store
	call    *store.Call
	reply   *store.Reply
	entries []entry
	steps   []steps.Entry // of the entries
	views   []view
	opened  []opened // of the views; a state that limits share is in it once
	// shards has a bit for each shard that the call uses.
	shards uint64
	now    int64 // microseconds
	// undecided are the indexes of the entries that prevent a decision.
	undecided []int
}

var decisions = sync.Pool{New: func() any { return &decision{} }}

func newDecision(s *Store, call *store.Call) *decision {
	d := decisions.Get().(*decision) //nolint:forcetypeassert // the pool holds only these
	d.store = s
	d.use(call)
	return d
}

// use sets the call to decide, in place of an earlier one.
func (d *decision) use(call *store.Call) {
	d.clear()
	d.call = call
	limits := 0
	for i := range call.Entries {
		e := &call.Entries[i]
		limits += len(e.Policy.Limits())
		of, shard := d.store.hashes.caller(e.Policy.ID(), e.Key)
		d.shards |= 1 << shard
		d.entries = append(d.entries, entry{
			Entry: e, peek: e.Peek, hashes: &d.store.hashes, id: of, shard: &d.store.shards[shard],
		})
	}
	// Pointers into the lists must stay valid.
	d.views, d.opened = slices.Grow(d.views, limits), slices.Grow(d.opened, limits)
}

// clear empties the decision, which keeps its memory and its store.
func (d *decision) clear() {
	clear(d.entries)
	clear(d.steps)
	clear(d.views)
	clear(d.opened)
	*d = decision{
		store: d.store, entries: d.entries[:0], steps: d.steps[:0], views: d.views[:0], opened: d.opened[:0], undecided: d.undecided[:0],
	}
}

// release returns the decision to the pool.
func (d *decision) release() {
	d.clear()
	d.store = nil
	decisions.Put(d)
}

// find looks up the callers, takes room for new ones, and sets the entries that prevent a
// decision. It returns noRoom if some of them are callers for which there is no room. Overflow
// budgets take no room. The shards of the call are locked.
func (d *decision) find(original []store.Entry) (noRoom bool) {
	d.undecided = d.undecided[:0]
	for i := range d.entries {
		e := &d.entries[i]
		e.now, e.caller = d.now, e.shard.index[e.id]
		key := d.call.Entries[i].Key // a commit may name an overflow key itself
		e.overflow = key != original[i].Key || e.Policy.IsOverflowKey(key)
		if e.caller != 0 {
			e.ends = e.shard.ends(e.caller)
			if len(e.shard.holds) > 0 && e.Policy.ReadsHolds() {
				e.holds = e.shard.holdsOf(e.caller, e.holdsID(), e.now)
			}
			e.isKnown = e.knows(d.store)
		}
		switch {
		case d.call.Entries[i].OnlyKnown && !e.isKnown, e.lacksRequestedState(d.store):
			d.undecided = append(d.undecided, i)
		case e.caller != 0 || e.overflow: // a caller whose states have expired keeps its room
		case d.store.takeRoom(e.peek):
			e.tookRoom = !e.peek
		default:
			noRoom = true
			d.undecided = append(d.undecided, i)
		}
	}
	if len(d.undecided) > 0 {
		d.giveBack()
	}
	return noRoom
}

// knows reports whether the caller has a state that one of the limits uses, or a block.
func (e *entry) knows(s *Store) bool {
	known := e.shard.stateOf(e.caller, blockID, e.now) != 0 || e.holds != nil
	limits := e.Policy.Limits()
	for i := range limits {
		stateless := limits[i].Algorithm == store.Concurrency
		known = known || !stateless && e.shard.stateOf(e.caller, s.hashes.state(e.Policy.StateName(i)), e.now) != 0
	}
	return known
}

// mostRequested is the most states of requested limits that refill which a caller may have.
const mostRequested = 16

// lacksRequestedState reports whether the requested limit of the entry has no state and no room
// for one.
func (e *entry) lacksRequestedState(s *Store) bool {
	requested := e.Policy.OwnState()
	if e.caller == 0 || requested < 0 {
		return false
	}
	if e.shard.stateOf(e.caller, s.hashes.state(e.Policy.StateName(requested)), e.now) != 0 {
		return false
	}
	return e.shard.count(e.caller, func(st *state) bool { return st.requested && st.exists(e.now) }) >= mostRequested
}

// giveBack gives back the room that was taken and is not used.
func (d *decision) giveBack() {
	for i := range d.entries {
		if e := &d.entries[i]; e.tookRoom {
			d.store.keys.Add(-1)
			e.tookRoom = false
		}
	}
}

// decideEntries decides the call at the time now.
func (d *decision) decideEntries() {
	d.reply = d.call.NewReply()
	for i := range d.entries {
		e := &d.entries[i]
		d.settle(e, &d.reply.Entries[i])
		d.open(e)
		d.steps = append(d.steps, steps.Entry{Entry: e.Entry, States: e, Holds: e.holds, Now: e.now, IsKnown: e.isKnown})
	}
	steps.Decide(d.call, d.reply, d.steps)
	for i := range d.entries {
		d.entries[i].store()
	}
	d.giveBack()
}

// open sets the views of the entry.
func (d *decision) open(e *entry) {
	limits, first, from := e.Policy.Limits(), len(d.views), len(d.opened)
	for i := range limits {
		l, opened := &limits[i], len(d.opened)
		d.views = append(d.views, view{
			opened: d.state(e, i, from), entry: e, limit: l, algorithm: algorithms[l.Algorithm],
			window: l.Window.Microseconds(), sharesLog: opened == len(d.opened),
		})
	}
	e.views = d.views[first:]
}

// state returns the state of limit i of the entry, to work on. It is among those opened from the
// given index on if an earlier limit shares it.
func (d *decision) state(e *entry, i, from int) *opened {
	of := d.store.hashes.state(e.Policy.StateName(i))
	for j := from; j < len(d.opened); j++ {
		if d.opened[j].id == of {
			return &d.opened[j]
		}
	}
	d.opened = append(d.opened, opened{})
	h := &d.opened[len(d.opened)-1]
	h.state = &h.own
	h.own.id, h.own.requested = of, i == e.Policy.OwnState()
	for _, b := range e.settled {
		if b.id == of {
			h.current, h.isCurrent = b.current, true
		}
	}
	if h.number = e.shard.stateOf(e.caller, of, e.now); h.number == 0 {
		return h
	}
	h.log, h.beside = e.shard.logs[h.number], e.shard.buckets[h.number]
	if stored := e.shard.states.at(h.number); e.peek {
		h.own = *stored
	} else {
		h.state = stored
	}
	return h
}

// Block returns the live block, if there is one.
func (e *entry) Block() (left time.Duration, by string, live bool) {
	block, by := e.shard.blockOf(e.caller, e.now)
	if block == nil {
		return 0, "", false
	}
	return steps.Duration(block.left(e.now)), by, true
}

// StartBlock starts a block, and returns the time until it ends.
func (e *entry) StartBlock(by string, length time.Duration) (left time.Duration) {
	block := e.shard.setBlock(e.ensureCaller(), by, e.now, length.Milliseconds())
	return steps.Duration(block.left(e.now))
}

// store stores the new states of the entry.
func (e *entry) store() {
	if e.peek {
		return
	}
	for i := range e.views {
		h := e.views[i].opened
		if !h.spent {
			continue
		}
		if h.number == 0 {
			h.number = e.shard.put(e.ensureCaller(), h.own, e.now)
			h.state = e.shard.states.at(h.number)
		}
		if h.log != nil {
			e.shard.logs[h.number] = h.log
		}
		if h.beside == (beside{}) {
			delete(e.shard.buckets, h.number)
		} else {
			e.shard.buckets[h.number] = h.beside
		}
	}
	switch {
	case e.unfiled:
		e.shard.file(e.caller)
	case e.caller != 0:
		e.shard.refile(e.caller, e.ends)
	}
}

// ensureCaller returns the caller of the entry, which it adds if needed.
func (e *entry) ensureCaller() uint32 {
	if e.caller == 0 {
		e.caller = e.shard.addCaller(e.id, e.overflow)
		e.unfiled, e.tookRoom = true, false
	}
	return e.caller
}
