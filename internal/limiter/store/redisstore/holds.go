// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// Holds returns the open holds of the key that end first, at most the given number. Errors are
// *store.Error.
func (s *Store) Holds(ctx context.Context, policy *store.Policy, key store.Key, most int) ([]store.Hold, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	keys := []string{s.key(key, policy.HoldsName()), s.key(key, holdSetName(policy.ID()))}
	list, err := s.execute(ctx, newFileCommand(openHoldsProgram(), keys, most))
	if err != nil {
		return nil, storeError(ctx, err)
	}
	holds := make([]store.Hold, len(list)/3)
	reply := replyCursor{values: list}
	for i := range holds {
		holds[i] = store.Hold{ID: reply.text(), Units: reply.number(), EndsIn: micros(reply.number())}
	}
	if reply.bad {
		return nil, &store.Error{Cause: store.CauseScript, Err: errReply}
	}
	return holds, nil
}
