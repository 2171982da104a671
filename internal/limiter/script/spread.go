// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// group is the entries of a call with one key, whose states lie on one node of a Redis
// Cluster.
type group struct {
	call     Call
	indices  []int  // of the entries in the whole call
	dryReply *Reply // of the dry run
	reply    *Reply // of the last call
}

func haveOneKey(call *Call) bool {
	return !slices.ContainsFunc(call.Entries, func(e Entry) bool { return e.Key != call.Entries[0].Key })
}

// evaluateSpread decides a call whose keys may lie on several nodes, which no script can
// read together. It evaluates every group as a dry run and spends only if all admit. If
// another check spends the last units in between, it refunds the groups that have spent.
//
//   - It takes two round trips. The refund after such a lost race is a third one, which the
//     caller does not wait for.
//   - After a crash or a lost reply the cost of one check stays spent, so that the
//     limits deny too early, never too late.
//
// changeSpread makes commits and the like, which are never denied.
func (s *Store) evaluateSpread(ctx context.Context, call *Call, deadline time.Time) (*Reply, error) {
	groups := groupsOf(call)
	if err := s.dryRun(ctx, groups, deadline); err != nil {
		return nil, err
	}
	call.takeSettled(groups)
	if undecided := undecidedOf(groups); undecided != nil {
		return &Reply{undecided: undecided}, nil
	}
	if slices.ContainsFunc(groups, (*group).repeats) && !call.repeated {
		return s.evaluateSpread(ctx, call.repeat(), deadline)
	}
	denied := call.Denied || slices.ContainsFunc(groups, (*group).denies)
	for _, g := range groups {
		g.call.Denied = denied
	}
	if err := s.spend(ctx, groups, deadline); err != nil {
		return nil, err
	}
	if !denied && slices.ContainsFunc(groups, (*group).denies) {
		s.refundLostRace(groups) //nolint:contextcheck // no caller waits for the refund
	}
	return mergeReplies(call, groups), nil
}

// changeSpread commits, renews or charges in every group by itself. A group that is decided is not
// sent again if another group needs substitutes: a charge without an ID would be counted twice. After
// an error some groups may have made their changes; the same call again changes only the others.
func (s *Store) changeSpread(ctx context.Context, call *Call, deadline time.Time) (*Reply, error) {
	other := NewSubstitution(call)
	reply := &Reply{Entries: make([]EntryReply, len(call.Entries))}
	for left := groupsOf(other.call); len(left) > 0; {
		if err := s.change(ctx, left, deadline); err != nil {
			return nil, err
		}
		var again []int
		for _, g := range left {
			if g.reply.undecided == nil {
				g.copyReply(reply, call)
			} else {
				again = append(again, g.indices...)
			}
		}
		other.Replace(undecidedOf(left))
		left = groupsOfEntries(other.call, again)
	}
	other.Mark(reply)
	return reply, nil
}

// change evaluates every group.
func (s *Store) change(ctx context.Context, groups []*group, deadline time.Time) error {
	var wait errgroup.Group
	for _, g := range groups {
		wait.Go(func() (err error) {
			g.reply, err = s.evaluate(ctx, &g.call, false, deadline)
			return err
		})
	}
	return wait.Wait()
}

// repeat returns the call as one that repeats another one. Its keys are known.
func (c *Call) repeat() *Call {
	repeated := c.clone()
	repeated.repeated, repeated.settled = true, c.settled
	for i := range repeated.Entries {
		repeated.Entries[i].OnlyKnown = false
	}
	return repeated
}

// settlement is the number of the ended holds that were spent, and the units of debt that were cut.
type settlement struct{ holds, debtCut int64 }

// takeSettled moves the numbers that the dry run of the groups has settled to those of earlier dry runs.
func (c *Call) takeSettled(groups []*group) {
	if len(c.settled) == 0 {
		c.settled = cleared(c.settled, len(c.Entries))
	}
	for _, g := range groups {
		for i, at := range g.indices {
			r := &g.reply.Entries[i]
			c.settled[at].holds += r.Settled
			c.settled[at].debtCut += r.DebtCut
			r.Settled, r.DebtCut = 0, 0
		}
	}
}

// addSettled adds what dry runs have settled to the reply.
func (r *EntryReply) addSettled(earlier settlement) {
	r.Settled += earlier.holds
	r.DebtCut += earlier.debtCut
	r.Began = r.Began && earlier.holds == 0 // the key had holds
}

// repeats reports whether the call repeats one that has taken a hold of the group.
func (g *group) repeats() bool {
	for i := range g.call.Entries {
		if g.call.Entries[i].reserves() && g.reply.Entries[i].Hold == HoldFound {
			return true
		}
	}
	return false
}

// undecidedOf returns the indexes of the entries that prevented a decision.
func undecidedOf(groups []*group) (indexes []int) {
	for _, g := range groups {
		for _, i := range g.reply.undecided {
			indexes = append(indexes, g.indices[i])
		}
	}
	return indexes
}

func groupsOf(call *Call) []*group {
	all := make([]int, len(call.Entries))
	for i := range all {
		all[i] = i
	}
	return groupsOfEntries(call, all)
}

