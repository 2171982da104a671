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

// The operations below are for operators. They know keys as their parts: nil is
// the shared budget of a policy without a key. They work in every mode, also
// Disabled. Errors are those of Decide, *script.StoreError included: nothing is
// done or said without Redis.

// Inspect returns the state of the key and writes nothing. The attributes
// matter to overrides only.
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
	reply, err := e.evaluate(ctx, &script.Call{
		Entries: []script.Entry{{Policy: found.script, Key: k.key, Cost: 1, Peek: true}},
	})
	if err != nil {
		return nil, err
	}
	r := &reply.Entries[0]
	state.Limits = found.appendStates(nil, r)
	if r.Verdict == script.Blocked {
		state.Blocked, state.BlockedBy, state.BlockLeft = true, r.BlockedBy, r.BlockLeft
	}
	return state, nil
}

// Reset forgets everything about the key: what was spent and whether it is
// blocked, under every override and requested limit. It reports whether there was anything.
func (e *Engine) Reset(ctx context.Context, id string, key []string) (bool, error) {
	k, err := e.locate(id, key)
	if err != nil {
		return false, err
	}
	ctx, cancel := e.withBudget(ctx)
	defer cancel()
	return e.store.Reset(ctx, k.policy.allStates(), k.key)
}

// Block refuses the key everything by this policy for so long, in place of a
// block there may be: whole milliseconds, 1 ms to plan.MaxWindow.
func (e *Engine) Block(ctx context.Context, id string, key []string, length time.Duration) error {
	k, err := e.locate(id, key)
	if err != nil {
		return err
	}
	if length < time.Millisecond || length > plan.MaxWindow || length%time.Millisecond != 0 {
		return &limiter.FieldError{Field: "duration", Problem: fmt.Sprintf("must be whole milliseconds, 1ms to %gh", plan.MaxWindow.Hours())}
	}
	ctx, cancel := e.withBudget(ctx)
	defer cancel()
	return e.store.Block(ctx, k.policy.base.script, k.key, length)
}

// Unblock lifts the block of the key, whoever set it; what was spent stays
// spent. It reports whether there was one.
func (e *Engine) Unblock(ctx context.Context, id string, key []string) (bool, error) {
	k, err := e.locate(id, key)
	if err != nil {
		return false, err
	}
	ctx, cancel := e.withBudget(ctx)
	defer cancel()
	return e.store.Unblock(ctx, k.policy.base.script, k.key)
}

// policyKey is one key of one policy.
type policyKey struct {
	policy   *policy
	key      script.Key
	revision int64
}

func (e *Engine) locate(id string, key []string) (*policyKey, error) {
	v := e.current.Load()
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

// KeyHash tells keys apart in logs, which must not hold them: keys are accounts,
// addresses and tokens of callers. Equal keys have equal hashes everywhere.
func (*Engine) KeyHash(key ...string) string { return keyHash(script.EncodeKey(key...)) }
