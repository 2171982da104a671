// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// Holds returns the open holds of the key that end first, at most the given number. Errors are
// *StoreError.
func (s *Store) Holds(ctx context.Context, policy *quota.Policy, key quota.Key, most int) ([]quota.Hold, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	keys := []string{s.key(key, policy.HoldsName()), s.key(key, holdSetName(policy.ID()))}
	list, err := s.execute(ctx, newFileCommand(openHoldsProgram(), keys, most))
	if err != nil {
		return nil, storeError(ctx, err)
	}
	holds := make([]quota.Hold, len(list)/3)
	reply := replyCursor{values: list}
	for i := range holds {
		holds[i] = quota.Hold{ID: reply.text(), Units: reply.number(), EndsIn: micros(reply.number())}
	}
	if reply.bad {
		return nil, &quota.StoreError{Cause: quota.CauseScript, Err: errReply}
	}
	return holds, nil
}
