// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/flood"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// newBudget returns the budget of new keys of the policy. It keeps what the policy has counted before its edit; before
// is nil for a new policy.
func (p *policy) newBudget(before *policy, limits flood.Limits) *flood.Budget {
	now := time.Now() //nolint:forbidigo // as in Decide
	if before != nil {
		return before.newKeys.ForLongest(p.longestState(), now)
	}
	return flood.NewBudget(limits, p.longestState(), now)
}

// newIDBudget returns the budget of the IDs that the store remembers for the policy: as many as keys, and counted apart from
// these. before is nil for a new policy.
func newIDBudget(before *policy, limits flood.Limits) *flood.Budget {
	if before != nil {
		return before.ids
	}
	return flood.NewBudget(limits, store.ChargeMemory, time.Now()) //nolint:forbidigo // as in Decide
}

// protectIDs leaves the IDs of charges out of the store for the policies whose budget of IDs is spent, or for all if the store
// is low on memory.
func (o *operations) protectIDs(memoryLow bool, now time.Time) {
	for _, op := range o.all() {
		op.entry.Forgets = memoryLow || op.ids.Exhausted(now)
	}
}

// countIDs counts the IDs that the store remembers now.
func (o *operations) countIDs(now time.Time) {
	for _, op := range o.all() {
		if r := op.reply; r != nil && op.entry.Remembers() && r.Hold != store.HoldMissing {
			op.ids.Begin(now, store.MemoryOf(op.entry.ID))
		}
	}
}

// longestState returns the longest life of a state of the policy.
func (p *policy) longestState() time.Duration {
	longest := p.plan.Reservations.MaxTTL()
	for _, v := range p.variants() {
		for _, l := range v.limits {
			longest = max(longest, l.LongestWindow(), l.LongestBlock())
		}
	}
	return longest
}

// lifeOf returns how long the state that the check began exists: a block and a window until they
// end, a bucket until it is full.
func (cp *chargedPolicy) lifeOf(r *store.EntryReply) time.Duration {
	life := r.BlockLeft
	for i := range cp.limits {
		if l := &cp.limits[i]; l.Algorithm.Refills() {
			life = max(life, r.Limits[i].ResetAfter)
		} else {
			life = max(life, l.LongestWindow())
		}
	}
	return life
}

// protect lets the policies whose budget of new keys is spent, or all if the store is low on
// memory, decide unknown keys by their overflow key. Keys of groups that the policy selects, and keys with an exception,
// are known.
func (o *operations) protect(memoryLow bool, now time.Time) {
	for _, op := range o.all() {
		op.entry.OnlyKnown = !op.known && op.exception == nil && (memoryLow || op.newKeys.Exhausted(now))
	}
}

// countNewKeys counts the unknown keys that the policies have begun.
func (o *operations) countNewKeys(now time.Time) {
	for _, op := range o.all() {
		if r := op.reply; r != nil && r.Began && !r.Overflow && !op.known {
			op.newKeys.Begin(now, op.lifeOf(r)+op.entry.TTL)
		}
	}
}
