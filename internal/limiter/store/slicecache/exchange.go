// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"crypto/rand"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// holdTime returns how long the store keeps the hold of a slice, longer than the replica spends from it: by the
// difference of two clocks, and by the time that ending a slice takes.
func holdTime(p *store.Policy) time.Duration {
	return (p.SliceAge()*105/100 + 50*time.Millisecond).Truncate(time.Millisecond)
}

// startTake takes a slice of the key in the background, unless one is being taken, the key is paused, or this replica
// takes too many.
func (c *Cache) startTake(k *hotKey, p *store.Policy, units int64, now time.Duration) {
	if units < store.SmallestSlice || int64(now) < k.pausedUntil.Load() || c.isClosed.Load() {
		return
	}
	if !k.isTaking.CompareAndSwap(false, true) {
		return
	}
	if !c.exchanges.Allow() {
		k.isTaking.Store(false)
		return
	}
	k.rate.Store(units)
	c.inFlight.Go(func() {
		defer k.isTaking.Store(false)
		c.exchange(k, p, units)
	})
}

// exchange takes a slice, switches to it and commits the former one.
func (c *Cache) exchange(k *hotKey, p *store.Policy, units int64) {
	drops := k.drops.Load()
	sent := c.now()
	next := &slice{
		policy: p, key: k.id.key, id: rand.Text(), demand: units, ends: sent + p.SliceAge(), gone: sent + holdTime(p),
	}
	r := c.take(next)
	switch {
	case r == nil:
		c.metrics.exchanged(outcomeFailed)
		<-c.commit(next, 0) // the store may have decided the call
		return
	case r.Hold == store.HoldsFull:
		c.metrics.exchanged(outcomeNone)
		k.pause(p, c.now())
		return
	}
	c.metrics.exchanged(outcomeTaken)
	next.units, next.limits, next.received = r.Estimate, slices.Clone(r.Limits), c.now()
	if next.received >= next.ends || k.drops.Load() != drops || c.isClosed.Load() {
		<-c.commit(next, 0)
		return
	}
	next.left.Store(next.units)
	old := k.current.Swap(next)
	if k.drops.Load() != drops || c.isClosed.Load() {
		c.end(k, next, c.evaluate)
	}
	if old != nil {
		c.end(k, old, c.evaluate)
	}
}

// take sends the call that takes the slice, until the slice would have ended. It returns nil if the store
// does not answer.
func (c *Cache) take(s *slice) *store.EntryReply {
	return c.repeat(s.ends, store.Entry{
		Policy: s.policy, Key: s.key, Action: store.TakeSlice, ID: s.id, Cost: s.demand, TTL: holdTime(s.policy),
	})
}

// end ends the slice, unless it has ended, and commits it by the function. If the store does not answer, it is committed
// again in the background.
func (c *Cache) end(k *hotKey, s *slice, evaluate func(*store.Call) (*store.Reply, error)) {
	k.current.CompareAndSwap(s, nil)
	spent, first := s.seal()
	if !first {
		return
	}
	if r, err := evaluate(s.callToCommit(spent)); err == nil {
		c.metrics.committed(s, spent, &r.Entries[0])
		return
	}
	c.commit(s, spent)
}

func (s *slice) callToCommit(spent int64) *store.Call {
	return callOf(store.Entry{Policy: s.policy, Key: s.key, Action: store.Commit, ID: s.id, Cost: spent})
}

// callOf returns the call with the entry alone.
func callOf(e store.Entry) *store.Call { return &store.Call{Entries: []store.Entry{e}, Uncached: true} }

// minRetryWait and maxRetryWait bound the time between two attempts, which doubles: while the store fails, thousands of
// slices may wait for it.
const (
	minRetryWait = 10 * time.Millisecond
	maxRetryWait = 640 * time.Millisecond
)

// repeat sends the entry until the store answers; it returns nil if that does not happen before the time.
func (c *Cache) repeat(until time.Duration, e store.Entry) *store.EntryReply {
	for wait := minRetryWait; ; wait = min(2*wait, maxRetryWait) {
		reply, err := c.evaluate(callOf(e)) // after an error the store may still use the call
		if err == nil {
			return &reply.Entries[0]
		}
		if c.now() >= until {
			return nil
		}
		<-time.After(wait)
	}
}
