// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import "context"

// Holds returns the open holds of the key that end first, at most the given number. Errors are
// *StoreError.
func (s *Store) Holds(ctx context.Context, policy *Policy, key Key, most int) ([]Hold, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	c := command{program: openHoldsProgram()}
	c.args = []any{"EVALSHA", c.program.sha, 2, s.key(key, policy.HoldsName()), s.key(key, holdSetName(policy.ID())), most}
	list, err := s.run(ctx, c)
	if err != nil {
		return nil, storeError(ctx, err)
	}
	holds := make([]Hold, len(list)/3)
	reply := replyCursor{values: list}
	for i := range holds {
		holds[i] = Hold{ID: reply.text(), Units: reply.number(), EndsIn: micros(reply.number())}
	}
	if reply.bad {
		return nil, &StoreError{Cause: CauseScript, Err: errReply}
	}
	return holds, nil
}
