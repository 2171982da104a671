// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// The methods below are for operators. They work in every mode, even Disabled. They return
// the errors of Decide, *limiter.UnknownKeyError for the hash of a key that is not listed, and a
// *store.Error when Redis does not answer.

// Inspect returns the state of the key in Redis, not a denial that the store remembers, and writes
// nothing. The attributes select the override.
func (e *Engine) Inspect(ctx context.Context, id string, key limiter.KeyName, attributes plan.Attributes) (*limiter.KeyState, error) {
	k, err := e.locate(ctx, id, key)
	if err != nil {
		return nil, err
	}
	attributes.Normalize()
	state := &limiter.KeyState{Policy: id, Revision: k.revision}
	selected := k.policy.overrideOf(k.parts, &k.groups, &attributes, attributes.Descriptors)
	if o := selected.override; o != nil {
		state.Override, state.Group, state.Action = o.name, selected.group, o.action
	}
	variant := cmp.Or(k.policy.selectedVariant(&selected), k.policy.base)
	if x := k.policy.exceptionFor(k.key, selected.override); x != nil {
		state.Exception, variant = x.state(), x.variantOf(k.policy.plan, variant)
	}
	found := chargedPolicy{policy: k.policy, group: selected.group, variant: variant}
	reply, err := e.options.Store.Evaluate(ctx, &store.Call{
		Entries: []store.Entry{{Policy: found.stored, Key: k.key, Cost: 1, Peek: true}}, Uncached: true,
	})
	if err != nil {
		return nil, err
	}
	r := &reply.Entries[0]
	state.Limits = found.appendStates(nil, r)
	if r.Verdict == store.Blocked {
		state.Blocked, state.BlockedBy = true, r.BlockedBy
		state.BlockLeft = r.BlockLeft
	}
	return state, e.addHolds(ctx, state, found.stored, k.key, r.Open)
}

// addHolds adds the open holds of the key: reservations or slices.
func (e *Engine) addHolds(ctx context.Context, state *limiter.KeyState, policy *store.Policy, key store.Key, open int64) error {
	var holds []store.Hold
	if open > 0 && e.options.Holds != nil {
		var err error
		if holds, err = e.options.Holds.Holds(ctx, policy, key, limiter.MaxListedHolds); err != nil {
			return err
		}
	}
	if !policy.TakesSlices() {
		state.Open = open
		for _, hold := range holds {
			state.Holds = append(state.Holds, limiter.OpenHold(hold))
		}
		return nil
	}
	state.OpenSlices = open
	for _, hold := range holds {
		state.Slices = append(state.Slices, limiter.OpenHold{Units: hold.Units, EndsIn: hold.EndsIn})
	}
	return nil
}

// Reset deletes the counters and the block of the key, under every override and requested
// limit. It reports whether any existed in Redis. Replicas also keep states in memory for failureMode
// Local: it deletes the state in this replica.
func (e *Engine) Reset(ctx context.Context, id string, key limiter.KeyName) (bool, error) {
	k, err := e.locate(ctx, id, key)
	if err != nil {
		return false, err
	}
	states := k.policy.allStates()
	if e.options.Local != nil {
		_, _ = e.options.Local.Reset(ctx, states, k.key) // it returns no error
	}
	found, err := e.options.Store.Reset(ctx, states, k.key)
	if candidates := k.policy.allTrialStates(); candidates != nil && err == nil {
		_, err = e.options.Store.Reset(ctx, candidates, k.key)
	}
	return found, e.unlist(ctx, k, err)
}

// Block denies the key under this policy for length, in whole milliseconds from 1 ms to
// plan.MaxWindow. It replaces an existing block.
func (e *Engine) Block(ctx context.Context, id string, key limiter.KeyName, length time.Duration) error {
	k, err := e.locate(ctx, id, key)
	if err != nil {
		return err
	}
	if length < time.Millisecond || length > plan.MaxWindow || length%time.Millisecond != 0 {
		return &limiter.FieldError{Field: "duration", Problem: fmt.Sprintf("must be whole milliseconds, 1ms to %gh", plan.MaxWindow.Hours())}
	}
	err = e.options.Store.Block(ctx, k.policy.base.stored, k.key, length)
	if c := k.policy.base.trial; c != nil && err == nil {
		err = e.options.Store.Block(ctx, c.stored, k.key, length)
	}
	if err == nil && e.options.Observer != nil {
		_ = e.options.Observer.AddBlock(ctx, id, k.key, length) // as in unlist
	}
	return err
}

