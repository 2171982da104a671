// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// Reset deletes the spent units and the block of the key in all variants of the policy,
// and reports whether any existed. Errors are *store.Error.
func (s *Store) Reset(ctx context.Context, policy *store.Policy, key store.Key) (bool, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	names := policy.StateNames()
	keys := s.keys(key, slices.Concat(names, recordNames(policy)))
	deleted, err := s.execute(ctx, newFileCommand(resetProgram(), keys, len(names)))
	return len(deleted) > 0, storeError(ctx, err)
}

// recordNames returns the names of the keys in which scripts record facts about the states of the policy.
func recordNames(policy *store.Policy) []string {
	names := append(slices.Clone(policy.EscalationNames()), holdSetName(policy.ID()))
	if policy.IsRequestable() {
		names = append(names, listName(policy.ID()))
		for _, state := range policy.StateNames() {
			names = append(names, store.LargestName(state)) // it exists for logs only
		}
	}
	return names
}

// Block denies every check of the key by this policy for length, in whole milliseconds,
// in place of an existing block. Errors are *store.Error.
func (s *Store) Block(ctx context.Context, policy *store.Policy, key store.Key, length time.Duration) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	_, err := s.setBlock(ctx, policy, key, exactTTL(length))
	return err
}

// setBlock blocks the key for the milliseconds; 0 lifts its block. It reports whether the key was blocked.
func (s *Store) setBlock(ctx context.Context, policy *store.Policy, key store.Key, ttl int64) (was bool, err error) {
	found, err := s.execute(ctx, newFileCommand(setBlockProgram(), s.keys(key, []string{store.BlockName(policy.ID())}), ttl))
	return len(found) > 0, storeError(ctx, err)
}

// exactTTL returns the TTL in milliseconds of a key that exists for that time. Redis keeps a key
// until the end of the millisecond in which its TTL is 0, and has no shorter TTL than 1.
func exactTTL(length time.Duration) int64 { return max(length.Milliseconds()-1, 1) }

// Unblock deletes the block of the key, set by a limit or by Block, and reports whether
// one existed. Limits forget the blocks that they have started. Spent units stay spent. Errors are *store.Error.
func (s *Store) Unblock(ctx context.Context, policy *store.Policy, key store.Key) (bool, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if err := s.forgetBlocks(ctx, policy, key); err != nil {
		return false, err
	}
	return s.setBlock(ctx, policy, key, 0)
}

// forgetBlocks deletes the numbers of blocks that limits have started.
func (s *Store) forgetBlocks(ctx context.Context, policy *store.Policy, key store.Key) error {
	if len(policy.EscalationNames()) == 0 {
		return nil
	}
	return storeError(ctx, s.client.Del(ctx, s.keys(key, policy.EscalationNames())...).Err())
}
