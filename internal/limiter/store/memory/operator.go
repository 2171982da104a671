// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// Reset deletes the spent units and the block of the key in all variants of the policy, and
// reports whether any existed. It returns no error.
func (s *Store) Reset(_ context.Context, policy *store.Policy, key store.Key) (bool, error) {
	states := append([]stateID{blockID}, s.statesOf(policy.StateNames()[1:])...) // the first is the block
	existed := s.drop(policy, key, func(st *state) bool {
		return slices.Contains(states, st.id) || st.requested && policy.IsRequestable()
	})
	s.forgetBlocks(policy, key)
	return existed, nil
}

func (s *Store) statesOf(names []string) []stateID {
	ids := make([]stateID, len(names))
	for i, name := range names {
		ids[i] = s.hashes.state(name)
	}
	return ids
}

// forgetBlocks deletes the numbers of blocks that limits have started.
func (s *Store) forgetBlocks(policy *store.Policy, key store.Key) {
	if counts := s.statesOf(policy.EscalationNames()); len(counts) > 0 {
		s.drop(policy, key, func(st *state) bool { return slices.Contains(counts, st.id) })
	}
}

// Unblock deletes the block of the key and reports whether one existed. Limits forget the blocks
// that they have started. Spent units stay spent. It returns no error.
func (s *Store) Unblock(_ context.Context, policy *store.Policy, key store.Key) (bool, error) {
	s.forgetBlocks(policy, key)
	return s.drop(policy, key, func(st *state) bool { return st.id == blockID }), nil
}

// Block denies every check of the key by this policy for length, in whole milliseconds, in
// place of an existing block. It finds room even if the store is full. It returns no error.
func (s *Store) Block(_ context.Context, policy *store.Policy, key store.Key, length time.Duration) error {
	sh, of, c := s.lockCaller(policy.ID(), key)
	defer sh.mu.Unlock()
	isNew := c == 0
	if isNew {
		s.keys.Add(1)
		c = sh.addCaller(of, false)
	}
	before := sh.ends(c)
	sh.setBlock(c, manualBlock, s.micros(), length.Milliseconds())
	if isNew {
		sh.file(c)
	} else {
		sh.refile(c, before)
	}
	return nil
}

// lockCaller returns the locked shard of the key, its id in the policy, and the number of that caller there, 0 for none.
func (s *Store) lockCaller(policy string, key store.Key) (sh *shard, of id, c uint32) {
	of, number := s.hashes.caller(policy, key)
	sh = &s.shards[number]
	sh.mu.Lock()
	return sh, of, sh.index[of]
}

// drop removes the states of the key that match and reports whether any of them existed.
func (s *Store) drop(policy *store.Policy, key store.Key, matches func(*state) bool) (existed bool) {
	sh, _, c := s.lockCaller(policy.ID(), key)
	defer sh.mu.Unlock()
	if c == 0 {
		return false
	}
	now := s.micros()
	sh.drop(c, func(st *state) bool {
		existed = existed || matches(st) && st.exists(now)
		return matches(st)
	})
	if sh.callers.at(c).first == 0 {
		sh.wheel.remove(&sh.callers, c)
		sh.dropCaller(c)
		sh.setDue()
		s.keys.Add(-1)
	}
	return existed
}
