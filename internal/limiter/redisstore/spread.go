// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

const (
	// maxAtomicLimits bounds the limits of a call that one script call decides: one policy more, and it is spread.
	maxAtomicLimits = 64
	// maxGroupLimits bounds the limits of a group that has several policies. Redis does nothing else while it
	// decides them, some 0.2 ms.
	maxGroupLimits = 24
)

// group is the entries of a call that one script call decides, in a Redis Cluster of one key.
type group struct {
	call    quota.Call
	indices []int     // of the entries in the whole call
	key     quota.Key // of the entries in a Redis Cluster; else empty
	limits  int
	dry     result
	decided result // the last one
}

// mustSpread reports whether the call needs several script calls.
func (s *Store) mustSpread(call *quota.Call) bool {
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
// script can read together, or other calls would wait for its limits. It evaluates every
// group as a dry run and spends only if all admit. If another check spends the last units in between, it
// refunds the groups that have spent. repeated is true if the call repeats one that has taken holds.
//
//   - It takes two round trips for each group of a key. The refund after such a lost race is a third one,
//     which the caller does not wait for.
//   - After a crash or a lost reply the cost of one check stays spent, so that the
//     limits deny too early, never too late.
//
// changeSpread commits, renews and charges; such calls are never denied.
func (s *Store) evaluateSpread(
	ctx context.Context, call *quota.Call, repeated bool, settled *settlements, deadline time.Time,
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

// changeSpread commits, renews or charges in every group by itself. A group that is decided is not
// sent again if another group needs substitutes: a charge without an ID would be counted twice. After
// an error some groups may have made their changes; the same call again changes only the others.
func (s *Store) changeSpread(ctx context.Context, call *quota.Call, deadline time.Time) (*quota.Reply, error) {
	other := quota.NewSubstitution(call)
	reply := &quota.Reply{Entries: make([]quota.EntryReply, len(call.Entries))}
	for pending := s.groupsOf(other.Call()); len(pending) > 0; {
		if err := s.change(ctx, pending, deadline); err != nil {
			return nil, err
		}
		var again []int
		for _, g := range pending {
			if g.decided.undecided == nil {
				g.copyReply(reply)
			} else {
				again = append(again, g.indices...)
			}
		}
		other.Replace(undecidedOf(pending))
		pending = s.groupsOfEntries(other.Call(), again)
	}
	other.Mark(reply)
	return reply, nil
}

// change evaluates every group.
func (s *Store) change(ctx context.Context, groups []*group, deadline time.Time) error {
	return forEach(groups, func(g *group) (err error) {
		g.decided, err = s.evaluate(ctx, &g.call, mode{}, deadline)
		return err
	})
}

// forEach calls f for every group: for those of one key one after the other, so that Redis can serve other
// calls in between, for those of different keys at the same time.
func forEach(groups []*group, f func(*group) error) error {
	var wait errgroup.Group
	started := map[quota.Key]bool{}
	for _, first := range groups {
		if started[first.key] {
			continue
		}
		started[first.key] = true
		wait.Go(func() error {
			for _, g := range groups {
				if g.key != first.key {
					continue
				}
				if err := f(g); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return wait.Wait()
}

// repetitionOf returns the call as one that repeats another one. Its keys are known.
func repetitionOf(call *quota.Call) *quota.Call {
	repeated := call.WithEntries(slices.Clone(call.Entries))
	for i := range repeated.Entries {
		repeated.Entries[i].OnlyKnown = false
	}
	return repeated
}

// settlements are what the dry runs of a call have settled, by entry.
type settlements []settlement

// settlement is the number of the ended holds that were spent, and the units of debt that were cut.
type settlement struct{ holds, debtCut int64 }

// take adds the numbers that the last dry run of the groups has settled, and removes them from its replies.
func (s *settlements) take(call *quota.Call, groups []*group) {
	if *s == nil {
		*s = make(settlements, len(call.Entries))
	}
	for _, g := range groups {
		if g.decided.undecided != nil {
			continue
		}
		for i, at := range g.indices {
			r := &g.decided.Entries[i]
			(*s)[at].holds += r.Settled
			(*s)[at].debtCut += r.DebtCut
			r.Settled, r.DebtCut = 0, 0
		}
	}
}

// addTo adds what dry runs have settled to the reply.
func (s settlement) addTo(r *quota.EntryReply) {
	r.Settled += s.holds
	r.DebtCut += s.debtCut
	r.Began = r.Began && s.holds == 0 // the key had holds
}

// repeats reports whether the call repeats one that has taken a hold of the group.
func (g *group) repeats() bool {
	for i := range g.call.Entries {
		if takesHold(&g.call.Entries[i]) && g.decided.Entries[i].Hold == quota.HoldFound {
			return true
		}
	}
	return false
}

// undecidedOf returns the indexes of the entries that prevented a decision.
func undecidedOf(groups []*group) (indexes []int) {
	for _, g := range groups {
		for _, i := range g.decided.undecided {
			indexes = append(indexes, g.indices[i])
		}
	}
	return indexes
}

func (s *Store) groupsOf(call *quota.Call) []*group {
	all := make([]int, len(call.Entries))
	for i := range all {
		all[i] = i
	}
	return s.groupsOfEntries(call, all)
}

// groupsOfEntries returns the groups of the entries with these indexes.
func (s *Store) groupsOfEntries(call *quota.Call, indexes []int) []*group {
	var groups []*group
	for _, i := range indexes {
		e, key := call.Entries[i], quota.Key("")
		if s.isCluster {
			key = e.Key
		}
		limits := len(e.Policy.Limits())
		at := slices.IndexFunc(groups, func(g *group) bool { return g.key == key && g.limits+limits <= s.groupLimits })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &group{call: quota.Call{Denied: call.Denied, Draw: call.Draw}, key: key})
		}
		g := groups[at]
		g.call.Entries, g.indices, g.limits = append(g.call.Entries, e), append(g.indices, i), g.limits+limits
	}
	return groups
}

// denies reports whether an enforcing policy of the group denies the call.
func (g *group) denies() bool {
	for i, e := range g.call.Entries {
		if !e.Policy.IsShadow() && g.decided.Entries[i].Verdict != quota.Admitted {
			return true
		}
	}
	return false
}

// dryRun evaluates every group without spending.
func (s *Store) dryRun(ctx context.Context, groups []*group, repeated bool, deadline time.Time) error {
	return forEach(groups, func(g *group) (err error) {
		g.dry, err = s.evaluate(ctx, g.call.WithEntries(g.call.Entries), mode{dryRun: true, repeated: repeated}, deadline)
		g.decided = g.dry
		return err
	})
}

// spend evaluates the groups that have something to write: they spend if the check is
// admitted; if it is denied, they count attempts and start blocks. A denied check stays
// denied, even if a group admits it by now or its call fails.
func (s *Store) spend(ctx context.Context, groups []*group, repeated bool, deadline time.Time) error {
	return forEach(groups, func(g *group) error {
		if !g.needsSpend(repeated) {
			return nil
		}
		denied := g.denies()
		decided, err := s.evaluate(ctx, &g.call, mode{receipts: true, repeated: repeated}, deadline)
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

// mayHaveWritten returns the error of a group as one of the whole call, of which other groups may have
// spent.
func mayHaveWritten(err error) error {
	failure, ok := errors.AsType[*quota.StoreError](err)
	if !ok || !failure.Unwritten {
		return err
	}
	whole := *failure
	whole.Unwritten = false
	return &whole
}

// needsSpend reports whether an entry has something to write. A Suppressed limit of a denied check
// is evaluated again also for its reply: the time after which it sheds nothing. Of a call that
// repeats another one only the missing holds are taken.
func (g *group) needsSpend(repeated bool) bool {
	for i := range g.call.Entries {
		e := &g.call.Entries[i]
		switch {
		case repeated && (!takesHold(e) || g.dry.Entries[i].Hold == quota.HoldFound):
		case g.call.Denied && e.Policy.Observes(), !e.Peek && (!g.call.Denied || e.Policy.WritesDenials()):
			return true
		}
	}
	return false
}

// refundTimeout bounds a refund, for which no caller waits.
const refundTimeout = time.Second

// cancelHolds ends the holds that the group took on a call that another group denied.
func (s *Store) cancelHolds(ctx context.Context, g *group) {
	cancel := &quota.Call{}
	for i, e := range g.call.Entries {
		if g.decided.Entries[i].Hold == quota.HoldTaken {
			cancel.Entries = append(cancel.Entries, quota.Entry{Policy: e.Policy, Key: e.Key, Action: quota.Commit, ID: e.ID})
		}
	}
	if len(cancel.Entries) > 0 {
		_, _ = s.evaluate(ctx, cancel, mode{}, s.deadline(ctx)) // after an error the holds end by themselves
	}
}

// refundLostRace returns the units that groups spent on a check that another group denied, in
// the background. The reply of such a policy is the one of the dry run: the state without these
// units. Policies that count attempts keep their counts. The check is denied even if a refund
// fails; its units then stay spent.
func (s *Store) refundLostRace(groups []*group) {
	for _, g := range groups {
		if g.denies() {
			continue
		}
		lost := *g
		lost.decided.Reply = g.decided.Clone()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), refundTimeout) //nolint:forbidigo // no caller waits for it
			defer cancel()
			if command := s.refundCommand(&lost); command.algorithms != 0 {
				_, _ = s.execute(ctx, command) // an error leaves the units spent
			}
			s.cancelHolds(ctx, &lost)
		}()
		for i, e := range g.call.Entries {
			if !e.Policy.CountsAttempts() {
				g.decided.Entries[i] = g.dry.Entries[i]
			}
		}
	}
}

// refundCommand returns the command that refunds the units the group spent.
func (s *Store) refundCommand(g *group) command {
	var spent []quota.Entry
	var receipts [][]int64
	rest := g.decided.receipts
	for i, e := range g.call.Entries {
		r := &g.decided.Entries[i]
		n := min(len(r.Limits), len(rest)) // without receipts the group has spent nothing
		if !e.Peek && !e.Policy.CountsAttempts() && !takesHold(&e) && r.Verdict == quota.Admitted && n > 0 {
			spent = append(spent, e)
			receipts = append(receipts, rest[:n])
		}
		rest = rest[n:]
	}
	if len(spent) == 0 {
		return command{}
	}
	c := s.newCommand(refundScripts, run{calls: []*pending{{call: &quota.Call{Entries: spent}}}})
	c.addEntries(spent, false)
	for i := range spent {
		c.args = append(c.args, spent[i].Cost)
		for _, receipt := range receipts[i] {
			c.args = append(c.args, receipt)
		}
	}
	return c
}

// mergeReplies returns the replies of the groups in the order of the call, with what dry runs have settled.
func mergeReplies(call *quota.Call, groups []*group, settled settlements) *quota.Reply {
	reply := &quota.Reply{Entries: make([]quota.EntryReply, len(call.Entries))}
	for _, g := range groups {
		g.copyReply(reply)
	}
	for i := range reply.Entries {
		settled[i].addTo(&reply.Entries[i])
	}
	return reply
}

// copyReply copies the reply of the group to the reply of the whole call.
func (g *group) copyReply(reply *quota.Reply) {
	for i, at := range g.indices {
		reply.Entries[at] = g.decided.Entries[i]
	}
}

// takesHold reports whether the entry may take a hold.
func takesHold(e *quota.Entry) bool { return e.Policy.TakesHold(e.Action) }
