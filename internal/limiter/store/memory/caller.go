// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"hash/maphash"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// caller is one key of one policy. Like state it has no pointers.
type caller struct {
	id       id
	first    uint32 // number of its first state
	overflow bool   // it is the overflow budget of a policy, which takes no room
	link
}

// id identifies a caller by 128 bits of a hash with a random seed. Two callers with the same
// id would share their limits. Among a million callers the probability is below 10^-26, and
// clients cannot search for such keys, because the seed never leaves the process.
type id [2]uint64

// hashes are the random functions of one store.
type hashes struct {
	policies, keys [2]maphash.Seed
	states         maphash.Seed
}

func newHashes() hashes {
	h := hashes{states: maphash.MakeSeed()}
	for i := range h.keys {
		h.policies[i], h.keys[i] = maphash.MakeSeed(), maphash.MakeSeed()
	}
	return h
}

// caller returns the id of the key in the policy, and the shard that holds the key in every
// policy.
func (h *hashes) caller(policy string, key store.Key) (of id, shard int) {
	for i := range of {
		hash := maphash.String(h.keys[i], string(key))
		of[i] = hash ^ maphash.String(h.policies[i], policy)
		shard = int(hash % shardCount)
	}
	return of, shard
}

// stateID identifies a state of a caller. It is a hash of the name of the state.
type stateID uint64

// blockID is the state that holds the block of a caller.
const blockID stateID = 0

func (h *hashes) state(name string) stateID {
	return stateID(max(1, maphash.String(h.states, name)))
}

func (h *hashes) charge(of string) uint64 { return maphash.String(h.states, of) }

// state is the state of one limit, one log or one block.
type state struct {
	id stateID
	// gone is the first millisecond in which the state no longer exists, as in Redis, where a
	// key exists until the end of the millisecond of its expiry.
	gone int64
	// data is what the algorithm stores.
	data [3]int64
	next uint32 // number of the next state of the caller
	// requested is true for the state of a requested limit that refills.
	requested bool
}

// exists reports whether the state exists at the given microsecond.
func (s *state) exists(now int64) bool { return now/1000 < s.gone }

// left returns the microseconds until the state expires.
func (s *state) left(now int64) int64 { return (s.gone - now/1000) * 1000 }

// longestLife is the longest that a state is kept, in milliseconds: as in Redis.
const longestLife = 5e12

// expireAfter keeps the state for the given microseconds, and up to two milliseconds longer, as
// Redis does.
func (s *state) expireAfter(now, micros int64) {
	s.gone = now/1000 + min((micros+999)/1000+1, longestLife) + 1
}

// expireIn keeps the state for the given milliseconds, at least 2 as in Redis.
func (s *state) expireIn(now, millis int64) { s.gone = now/1000 + max(millis, 2) }
