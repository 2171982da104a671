// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// group is the entries of a call with one key, whose states lie on one node of a Redis
// Cluster.
type group struct {
	call    Call
	indices []int // of the entries in the whole call
	reply   *Reply
}

func haveOneKey(call *Call) bool {
	return !slices.ContainsFunc(call.Entries, func(e Entry) bool { return e.Key != call.Entries[0].Key })
}

// evaluateSpread decides a call whose keys may lie on several nodes, which no script can
// read together. It evaluates every group as a dry run and spends only if all admit. If
// another check spends the last units in between, it refunds the groups that have spent.
//
//   - It takes two round trips, and a third after such a lost race.
//   - After a crash or a lost reply the cost of one check stays spent, so that the
//     limits deny too early, never too late.
func (s *Store) evaluateSpread(ctx context.Context, call *Call) (*Reply, error) {
	groups := groupsOf(call)
	if err := s.dryRun(ctx, groups); err != nil {
		return nil, err
	}
	denied := call.Denied || slices.ContainsFunc(groups, (*group).denies)
	for _, g := range groups {
		g.call.Denied = denied
	}
	if err := s.spend(ctx, groups); err != nil {
		return nil, err
	}
	if !denied && slices.ContainsFunc(groups, (*group).denies) {
		s.refund(ctx, groups)
	}
	return mergeReplies(call, groups), nil
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

// dryRun evaluates every group without spending. A group whose call fails keeps its
// earlier reply.
func (s *Store) dryRun(ctx context.Context, groups []*group) error {
	var wait errgroup.Group
	for _, g := range groups {
		dryCall := Call{Entries: slices.Clone(g.call.Entries), Denied: g.call.Denied, Draw: g.call.Draw}
		for i := range dryCall.Entries {
			dryCall.Entries[i].dryRun = true
		}
		wait.Go(func() error {
			reply, err := s.evaluate(ctx, &dryCall, false)
			if err == nil {
				g.reply = reply
			}
			return err
		})
	}
	return wait.Wait()
}

// spend evaluates the groups that have something to write: they spend if the check is
// admitted; if it is denied, they count attempts and start blocks. A denied check stays
// denied, even if a group admits it by now or its call fails.
func (s *Store) spend(ctx context.Context, groups []*group) error {
	var wait errgroup.Group
	for _, g := range groups {
		if !slices.ContainsFunc(g.call.Entries, g.needsSpend) {
			continue
		}
		wait.Go(func() error {
			reply, err := s.evaluate(ctx, &g.call, true)
			if err != nil && !g.call.Denied {
				return err
			}
			dryReply, denied := g.reply, g.denies()
			if err == nil {
				g.reply = reply
			}
			if denied && !g.denies() {
				g.reply = dryReply
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
	suppressed := e.Policy.algorithms&Suppressed.bit() != 0
	if g.call.Denied {
		return suppressed || !e.Peek && e.Policy.flags&(flagAttempts|flagBlocks) != 0
	}
	return !e.Peek
}

// refundTimeout bounds a refund, which continues after the caller's context ends.
const refundTimeout = time.Second

// refund returns the units that groups spent on a check that another group denied, and
// evaluates these groups again for their reply to the denied check. Policies that count
// attempts keep their counts. The check is denied even if a refund fails; its units then
// stay spent.
func (s *Store) refund(ctx context.Context, groups []*group) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTimeout)
	defer cancel()
	var wait sync.WaitGroup
	for _, g := range groups {
		if g.denies() {
			continue
		}
		wait.Go(func() {
			if command := s.refundCommand(g); command.algorithms != 0 {
				if _, err := s.run(ctx, refundScripts, command); err != nil {
					return
				}
			}
			g.call.Denied = true
			_ = s.dryRun(ctx, []*group{g})
		})
	}
	wait.Wait()
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
	c := s.newCommand(&Call{Entries: spent})
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
