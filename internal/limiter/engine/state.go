// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// The methods below are for operators. They work in every mode, even Disabled. They return
// the errors of Decide, and a *script.StoreError when Redis does not answer. A key is the
// list of its parts; nil is the shared budget of a policy without a key.

// Inspect returns the state of the key and writes nothing. The attributes select the
// override.
func (e *Engine) Inspect(ctx context.Context, id string, key []string, attributes plan.Attributes) (*limiter.KeyState, error) {
	k, err := e.locate(id, key)
	if err != nil {
		return nil, err
	}
	attributes.Normalize()
	state := &limiter.KeyState{Policy: id, Revision: k.revision}
	found := participant{policy: k.policy, variant: k.policy.base}
	if o, _ := k.policy.overrideOf(key, &attributes, attributes.Descriptors); o != nil {
		state.Override, state.Action = o.name, o.action
		if o.variant != nil {
			found.variant = o.variant
		}
	}
	reply, err := e.store.Evaluate(ctx, &script.Call{
		Entries: []script.Entry{{Policy: found.script, Key: k.key, Cost: 1, Peek: true}},
	})
	if err != nil {
		return nil, err
	}
	r := &reply.Entries[0]
	state.Limits = found.appendStates(nil, r)
	if r.Verdict == script.Blocked {
		state.Blocked, state.BlockedBy = true, r.BlockedBy
		state.BlockLeft = r.BlockLeft
	}
	return state, nil
}

// Reset deletes the counters and the block of the key, under every override and requested
// limit. It reports whether any existed in Redis. Of the state that replicas keep in memory for
// failureMode Local, it deletes that of this replica.
func (e *Engine) Reset(ctx context.Context, id string, key []string) (bool, error) {
	k, err := e.locate(id, key)
	if err != nil {
		return false, err
	}
	states := k.policy.allStates()
	if e.local != nil {
		_, _ = e.local.Reset(ctx, states, k.key) // it returns no error
	}
	return e.store.Reset(ctx, states, k.key)
}

// Block denies the key under this policy for length, in whole milliseconds from 1 ms to
// plan.MaxWindow. It replaces an existing block.
func (e *Engine) Block(ctx context.Context, id string, key []string, length time.Duration) error {
	k, err := e.locate(id, key)
	if err != nil {
		return err
	}
	if length < time.Millisecond || length > plan.MaxWindow || length%time.Millisecond != 0 {
		return &limiter.FieldError{Field: "duration", Problem: fmt.Sprintf("must be whole milliseconds, 1ms to %gh", plan.MaxWindow.Hours())}
	}
	return e.store.Block(ctx, k.policy.base.script, k.key, length)
}

// Unblock removes the block of the key and keeps its counters. It reports whether a block
// existed in Redis. A block that began while Redis did not answer is removed in this replica.
func (e *Engine) Unblock(ctx context.Context, id string, key []string) (bool, error) {
	k, err := e.locate(id, key)
	if err != nil {
		return false, err
	}
	if e.local != nil {
		_, _ = e.local.Unblock(ctx, k.policy.base.script, k.key) // it returns no error
	}
	return e.store.Unblock(ctx, k.policy.base.script, k.key)
}

// policyKey is one key of one policy, encoded for the store.
type policyKey struct {
	policy   *policy
	key      script.Key
	revision int64
}

// locate resolves the ID of a policy and encodes the key.
func (e *Engine) locate(id string, key []string) (*policyKey, error) {
	v := e.active.Load()
	if v == nil {
		return nil, limiter.ErrNotReady
	}
	if err := limiter.ValidateKey(key); err != nil {
		return nil, err
	}
	p := v.policies[v.snapshot.Lookup(id)]
	if p == nil {
		return nil, &limiter.UnknownPolicyError{Policy: id}
	}
	if key == nil && len(p.plan.Key) > 0 {
		return nil, &limiter.FieldError{Field: "key", Problem: "must be given: the policy has a key"}
	}
	return &policyKey{policy: p, key: script.EncodeKey(key...), revision: v.snapshot.Revision()}, nil
}

// KeyHash returns the hash that stands for the key in logs, which must not hold keys.
func (*Engine) KeyHash(key ...string) string { return keyHash(script.EncodeKey(key...)) }
