// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// Observer records which keys are denied and blocked.
type Observer interface {
	// Deny records that the policy denied the key, and Block that a block of the key began, which ends at
	// the given time. Decisions wait for both, so they must return at once. They must not keep the key,
	// which may be part of a large request.
	Deny(policy string, key store.Key)
	Block(policy string, key store.Key, end time.Time)
	// AddBlock lists a block that an operator began, RemoveBlock removes one that was lifted.
	AddBlock(ctx context.Context, policy string, key store.Key, left time.Duration) error
	RemoveBlock(ctx context.Context, policy string, key store.Key) error
	// BlockedKeys returns live blocks of the policy; most is the largest number of them.
	BlockedKeys(ctx context.Context, policy string, most int) ([]store.Block, error)
	// Resolve returns the key of the policy that is listed with the hash, or "".
	Resolve(ctx context.Context, policy, hash string) (store.Key, error)
}

// observeBlocks passes the blocks that a change, which began at start, has started to the observer.
func (o *operations) observeBlocks(observer Observer, start time.Time) {
	for _, op := range o.all() {
		if op.reply != nil && op.reply.Verdict == store.BlockStarted {
			observer.Block(op.id, op.entry.Key, start.Add(op.reply.BlockLeft))
		}
	}
}

// observe passes the denials of the evaluation to the observer.
func (ev *evaluation) observe(o Observer) {
	for i := range ev.charged {
		op, inStore := ev.outcome(i)
		if op.peek || op.reply == nil || op.reply.Verdict == store.Admitted {
			continue
		}
		key := op.entry.Key
		o.Deny(op.id, key)
		// A block of failureMode Local exists in this process only.
		if op.reply.Verdict == store.BlockStarted && inStore {
			o.Block(op.id, key, ev.start.Add(op.reply.BlockLeft))
		}
	}
}

// markSightings records the policies that apply to the check, whatever they decided, and the targets that
// selected it. Peeks do not count.
func (ev *evaluation) markSightings() {
	for i := range ev.found {
		p := &ev.found[i]
		switch {
		case p.hits.Peek || p.plan.Mode == plan.ModeDisabled:
		case p.match >= 0 && len(p.plan.Matches[p.match].Targets) > 0:
			p.sightings.MarkTargets(ev.check.Attributes.Targets)
		default:
			p.sightings.Mark()
		}
	}
}