// groupsOfEntries returns the groups of the entries with these indexes.
func groupsOfEntries(call *Call, indexes []int) []*group {
	var groups []*group
	for _, i := range indexes {
		e := call.Entries[i]
		at := slices.IndexFunc(groups, func(g *group) bool { return g.call.Entries[0].Key == e.Key })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &group{call: Call{Denied: call.Denied, Draw: call.Draw, repeated: call.repeated}})
		}
		groups[at].call.Entries = append(groups[at].call.Entries, e)
		groups[at].indices = append(groups[at].indices, i)
	}
	return groups
}

// denies reports whether an enforcing policy of the group does.
func (g *group) denies() bool {
	for i, e := range g.call.Entries {
		if !e.Policy.shadow && g.reply.Entries[i].Verdict != Admitted {
			return true
		}
	}
	return false
}

// dryRun evaluates every group without spending.
func (s *Store) dryRun(ctx context.Context, groups []*group, deadline time.Time) error {
	var wait errgroup.Group
	for _, g := range groups {
		dryCall := g.call.clone()
		for i := range dryCall.Entries {
			dryCall.Entries[i].dryRun = true
		}
		wait.Go(func() (err error) {
			g.dryReply, err = s.evaluate(ctx, dryCall, false, deadline)
			g.reply = g.dryReply
			return err
		})
	}
	return wait.Wait()
}

// spend evaluates the groups that have something to write: they spend if the check is
// admitted; if it is denied, they count attempts and start blocks. A denied check stays
// denied, even if a group admits it by now or its call fails.
func (s *Store) spend(ctx context.Context, groups []*group, deadline time.Time) error {
	var wait errgroup.Group
	for _, g := range groups {
		if !g.needsSpend() {
			continue
		}
		wait.Go(func() error {
			denied := g.denies()
			reply, err := s.evaluate(ctx, &g.call, true, deadline)
			if err != nil {
				if g.call.Denied {
					return nil
				}
				return err
			}
			if g.reply = reply; denied && !g.denies() {
				g.reply = g.dryReply
			}
			return nil
		})
	}
	return wait.Wait()
}

// needsSpend reports whether an entry has something to write. A Suppressed limit of a denied check
// is evaluated again also for its reply: the time after which it sheds nothing. Of a call that
// repeats another one only the missing holds are taken.
func (g *group) needsSpend() bool {
	for i := range g.call.Entries {
		e := &g.call.Entries[i]
		switch {
		case g.call.repeated && (!e.reserves() || g.dryReply.Entries[i].Hold == HoldFound):
		case g.call.Denied && e.Policy.observes(), !e.Peek && (!g.call.Denied || e.Policy.writesDenials()):
			return true
		}
	}
	return false
}

// refundTimeout bounds a refund, for which no caller waits.
const refundTimeout = time.Second

// cancelHolds ends the holds that the group took on a call that another group denied.
func (s *Store) cancelHolds(ctx context.Context, g *group) {
	cancel := &Call{}
	for i, e := range g.call.Entries {
		if g.reply.Entries[i].Hold == HoldTaken {
			cancel.Entries = append(cancel.Entries, Entry{Policy: e.Policy, Key: e.Key, Action: Commit, ID: e.ID})
		}
	}
	if len(cancel.Entries) > 0 {
		_, _ = s.evaluate(ctx, cancel, false, s.deadline(ctx)) // after an error the holds end by themselves
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
		lost.reply = g.reply.clone()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), refundTimeout) //nolint:forbidigo // no caller waits for it
			defer cancel()
			if command := s.refundCommand(&lost); command.algorithms != 0 {
				_, _ = s.run(ctx, command) // an error leaves the units spent
			}
			s.cancelHolds(ctx, &lost)
		}()
		for i, e := range g.call.Entries {
			if !e.Policy.attempts {
				g.reply.Entries[i] = g.dryReply.Entries[i]
			}
		}
	}
}

// refundCommand returns the command that refunds the units the group spent.
func (s *Store) refundCommand(g *group) command {
	var spent []Entry
	var receipts [][]LimitReply
	for i, e := range g.call.Entries {
		r := &g.reply.Entries[i]
		if !e.Peek && !e.Policy.attempts && !e.reserves() && r.Verdict == Admitted {
			spent = append(spent, e)
			receipts = append(receipts, r.Limits)
		}
	}
	if len(spent) == 0 {
		return command{}
	}
	c := s.newCommand(refundScripts, run{calls: []*pending{{call: &Call{Entries: spent}}}})
	c.addEntries(spent)
	for i := range spent {
		c.args = append(c.args, spent[i].Cost)
		for _, l := range receipts[i] {
			c.args = append(c.args, l.receipt)
		}
	}
	return c
}

// mergeReplies returns the replies of the groups in the order of the call.
func mergeReplies(call *Call, groups []*group) *Reply {
	reply := &Reply{Entries: make([]EntryReply, len(call.Entries))}
	for _, g := range groups {
		g.copyReply(reply, call)
	}
	return reply
}

// copyReply copies the reply of the group to that of the whole call.
func (g *group) copyReply(reply *Reply, call *Call) {
	for i, at := range g.indices {
		reply.Entries[at] = g.reply.Entries[i]
		if g.dryReply != nil {
			reply.Entries[at].addSettled(call.settled[at])
		}
		for j := range reply.Entries[at].Limits {
			reply.Entries[at].Limits[j].receipt = 0
		}
	}
}
