// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

const (
	// maxAtomicLimits bounds the limits of several policies that one script call decides. A call with more is spread.
	maxAtomicLimits = 64
	// maxGroupLimits bounds the limits of a group that has several policies. Redis does nothing else while it
	// decides them, some 0.2 ms.
	maxGroupLimits = 24
)

// mustSpread reports whether the call needs several script calls.
func (s *Store) mustSpread(call *store.Call) bool {
	limits := 0
	for i := range call.Entries {
		limits += len(call.Entries[i].Policy.Limits())
		if i > 0 && limits > s.atomicLimits || s.isCluster && call.Entries[i].Key != call.Entries[0].Key {
			return true
		}
	}
	return false
}

// evaluateSpread decides a call that needs several script calls: its keys may lie on several nodes, which no
// script can read together, or it has too many limits for one script call. It evaluates every group as a dry run
// and spends only if all admit. If another check spends the last units in between, it refunds the groups that have
// spent. repeated is true if the call repeats one that has taken holds. settled gets what the dry runs settle.
//
//   - Each group takes two round trips. Groups of different keys share their time. The refund after such a lost
//     race is a third round trip, which the caller does not wait for.
//   - After a crash or a lost reply the cost of one check stays spent, so that the limits deny too early, never
//     too late.
//   - Commits, renewals and charges are never denied; changeSpread makes them.
func (s *Store) evaluateSpread(
	ctx context.Context, call *store.Call, repeated bool, settled *settlements, deadline time.Time,
) (result, error) {
	groups := s.groupsOf(call)
	if err := s.dryRun(ctx, groups, repeated, deadline); err != nil {
		return result{}, err
	}
	settled.take(call, groups)
	if undecided := undecidedOf(groups); undecided != nil {
		return result{undecided: undecided}, nil
	}
	if !repeated && slices.ContainsFunc(groups, (*group).repeats) {
		return s.evaluateSpread(ctx, repetitionOf(call), true, settled, deadline)
	}
	denied := call.Denied || slices.ContainsFunc(groups, (*group).denies)
	for _, g := range groups {
		g.call.Denied = denied
	}
	if err := s.spend(ctx, groups, repeated, deadline); err != nil {
		return result{}, err
	}
	if !denied && slices.ContainsFunc(groups, (*group).denies) {
		s.refundLostRace(groups) //nolint:contextcheck // no caller waits for the refund
	}
	return result{Reply: mergeReplies(call, groups, *settled)}, nil
}

// dryRun evaluates every group without spending.
func (s *Store) dryRun(ctx context.Context, groups []*group, repeated bool, deadline time.Time) error {
	return forEach(groups, func(g *group) (err error) {
		g.dry, err = s.evaluateAtomic(ctx, g.call.WithEntries(g.call.Entries), mode{dryRun: true, repeated: repeated}, deadline)
		g.decided = g.dry
		return err
	})
}

// repetitionOf returns the call without OnlyKnown: the call repeats an earlier one, so its keys are known.
func repetitionOf(call *store.Call) *store.Call {
	repeated := call.WithEntries(slices.Clone(call.Entries))
	for i := range repeated.Entries {
		repeated.Entries[i].OnlyKnown = false
	}
	return repeated
}

// spend evaluates the groups that have something to write. If the check is admitted, they spend; if it is denied,
// they count attempts and start blocks. A denied check stays denied, even if the group that denied it admits it by
// now, or if the script call of a group fails.
func (s *Store) spend(ctx context.Context, groups []*group, repeated bool, deadline time.Time) error {
	return forEach(groups, func(g *group) error {
		if !g.needsSpend(repeated) {
			return nil
		}
		denied := g.denies()
		decided, err := s.evaluateAtomic(ctx, &g.call, mode{receipts: true, repeated: repeated}, deadline)
		if err != nil {
			if g.call.Denied {
				return nil
			}
			return mayHaveWritten(err)
		}
		if g.decided = decided; denied && !g.denies() {
			g.decided = g.dry
		}
		return nil
	})
}

// mayHaveWritten returns the error without Unwritten: other groups of the call may have spent.
func mayHaveWritten(err error) error {
	failure, ok := errors.AsType[*store.Error](err)
	if !ok || !failure.Unwritten {
		return err
	}
	whole := *failure
	whole.Unwritten = false
	return &whole
}

// mergeReplies returns the replies of the groups in the order of the call, with what dry runs have settled.
func mergeReplies(call *store.Call, groups []*group, settled settlements) *store.Reply {
	reply := &store.Reply{Entries: make([]store.EntryReply, len(call.Entries))}
	for _, g := range groups {
		g.copyReply(reply)
	}
	for i := range reply.Entries {
		settled[i].addTo(&reply.Entries[i])
	}
	return reply
}

// settlements are what the dry runs of a call have settled, by entry.
type settlements []settlement

// settlement is the number of the ended holds that were spent, and the units of debt that were cut.
type settlement struct{ holds, debtCut int64 }

// take moves the numbers from the replies of the latest dry run of the groups to the settlements.
func (s *settlements) take(call *store.Call, groups []*group) {
	if *s == nil {
		*s = make(settlements, len(call.Entries))
	}
	for _, g := range groups {
		if g.decided.undecided != nil {
			continue
		}
		for i, at := range g.indexes {
			r := &g.decided.Entries[i]
			(*s)[at].holds += r.Settled
			(*s)[at].debtCut += r.DebtCut
			r.Settled, r.DebtCut = 0, 0
		}
	}
}

// addTo adds what dry runs have settled to the reply.
func (s settlement) addTo(r *store.EntryReply) {
	r.Settled += s.holds
	r.DebtCut += s.debtCut
	r.Began = r.Began && s.holds == 0 // the key had holds
}

// changeSpread commits, renews or charges in each group, whatever the others do. A decided group is not sent
// again if another group needs substitutes: a charge without an ID would be counted twice. After an error some
// groups may have made their changes; the same call again changes only the others.
func (s *Store) changeSpread(ctx context.Context, call *store.Call, deadline time.Time) (*store.Reply, error) {
	substitution := store.NewSubstitution(call)
	reply := &store.Reply{Entries: make([]store.EntryReply, len(call.Entries))}
	for groups := s.groupsOf(substitution.Call()); len(groups) > 0; {
		if err := s.change(ctx, groups, deadline); err != nil {
			return nil, err
		}
		var again []int
		for _, g := range groups {
			if g.decided.undecided == nil {
				g.copyReply(reply)
			} else {
				again = append(again, g.indexes...)
			}
		}
		substitution.Replace(undecidedOf(groups))
		groups = s.groupsOfEntries(substitution.Call(), again)
	}
	substitution.Mark(reply)
	return reply, nil
}

// change evaluates every group of a call that is never denied.
func (s *Store) change(ctx context.Context, groups []*group, deadline time.Time) error {
	return forEach(groups, func(g *group) (err error) {
		g.decided, err = s.evaluateAtomic(ctx, &g.call, mode{}, deadline)
		return err
	})
}
