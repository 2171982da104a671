// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"time"
)

// Reset forgets everything about the key in the policy, in all its variants:
// what was spent and whether it is blocked. It reports whether there was
// anything. Errors are *StoreError.
func (s *Store) Reset(ctx context.Context, policy *Policy, key Key) (bool, error) {
	keys := make([]string, len(policy.allKeys))
	for i, suffix := range policy.allKeys {
		keys[i] = s.key(key, suffix)
	}
	deleted, err := s.client.Del(ctx, keys...).Result()
	return deleted > 0, storeError(ctx, err)
}

// Block denies the key everything by this policy for so long, in whole
// milliseconds, whether or not it was blocked before. Errors are *StoreError.
func (s *Store) Block(ctx context.Context, policy *Policy, key Key, length time.Duration) error {
	return storeError(ctx, s.client.Set(ctx, s.key(key, blockKey(policy.id)), manualBlock, length).Err())
}

// manualBlock stands where a block otherwise names the limit that started it.
const manualBlock = ""

// Unblock lifts the block of the key, whoever set it; what was spent stays
// spent. It reports whether there was one. Errors are *StoreError.
func (s *Store) Unblock(ctx context.Context, policy *Policy, key Key) (bool, error) {
	deleted, err := s.client.Del(ctx, s.key(key, blockKey(policy.id))).Result()
	return deleted > 0, storeError(ctx, err)
}

func storeError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return &StoreError{Cause: causeOf(ctx, err), Err: err}
}