// Unblock removes the block of the key and keeps its counters. It reports whether a block
// existed in Redis. A block that began while Redis did not answer is removed in this replica.
func (e *Engine) Unblock(ctx context.Context, id string, key limiter.KeyName) (bool, error) {
	k, err := e.locate(ctx, id, key)
	if err != nil {
		return false, err
	}
	return e.unblock(ctx, k)
}

// unblock removes the block of the key from the stores, and from the list.
func (e *Engine) unblock(ctx context.Context, k *policyKey) (bool, error) {
	if e.options.Local != nil {
		_, _ = e.options.Local.Unblock(ctx, k.policy.base.stored, k.key) // it returns no error
	}
	found, err := e.options.Store.Unblock(ctx, k.policy.base.stored, k.key)
	if c := k.policy.base.trial; c != nil && err == nil {
		_, err = e.options.Store.Unblock(ctx, c.stored, k.key)
	}
	return found, e.unlist(ctx, k, err)
}

// unlist removes the key from the list of blocks, unless lifting its block failed with err, which it
// returns. Readers of the list ask the store for each block, so errors of the list are ignored.
func (e *Engine) unlist(ctx context.Context, k *policyKey, err error) error {
	if err == nil && e.options.Observer != nil {
		_ = e.options.Observer.RemoveBlock(ctx, k.policy.id, k.key)
	}
	return err
}

// Bounds of UnblockAll: the blocks in one list, and the blocks that are lifted at the same time.
const (
	maxUnblocked    = store.MaxListedBlocks
	unblockedAtOnce = 16
)

// UnblockAll removes all listed blocks of the policy and returns their number.
func (e *Engine) UnblockAll(ctx context.Context, id string) (int, error) {
	_, p, err := e.policyOf(id)
	if err != nil || e.options.Observer == nil {
		return 0, err
	}
	blocks, err := e.options.Observer.BlockedKeys(ctx, id, maxUnblocked)
	if err != nil {
		return 0, err
	}
	var lifted atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(unblockedAtOnce)
	for _, b := range blocks {
		group.Go(func() error {
			found, err := e.unblock(ctx, &policyKey{policy: p, key: b.Key})
			if found {
				lifted.Add(1)
			}
			return err
		})
	}
	err = group.Wait()
	return int(lifted.Load()), err
}

// policyKey is one key of one policy, encoded for the store.
type policyKey struct {
	policy   *policy
	key      store.Key
	parts    []string // of the key
	groups   groupSet
	revision int64
}

// locate resolves the ID of a policy and encodes the key.
func (e *Engine) locate(ctx context.Context, id string, name limiter.KeyName) (*policyKey, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	v, p, err := e.policyOf(id)
	if err != nil {
		return nil, err
	}
	k := &policyKey{policy: p, revision: v.snapshot.Revision()}
	if name.Hash != "" {
		if k.key, err = e.listedKey(ctx, id, name.Hash); err != nil {
			return nil, err
		}
		k.parts = p.partsOf(k.key, v.groups)
		k.groups = p.groupsOf(k.parts, v.groups)
		return k, nil
	}
	if name.Parts == nil && len(p.plan.Key) > 0 {
		return nil, &limiter.FieldError{Field: "key", Problem: "is required: the policy has a key"}
	}
	k.key, k.parts = store.EncodeKey(name.Parts...), name.Parts
	k.groups = p.groupsOf(k.parts, v.groups)
	return k, nil
}

// policyOf returns the policy in the current snapshot.
func (e *Engine) policyOf(id string) (*preparedSnapshot, *policy, error) {
	v := e.active.Load()
	if v == nil {
		return nil, nil, limiter.ErrNotReady
	}
	p, err := v.policyOf(id)
	return v, p, err
}

// listedKey returns the key of the policy that is listed with the hash.
func (e *Engine) listedKey(ctx context.Context, id, hash string) (store.Key, error) {
	var key store.Key
	if e.options.Observer != nil {
		var err error
		if key, err = e.options.Observer.Resolve(ctx, id, hash); err != nil {
			return "", err
		}
	}
	if key == "" {
		return "", &limiter.UnknownKeyError{Policy: id, Hash: hash}
	}
	return key, nil
}

// KeyHash returns the hash that stands for the key in logs, which must not hold keys.
func (*Engine) KeyHash(key ...string) string { return store.EncodeKey(key...).Hash() }
