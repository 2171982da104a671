// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

const (
	// hotChecks is the number of checks in one SliceAge from which a key takes slices. An exchange costs the store some
	// six checks, and a slice is exchanged when half of it is spent.
	hotChecks = 20
	// demandCounters is the number of counters. Keys that share one are hot earlier, which costs them takes of
	// nothing at most.
	demandCounters = 1 << 15
)

// demand counts the admitted checks of keys without slices.
type demand struct {
	seed maphash.Seed
	// counters returns the counters by hash of policy and key: the low 32 bits of the number of the period, then the
	// number of checks. The first check of a policy that takes slices makes them.
	counters func() *[demandCounters]atomic.Uint64
}

func newDemand() demand {
	return demand{
		seed:     maphash.MakeSeed(),
		counters: sync.OnceValue(func() *[demandCounters]atomic.Uint64 { return new([demandCounters]atomic.Uint64) }),
	}
}

// add counts a check of the entry. It returns the units that such checks demand in one SliceAge, or 0 if the key is not
// hot.
func (d *demand) add(e *store.Entry, now time.Duration) (units int64) {
	age := e.Policy.SliceAge()
	period, passed := uint64(now/age)&(1<<32-1), now%age //nolint:gosec // times since the start are positive
	checks := d.count(e, period)
	if checks < hotChecks {
		return 0
	}
	return demandOf(float64(checks)*float64(e.Cost), passed, age)
}

// maxDemand bounds the demand of a key.
const maxDemand = 1 << 40

// demandOf returns the demand in an age of a key that has spent the units in the time that has passed.
func demandOf(units float64, passed, age time.Duration) int64 {
	return int64(min(maxDemand, units*float64(age)/float64(max(passed, time.Millisecond))))
}

// count counts a check in the period, and returns the checks of the period.
func (d *demand) count(e *store.Entry, period uint64) (checks int64) {
	hash := maphash.String(d.seed, string(e.Key)) + maphash.String(d.seed, e.Policy.ID())
	counter := &d.counters()[hash%demandCounters]
	for {
		old := counter.Load()
		next := old + 1
		if old>>32 != period {
			next = period<<32 | 1
		}
		if counter.CompareAndSwap(old, next) {
			return int64(next & (1<<32 - 1))
		}
	}
}

// takeIfHot counts the admitted checks of a call that the store has decided. If all keys are hot, each takes a slice.
func (c *Cache) takeIfHot(call *store.Call, reply *store.Reply) {
	now := c.now()
	var units [mostEntries]int64
	isHot := true
	for i := range call.Entries {
		if r := &reply.Entries[i]; r.Verdict != store.Admitted || call.Entries[i].OnlyKnown {
			return // a slice would make the key known
		}
	}
	for i := range call.Entries {
		units[i] = c.demand.add(&call.Entries[i], now)
		isHot = isHot && units[i] > 0
	}
	if !isHot {
		return
	}
	for i := range call.Entries {
		e := &call.Entries[i]
		if k := c.keys.findOrAdd(e, units[i], c.evict); k != nil && k.current.Load() == nil {
			c.startTake(k, e.Policy, units[i], now)
		}
	}
}

// takeNext takes the slice after s, of which `left` units remain.
func (c *Cache) takeNext(k *hotKey, s *slice, left int64, now time.Duration) {
	if k.isTaking.Load() {
		return
	}
	c.startTake(k, s.policy, demandOf(float64(s.units-left), now-s.received, s.policy.SliceAge()), now)
}
