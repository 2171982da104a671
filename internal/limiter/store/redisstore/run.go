// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// run is successive calls of a batch with the same policies, for which the script prepares the
// limits once.
type run struct {
	calls []*pending
	// sameKeys is true for two or more calls that also have the same keys: the script reads and
	// writes their values once.
	sameKeys bool
}

// haveSameCosts reports whether the calls are checks whose entries have the same costs.
func (r *run) haveSameCosts() bool {
	first := r.calls[0].call.Entries
	for _, p := range r.calls {
		for i := range first {
			if e := &p.call.Entries[i]; e.Action != store.Check || e.Cost != first[i].Cost {
				return false
			}
		}
	}
	return true
}

// flags returns the flags that follow from the calls alone.
func (r *run) flags() (flags int) {
	first := r.calls[0]
	if first.call.Denied {
		flags |= runDenied
	}
	if first.mode.receipts {
		flags |= runReceipts
	}
	if r.sameKeys {
		flags |= runSameKeys
	}
	if first.mode.repeated {
		flags |= runRepeated
	}
	if first.mayTakeFastPath() {
		flags |= runFast
	}
	return flags
}

// runsOf divides a batch into runs.
func runsOf(batch []*pending) []run {
	runs := make([]run, 0, 4)
	for len(batch) > 0 {
		r := nextRun(batch)
		runs = append(runs, r)
		batch = batch[len(r.calls):]
	}
	return runs
}

// nextRun returns the run that begins with the first call of the batch: the calls equal to it or, without
// such calls, the following calls with the same policies.
func nextRun(batch []*pending) run {
	n := 1
	for n < len(batch) && batch[0].equals(batch[n]) {
		n++
	}
	if n > 1 {
		return run{calls: batch[:n], sameKeys: true}
	}
	keyBits := batch[0].keyBits
	for n < len(batch) && batch[n].mayJoin(batch[:n], keyBits) && !beginEqual(batch[n:]) {
		keyBits |= batch[n].keyBits
		n++
	}
	return run{calls: batch[:n]}
}

// beginEqual reports whether the first two calls are equal: they begin a run of equal calls.
func beginEqual(calls []*pending) bool { return len(calls) > 1 && calls[0].equals(calls[1]) }

// mayJoin reports whether the call may be in a run after these calls, which have keyBits. The calls of a run that
// fast.lua decides have different keys, because fast.lua reads all values before it writes.
func (p *pending) mayJoin(calls []*pending, keyBits uint64) bool {
	return calls[0].samePolicies(p) &&
		(keyBits&p.keyBits == 0 || !calls[0].mayTakeFastPath() || !slices.ContainsFunc(calls, p.overlaps))
}

// samePolicies reports whether the two calls differ only in keys, costs, IDs and draws, so that they may share
// a run.
func (p *pending) samePolicies(other *pending) bool {
	return p.mode == other.mode && p.call.Denied == other.call.Denied &&
		slices.EqualFunc(p.call.Entries, other.call.Entries, func(a, b store.Entry) bool {
			return a.Policy == b.Policy && a.Peek == b.Peek && a.OnlyKnown == b.OnlyKnown &&
				a.Action == b.Action && a.Remembers() == b.Remembers() && (a.TTL == b.TTL || !holdsAnew(&a))
		})
}

// mayTakeFastPath reports whether fast.lua may decide the call: a check by one policy that does no more than spend if
// it is admitted.
func (p *pending) mayTakeFastPath() bool {
	if p.mode != (mode{}) || p.call.Denied || len(p.call.Entries) != 1 {
		return false
	}
	e := &p.call.Entries[0]
	return e.Action == store.Check && preparedOf(e.Policy).hasFastPath
}

// equals reports whether the two calls differ only in costs and draws.
func (p *pending) equals(other *pending) bool {
	sameKeys := slices.EqualFunc(p.call.Entries, other.call.Entries, func(a, b store.Entry) bool {
		return a.Key == b.Key && (a.ID == b.ID || !a.Remembers())
	})
	return sameKeys && p.samePolicies(other)
}

// overlaps reports whether the two calls have a key in common.
func (p *pending) overlaps(other *pending) bool {
	if p.keyBits&other.keyBits == 0 {
		return false
	}
	for i := range p.call.Entries {
		for j := range other.call.Entries {
			if p.call.Entries[i].Key == other.call.Entries[j].Key {
				return true
			}
		}
	}
	return false
}

// gather moves calls of the batch that are equal next to each other, in the order of their
// arrival. A call only passes calls that have no key in common with it, so no decision changes.
func gather(batch []*pending) {
	keyBits, shared := uint64(0), uint64(0) // of all calls, and of two or more
	for _, p := range batch {
		shared |= keyBits & p.keyBits
		keyBits |= p.keyBits
	}
	for i := 0; i < len(batch); i++ {
		first, end := batch[i], i+1
		if first.keyBits&shared == 0 {
			continue
		}
		for j := end; j < len(batch); j++ {
			p := batch[j]
			if !first.overlaps(p) {
				continue
			}
			if !first.equals(p) {
				break
			}
			copy(batch[end+1:j+1], batch[end:j])
			batch[end] = p
			end++
		}
		i = end - 1
	}
}
