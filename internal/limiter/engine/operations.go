// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"iter"
	"sync"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// operations is one call to a store, with the policies that take part in it. A commit, a renewal and a charge
// have one. A check has one, and may have others:
//
//   - for its charges,
//   - for each of its policies with candidates,
//   - for its policies with failureMode Local, if the store did not answer.
type operations struct {
	call  store.Call
	reply *store.Reply // nil if the store was not called or did not answer
	err   error        // of the store, in place of its reply

	charged       []chargedPolicy // charged[i] belongs to call.Entries[i]
	overQuota     int             // index of the first enforcing charged policy whose quota the cost exceeds, or -1
	ignoredLimits []*policy       // policies without a limit that the requested one could replace
	replicas      int64           // number of replicas that share the limits; 0 if nothing is shared
}

// chargedPolicy is a policy that takes part in a decision, with the variant for the key.
type chargedPolicy struct {
	*policy
	*variant
	selected    *variant      // the variant without a requested limit
	group       string        // see selection
	known       bool          // see selection
	descriptors descriptorSet // the descriptors because of which it applies
	action      limiter.HitsAction
	peek        bool // the check spends nothing from it
}

// operation is one charged policy of operations, with its entry and its reply.
type operation struct {
	*chargedPolicy

	entry *store.Entry      // a check, a reserve, a commit, a renewal or a charge
	reply *store.EntryReply // nil if the store has none
}

var operationsPool = sync.Pool{New: func() any { return &operations{} }}

func newOperations() *operations {
	o := operationsPool.Get().(*operations) //nolint:forcetypeassert // the pool holds only these
	o.overQuota = -1
	return o
}

// release returns the operations to the pool if they are free.
func (o *operations) release() {
	if o.isFree() {
		o.clear()
		operationsPool.Put(o)
	}
}

// evaluator is Store.Evaluate of one store.
type evaluator func(context.Context, *store.Call) (*store.Reply, error)

// run sends the call to the store.
func (o *operations) run(ctx context.Context, evaluate evaluator) {
	o.reply, o.err = evaluate(ctx, &o.call)
}

// isFree reports whether the store no longer uses the call. A store that has not answered still may.
func (o *operations) isFree() bool { return o.err == nil && (o.reply == nil || !o.reply.Unanswered) }

// clear removes everything but memory for the next operations.
func (o *operations) clear() {
	clear(o.charged)
	o.call.Clear()
	*o = operations{call: o.call, charged: o.charged[:0]}
}

// add adds a charged policy with its entry.
func (o *operations) add(cp chargedPolicy, entry store.Entry) {
	o.charged = append(o.charged, cp)
	o.call.Entries = append(o.call.Entries, entry)
}

// at returns the i-th operation.
func (o *operations) at(i int) operation {
	op := operation{chargedPolicy: &o.charged[i], entry: &o.call.Entries[i]}
	if o.reply != nil && !o.reply.Entries[i].Unknown {
		op.reply = &o.reply.Entries[i]
	}
	return op
}

// all visits the operations.
func (o *operations) all() iter.Seq2[int, operation] {
	return func(visit func(int, operation) bool) {
		for i := range o.charged {
			if !visit(i, o.at(i)) {
				return
			}
		}
	}
}

// applySubstitutes sets the variants by which the store decided, where it replaced them: an overflow key has
// no override, and some requested limits are ignored.
func (o *operations) applySubstitutes() {
	for _, op := range o.all() {
		switch {
		case op.reply == nil:
		case op.reply.Overflow:
			op.variant, op.group = op.base.perReplica(o.replicas), ""
		case op.reply.RequestIgnored:
			op.variant = op.selected
			o.ignoredLimits = append(o.ignoredLimits, op.policy)
		}
	}
}

// markOverQuota turns entries whose cost exceeds a quota into peeks, which hold nothing. If the policy of one
// enforces, the check is denied, so all entries become peeks.
func (o *operations) markOverQuota() {
	for i, op := range o.all() {
		if op.entry.Cost <= op.smallestQuota {
			continue
		}
		op.entry.Peek, op.entry.Action = true, store.Check
		if op.enforces() && o.overQuota < 0 {
			o.overQuota = i
		}
	}
	if o.overQuota >= 0 {
		for i := range o.call.Entries {
			o.call.Entries[i].Peek, o.call.Entries[i].Action = true, store.Check
		}
	}
}

// appendLimitStates appends the states of the limits of all charged policies that the store has decided.
func (o *operations) appendLimitStates(states []limiter.LimitState) []limiter.LimitState {
	for _, op := range o.all() {
		if op.reply != nil {
			states = op.appendStates(states, op.reply)
		}
	}
	return states
}

// appendStates appends the states of the limits after the reply.
func (cp *chargedPolicy) appendStates(states []limiter.LimitState, r *store.EntryReply) []limiter.LimitState {
	for i := range cp.limits {
		l := &cp.limits[i]
		lr, units := &r.Limits[i], cp.quotas[i]
		states = append(states, limiter.LimitState{
			Policy:                cp.id,
			Limit:                 l.Name,
			Override:              cp.override,
			Group:                 cp.group,
			Exception:             cp.exceptionName(),
			Algorithm:             l.Algorithm,
			Allowed:               r.Allows(i),
			Blocked:               r.Verdict == store.Blocked,
			Shadow:                cp.plan.Mode == plan.ModeShadow,
			Overflow:              r.Overflow,
			Near:                  l.IsNear(lr.Used, units),
			Used:                  lr.Used,
			Held:                  r.Held,
			Remaining:             max(0, units-lr.Used),
			SuppressionFactor:     lr.Suppression,
			Quota:                 units,
			Threshold:             l.Threshold,
			Window:                l.Window(),
			Calendar:              l.Calendar,
			RetryAfter:            lr.RetryAfter,
			RemainingAfterWaiting: max(0, units-lr.UsedAfterWaiting),
			ResetAfter:            lr.ResetAfter,
		})
	}
	return states
}

// descriptorSet is a set of indexes of at most limiter.MaxDescriptors descriptors, one
// bit each.
type descriptorSet uint64

// descriptorSetOf returns the set of one descriptor; plan.AllDescriptors is all of them.
func descriptorSetOf(descriptor int) descriptorSet {
	if descriptor == plan.AllDescriptors {
		return ^descriptorSet(0)
	}
	return 1 << descriptor
}

func (d descriptorSet) has(descriptor int) bool { return d&descriptorSetOf(descriptor) != 0 }
