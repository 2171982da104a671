// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

const (
	// shardCount is the number of shards: one for each bit of decision.shards.
	shardCount = 64
	// expiredPerCall bounds the callers that a call looks at, in each of its shards, to remove
	// those that have expired. A call adds fewer.
	expiredPerCall = 32
	// reclaimed bounds those that a call looks at when the store is full.
	reclaimed = 1024
)

// Options configure a Store.
type Options struct {
	// Keys bounds the callers, which are the keys of each policy, that have states. Less than 1
	// is 1.
	Keys int
	// Now is the clock, which must never go back. Nil is one that starts with the time of the
	// machine and that setting the time of the machine does not change.
	Now func() time.Time
}

// Store decides calls in this process, with the same replies as redisstore.Store. It is safe for
// concurrent use.
//
// The states of a caller exist until the last of them expires. When the store is full, a caller
// that has none uses the overflow budget of the policy: one key, with the limits of the policy
// and without blocks. Its reply has Overflow. States that exist are never removed early, and
// Block always finds room.
type Store struct {
	shards [shardCount]shard
	hashes hashes
	now    func() time.Time
	limit  int64
	keys   atomic.Int64 // callers that have room, without overflow budgets
	lists  blockLists
}

// NewStore returns an empty store.
func NewStore(o Options) *Store {
	s := &Store{hashes: newHashes(), now: o.Now, limit: max(1, int64(o.Keys))}
	if s.now == nil {
		start := time.Now()                                                       //nolint:forbidigo // this is the clock
		s.now = func() time.Time { return start.Round(0).Add(time.Since(start)) } // without setting the time
	}
	for i := range s.shards {
		s.shards[i].init()
		s.shards[i].charges.most = max(leastCharges, o.Keys/shardCount)
	}
	return s
}

// Keys returns the number of callers that have states. Some may have expired.
func (s *Store) Keys() int { return int(s.keys.Load()) }

// micros returns the time in microseconds since 1970.
func (s *Store) micros() int64 { return s.now().UnixMicro() }

// Evaluate decides the call at one instant. It returns no error.
func (s *Store) Evaluate(_ context.Context, call *store.Call) (*store.Reply, error) {
	d := newDecision(s, call)
	var other *store.Substitution
	for reclaimed := false; ; {
		decided, noRoom := d.decideIfFound(call.Entries)
		if decided {
			break
		}
		if noRoom && !reclaimed {
			s.reclaim()
			reclaimed = true
			continue
		}
		if other == nil {
			other = store.NewSubstitution(call)
		}
		other.Replace(d.undecided)
		d.use(other.Call())
	}
	reply := d.reply
	d.release()
	if other != nil {
		other.Mark(reply)
	}
	return reply, nil
}

// decideIfFound decides the call if all its entries have states or room for them; noRoom reports that there is no room. A
// panic must not keep the shards locked: the servers recover from it.
func (d *decision) decideIfFound(entries []store.Entry) (decided, noRoom bool) {
	locked := d.lock()
	defer d.store.unlock(locked)
	d.now = d.store.micros()
	noRoom = d.find(entries)
	if len(d.undecided) > 0 {
		return false, noRoom
	}
	d.decideEntries()
	d.store.expireLocked(locked, d.now)
	return true, false
}

// expireLocked removes some expired callers from the locked shards.
func (s *Store) expireLocked(locked uint64, now int64) {
	for left := locked; left != 0; left &= left - 1 {
		s.expire(&s.shards[bits.TrailingZeros64(left)], now, expiredPerCall)
	}
}

// lock locks the shards of the call, always in the same order.
func (d *decision) lock() (locked uint64) {
	for left := d.shards; left != 0; left &= left - 1 {
		d.store.shards[bits.TrailingZeros64(left)].mu.Lock()
	}
	return d.shards
}

func (s *Store) unlock(locked uint64) {
	for left := locked; left != 0; left &= left - 1 {
		s.shards[bits.TrailingZeros64(left)].mu.Unlock()
	}
}

// takeRoom takes room for one caller, and reports whether there is any. A peek takes none.
func (s *Store) takeRoom(peek bool) bool {
	if peek {
		return s.keys.Load() < s.limit
	}
	if s.keys.Add(1) <= s.limit {
		return true
	}
	s.keys.Add(-1)
	return false
}

// expire removes expired callers of a locked shard; see shard.expire.
func (s *Store) expire(of *shard, now int64, most int) (seen int) {
	seen, freed := of.expire(now, most)
	if freed > 0 {
		s.keys.Add(-int64(freed))
	}
	return seen
}

// reclaim removes expired callers of all shards. No shard is locked.
func (s *Store) reclaim() {
	now := s.micros()
	for i, left := 0, reclaimed; i < shardCount && left > 0; i++ {
		sh := &s.shards[i]
		if sh.due.Load() > now/1000 {
			continue
		}
		sh.mu.Lock()
		left -= s.expire(sh, now, left)
		sh.mu.Unlock()
	}
}

// DropExpired removes all expired callers.
func (s *Store) DropExpired() {
	now := s.micros()
	for i := range s.shards {
		sh := &s.shards[i]
		for more := true; more; {
			sh.mu.Lock()
			more = s.expire(sh, now, reclaimed) == reclaimed
			sh.mu.Unlock()
		}
	}
}

// period is the time between two removals of expired callers while no calls come.
const period = time.Second

// Start removes expired callers, also while no calls come, until ctx ends.
func (s *Store) Start(ctx context.Context) error {
	every := time.NewTicker(period)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
			s.DropExpired()
		}
	}
}
