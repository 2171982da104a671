// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package denialcache

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

const (
	// denialShards and maxShardDenials bound the cache: 32,768 denials, about 25 MB.
	denialShards    = 64
	maxShardDenials = 512
)

// Store is the store behind a Cache.
type Store interface {
	store.Store

	// AnnounceChange announces to all replicas that the state of the key was changed. It returns no error: a replica
	// that misses it notices when it asks again, see Cache.
	AnnounceChange(ctx context.Context, key store.Key)
	// WatchChanges calls changed for each announced key, and missed when announcements may have been
	// lost, until ctx ends.
	WatchChanges(ctx context.Context, changed func(store.Key), missed func())
}

// Cache is a store that answers calls from memory which the store behind it has just denied. A denial of
// a call holds until the wait that the store returned ends, if the call would write nothing: its key is
// blocked, or its policies count admissions, start no blocks and are not Suppressed. Calls for
// the same policies and keys with the same cost are then denied without Redis. A larger cost is, if
// the limits deny it for the same time.
//
// A denial is dropped when its policy changes, and when the state of its key is changed by Reset,
// Block or Unblock on any replica that has the same Redis. While Redis does not answer, cached
// denials hold, and deny every chain with the same policy and key.
//
// A cached denial asks Redis again with one call a second, or less often if there are more than 100 denials: those that have
// waited longest ask, 100 a second, and each after 30 seconds. Before that the cache itself asks for a denial that still
// answers.
type Cache struct {
	store Store
	now   func() time.Time
	seed  maphash.Seed
	// changes counts changes of the state of keys, by hash of the key; a cached denial holds
	// only while the counts of its keys stay the same. allChanges counts the times when any
	// key may have changed.
	changes    [4096]atomic.Uint64
	allChanges atomic.Uint64
	shards     [denialShards]denialShard
	rechecks   rechecks
	forwarded  []Dropper
}

// Dropper drops what it remembers of a key, or of all keys.
type Dropper interface {
	Drop(key store.Key)
	DropAll()
}

type denialShard struct {
	mu      sync.Mutex
	denials map[uint64]*denial
}

// New returns an empty cache in front of the store. now is the clock that measures the
// age of denials.
func New(backend Store, now func() time.Time) *Cache {
	c := &Cache{store: backend, now: now, seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].denials = map[uint64]*denial{}
	}
	c.rechecks.refilled = now()
	return c
}

// Evaluate decides the call from memory or with the store. It returns what Store.Evaluate
// returns, with FromCache set in a reply from memory. If the store fails, a cached denial remains
// the answer.
func (c *Cache) Evaluate(ctx context.Context, call *store.Call) (*store.Reply, error) {
	if !mayBeCached(call) {
		return c.evaluate(ctx, call)
	}
	now := c.now()
	id, changes := c.identify(call)
	cached, recheck := c.shard(id).find(id, call, changes, now, &c.rechecks)
	if cached != nil && !recheck {
		return cached.replyTo(call, now), nil
	}
	reply, err := c.evaluate(ctx, call)
	if err == nil && !reply.Unanswered {
		c.shard(id).update(id, c.newDenial(call, reply, changes, now), call)
		c.updateEntries(call, reply, changes, now)
	}
	return reply, err
}

// evaluate decides the call with the store. If the store fails, cached denials may answer, also a peek,
// which must then not report that the key is admitted.
func (c *Cache) evaluate(ctx context.Context, call *store.Call) (*store.Reply, error) {
	reply, err := c.store.Evaluate(ctx, call)
	if err == nil || call.Uncached {
		return reply, err
	}
	if remembered := c.answerAlone(call); remembered != nil {
		return remembered, nil
	}
	return nil, err
}

// answerAlone returns the answer to a call that the store has not decided, or nil: a cached denial of the
// same cost, or a block, which denies every cost, of the chain or of one of its entries.
func (c *Cache) answerAlone(call *store.Call) *store.Reply {
	asked := call.Clone() // the call may still be in flight
	now := c.now()
	var reply *store.Reply
	if d := c.recall(asked, now); d != nil {
		reply = d.replyTo(asked, now)
	} else {
		reply = c.answerWithEntries(asked, now)
	}
	if reply != nil {
		reply.Unanswered = true
	}
	return reply
}

// identify returns a hash of the policies and keys of the call, and a number that changes with
// the state of its keys.
func (c *Cache) identify(call *store.Call) (id, changes uint64) {
	changes = c.allChanges.Load()
	for i := range call.Entries {
		e := &call.Entries[i]
		id = id*31 + maphash.Comparable(c.seed, e.Policy)
		key := maphash.String(c.seed, string(e.Key))
		id = id*31 + key
		changes += c.changesOf(key).Load()
	}
	return id, changes
}

func (c *Cache) changesOf(key uint64) *atomic.Uint64 {
	return &c.changes[key%uint64(len(c.changes))]
}

func (c *Cache) shard(id uint64) *denialShard { return &c.shards[id%denialShards] }

// find returns the cached denial of the call, or nil. recheck is true for the one caller that must ask Redis.
func (s *denialShard) find(id uint64, call *store.Call, changes uint64, now time.Time, budget *rechecks) (found *denial, recheck bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.lookUp(id, call, changes, now)
	if d == nil || !d.denies(call) {
		return nil, false
	}
	if recheck = budget.take(d.checked, now); recheck {
		d.checked = now
	} else {
		d.answered = true
	}
	return d, recheck
}

// lookUp returns the cached denial for the policies and keys of the call, at any cost, or nil. The
// caller holds the lock.
func (s *denialShard) lookUp(id uint64, call *store.Call, changes uint64, now time.Time) *denial {
	d := s.denials[id]
	if d == nil || !d.isFor(call) {
		return nil
	}
	if d.changes != changes || !now.Before(d.until) {
		delete(s.denials, id)
		return nil
	}
	return d
}

// update replaces the cached denial of the call by d, which is nil if the call is not denied.
func (s *denialShard) update(id uint64, d *denial, call *store.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.denials[id]
	if d == nil {
		if old != nil && old.isFor(call) && old.denies(call) {
			delete(s.denials, id)
		}
		return
	}
	if old == nil && len(s.denials) >= maxShardDenials {
		for other := range s.denials { // any one
			delete(s.denials, other)
			break
		}
	}
	s.denials[id] = d
}
