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

// group is the entries of a call that have one key, so their states lie on one
// node of a Redis Cluster.
type group struct {
	call    Call
	indices []int // of the entries in the whole call
	reply   *Reply
}

func haveOneKey(call *Call) bool {
	return !slices.ContainsFunc(call.Entries, func(e Entry) bool { return e.Key != call.Entries[0].Key })
}

// evaluateSpread decides a call whose keys may lie on several nodes, where no
// script can see them all: it asks everybody first and spends only if all admit.
// Between the two somebody else may have spent the last unit; then what was
// spent elsewhere is given back. That makes two round trips, and a third when a
// race was lost. A crash or a lost reply between them leaves the cost of one
// check spent, which errs towards refusing.
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

// ask lets every group judge and spend nothing. A group that does not answer keeps
// the reply it has.
func (s *Store) dryRun(ctx context.Context, groups []*group) error {
	var wait errgroup.Group
	for _, g := range groups {
		dry := Call{Entries: slices.Clone(g.call.Entries), Denied: g.call.Denied, Draw: g.call.Draw}
		for i := range dry.Entries {
			dry.Entries[i].dryRun = true
		}
		wait.Go(func() error {
			reply, err := s.evaluate(ctx, &dry, false)
			if err == nil {
				g.reply = reply
			}
			return err
		})
	}
	return wait.Wait()
}

// spend lets every group do what it does for a call that all admit, or that
// somebody denied: then attempts are counted and blocks start. What is denied
// stays denied, even if it would be admitted by now or nobody answers.
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
			dryRun, denied := g.reply, g.denies()
			if g.reply = reply; err != nil || denied && !g.denies() {
				g.reply = dryRun
			}
			return nil
		})
	}
	return wait.Wait()
}

// needsSpend reports whether the entry has something to write. A Suppressed
// limit also has another answer when somebody denied: when it would pass for
// certain.
func (g *group) needsSpend(e Entry) bool {
	suppressed := e.Policy.algorithms&Suppressed.bit() != 0
	if g.call.Denied {
		return suppressed || !e.Peek && e.Policy.flags&(flagAttempts|flagBlocks) != 0
	}
	return !e.Peek
}

// refundTimeout bounds taking back what was spent, which goes on although
// the caller may have gone.
const refundTimeout = time.Second

// refund takes back what groups spent on a check that another one denied, and
// asks them for their answer to the denied check. Policies that count attempts
// keep what they counted. The check is denied whether or not that succeeds:
// what cannot be given back is spent.
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

// refundCommand returns the EVALSHA for what the group spent.
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
	c := s.newCommand(spent)
	c.args = append(c.args, len(spent))
	for i := range spent {
		c.add(&spent[i])
		for _, l := range receipts[i] {
			c.args = append(c.args, l.receipt)
		}
	}
	return c
}

// mergeReplies puts the replies of the groups in the order of the call.
func mergeReplies(call *Call, groups []*group) *Reply {
	reply := &Reply{Entries: make([]EntryReply, len(call.Entries))}
	for _, g := range groups {
		for i, at := range g.indices {
			reply.Entries[at] = g.reply.Entries[i]
			for j := range reply.Entries[at].Limits {
				reply.Entries[at].Limits[j].receipt = 0 // nobody else's business
			}
		}
	}
	return reply
}
