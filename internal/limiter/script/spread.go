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
func (s *Store) evaluateSpread(ctx context.Context, call *Call, deadline time.Time) (*Reply, error) {
	groups := groupsOf(call)
	if err := s.dryRun(ctx, groups, deadline); err != nil {
		return nil, err
	}
	if undecided := undecidedOf(groups); undecided != nil {
		return &Reply{undecided: undecided}, nil
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
	var groups []*group
	for i, e := range call.Entries {
		at := slices.IndexFunc(groups, func(g *group) bool { return g.call.Entries[0].Key == e.Key })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &group{call: Call{Denied: call.Denied, Draw: call.Draw}})
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
		dryCall := &Call{Entries: slices.Clone(g.call.Entries), Denied: g.call.Denied, Draw: g.call.Draw}
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
		if !slices.ContainsFunc(g.call.Entries, g.needsSpend) {
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

// needsSpend reports whether the entry has something to write. A Suppressed limit of a
// denied check is evaluated again also for its reply: the time after which it sheds
// nothing.
func (g *group) needsSpend(e Entry) bool {
	if g.call.Denied {
		return e.Policy.observes() || !e.Peek && e.Policy.writesDenials()
	}
	return !e.Peek
}

// refundTimeout bounds a refund, for which no caller waits.
const refundTimeout = time.Second

// refundLostRace returns the units that groups spent on a check that another group denied, in
// the background. The reply of such a policy is the one of the dry run: the state without these
// units. Policies that count attempts keep their counts. The check is denied even if a refund
// fails; its units then stay spent.
func (s *Store) refundLostRace(groups []*group) {
	for _, g := range groups {
		if g.denies() {
			continue
		}
		if command := s.refundCommand(g); command.algorithms != 0 {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), refundTimeout) //nolint:forbidigo // no caller waits for it
				defer cancel()
				_, _ = s.run(ctx, command) // an error leaves the units spent
			}()
		}
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
		if !e.Peek && !e.Policy.attempts && r.Verdict == Admitted {
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
		for i, at := range g.indices {
			reply.Entries[at] = g.reply.Entries[i]
			for j := range reply.Entries[at].Limits {
				reply.Entries[at].Limits[j].receipt = 0
			}
		}
	}
	return reply
}
