// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/flood"
	"github.com/weir-dev/weir/internal/limiter/quota"
)

// setBudgets gives each policy of the view its budget of new keys, and returns the budgets by policy
// ID. A policy keeps what it has counted when it is edited.
func (v *view) setBudgets(previous map[string]*flood.Budget, limits flood.Limits) map[string]*flood.Budget {
	budgets := make(map[string]*flood.Budget, len(v.policies))
	for _, p := range v.policies {
		if p.newKeys == nil { // no decision has seen the policy yet
			now := time.Now() //nolint:forbidigo // as in Decide
			if before := previous[p.id]; before != nil {
				p.newKeys = before.ForLongest(p.longestState(), now)
			} else {
				p.newKeys = flood.NewBudget(limits, p.longestState(), now)
			}
		}
		budgets[p.id] = p.newKeys
	}
	return budgets
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
func (pt *participant) lifeOf(r *quota.EntryReply) time.Duration {
	life := r.BlockLeft
	for i := range pt.limits {
		if l := &pt.limits[i]; l.Algorithm.Refills() {
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
		op.entry.OnlyKnown = !op.known && op.exception == nil && (memoryLow || op.newKeys.Spent(now))
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
