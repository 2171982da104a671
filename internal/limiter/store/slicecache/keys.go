// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-dev/weir/internal/limiter/store"
)

const keyShards = 64

// keys are the keys of which this replica takes slices.
type keys struct {
	shards [keyShards]keyShard
	most   int64
	number atomic.Int64
}

type keyShard struct {
	mu   sync.RWMutex
	keys map[keyID]*hotKey
}

func (ks *keys) init(most int) {
	ks.most = int64(most)
	for i := range ks.shards {
		ks.shards[i].keys = map[keyID]*hotKey{}
	}
}

// shard returns the shard of the key, by the end of its text, in which keys differ most.
func (ks *keys) shard(key store.Key) *keyShard {
	sum := uint(0)
	for i := max(0, len(key)-4); i < len(key); i++ {
		sum = sum*31 + uint(key[i])
	}
	return &ks.shards[sum%keyShards]
}

// find returns the key of the entry, or nil.
func (ks *keys) find(e *store.Entry) *hotKey {
	if ks.number.Load() == 0 {
		return nil
	}
	s := ks.shard(e.Key)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys[keyID{e.Policy.ID(), e.Key}]
}

// sampled is the number of keys of which the coldest makes room for another one.
const sampled = 8

// findOrAdd returns the key of the entry. If there are too many keys, a colder one is evicted; it returns nil if none
// that it looks at is colder.
func (ks *keys) findOrAdd(e *store.Entry, rate int64, evict func(*hotKey)) *hotKey {
	if k := ks.find(e); k != nil {
		return k
	}
	s := ks.shard(e.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	id := keyID{e.Policy.ID(), store.Key(strings.Clone(string(e.Key)))}
	if k := s.keys[id]; k != nil {
		return k
	}
	if ks.number.Load() >= ks.most {
		coldest := s.coldest(rate)
		if coldest == nil {
			return nil
		}
		evict(coldest)
		ks.remove(s, coldest)
	}
	k := &hotKey{id: id}
	k.rate.Store(rate)
	s.keys[id] = k
	ks.number.Add(1)
	return k
}

// coldest returns the coldest of some keys that are colder than the rate, and stops it from taking slices; nil if there
// is none. The caller holds the lock.
func (s *keyShard) coldest(rate int64) (coldest *hotKey) {
	seen := 0
	for _, k := range s.keys {
		if r := k.rate.Load(); r < rate {
			rate, coldest = r, k
		}
		if seen++; seen == sampled {
			break
		}
	}
	if coldest == nil || !coldest.isTaking.CompareAndSwap(false, true) {
		return nil
	}
	return coldest
}

// remove forgets a key that takes no slices any more. The caller holds the lock of the shard.
func (ks *keys) remove(s *keyShard, k *hotKey) {
	delete(s.keys, k.id)
	ks.number.Add(-1)
}

// all visits all keys, each while its shard is locked.
func (ks *keys) all(visit func(*keyShard, *hotKey)) {
	for i := range ks.shards {
		if ks.number.Load() > 0 {
			ks.shards[i].all(visit)
		}
	}
}

func (s *keyShard) all(visit func(*keyShard, *hotKey)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		visit(s, k)
	}
}

// count returns the number of keys with a slice.
func (ks *keys) count() (n int) {
	ks.all(func(_ *keyShard, k *hotKey) {
		if k.current.Load() != nil {
			n++
		}
	})
	return n
}
