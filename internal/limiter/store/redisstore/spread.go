// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// spread is a call that needs several script calls: its keys may lie on several nodes, which no script can read
// together, or it has too many limits for one script call. It owns the groups of the call, one for each script call.
type spread struct {
	*Store

	substitution *store.Substitution // the call
	deadline     time.Time
	groups       []*group
	settled      []settlement // by all prechecks, since each hold is settled only once; by entry
	repeated     bool         // the call repeats one that has taken holds
}

// settlement is the number of the ended holds that were spent, and the units of debt that were cut.
type settlement struct{ holds, debtCut int64 }

func (s *Store) newSpread(call *store.Call, deadline time.Time) *spread {
	return &spread{
		Store: s, substitution: store.NewSubstitution(call), deadline: deadline, settled: make([]settlement, len(call.Entries)),
	}
}

// evaluate evaluates the call.
func (c *spread) evaluate(ctx context.Context) (*store.Reply, error) {
	if !c.substitution.Call().IsDeniable() {
		return c.change(ctx)
	}
	decided, err := c.decideOnce(ctx)
	if err != nil || decided.undecided == nil {
		return decided.Reply, err
	}
	return c.substitute(ctx, decided.undecided)
}

// substitute replaces the undecided entries until all are decided: at most twice for each entry.
func (c *spread) substitute(ctx context.Context, undecided []int) (*store.Reply, error) {
	for {
		c.substitution.Replace(undecided)
		decided, err := c.decideOnce(ctx)
		if err != nil {
			return nil, err
		}
		if undecided = decided.undecided; undecided == nil {
			c.substitution.Mark(decided.Reply)
			return decided.Reply, nil
		}
	}
}

// decideOnce decides the call as it is, or returns which entries need a substitute. It prechecks every
// group and spends only if all admit. If another check spends the last units in between, it refunds the groups that have
// spent.
//
//   - Each group takes two round trips. Groups of different keys share their time. The refund after such a lost
//     race is a third round trip, which the caller does not wait for.
//   - After a crash or a lost reply the cost of one check stays spent, so that the limits deny too early, never
//     too late.
func (c *spread) decideOnce(ctx context.Context) (result, error) {
	call := c.substitution.Call()
	if !c.mustSpread(call) {
		return c.evaluateAtomic(ctx, call, mode{}, c.deadline)
	}
	c.repeated = false
	c.divide(c.all())
	if err := c.precheck(ctx); err != nil {
		return result{}, err
	}
	if c.undecided() == nil && c.any((*group).repeats) {
		c.repeat()
		if err := c.precheck(ctx); err != nil {
			return result{}, err
		}
	}
	if undecided := c.undecided(); undecided != nil {
		return result{undecided: undecided}, nil
	}
	denied := call.Denied || c.any((*group).denies)
	if err := c.spend(ctx, denied); err != nil {
		return result{}, err
	}
	if !denied && c.any((*group).denies) {
		c.refundLostRace() //nolint:contextcheck // no caller waits for the refund
	}
	return result{Reply: c.reply()}, nil
}

// precheck evaluates every group without spending, and moves what that has settled to the settlements.
func (c *spread) precheck(ctx context.Context) error {
	err := c.forEach(func(g *group) (err error) {
		m := mode{precheck: true, repeated: c.repeated}
		g.precheck, err = c.evaluateAtomic(ctx, g.call.WithEntries(g.call.Entries), m, c.deadline)
		g.decided = g.precheck
		return err
	})
	if err != nil {
		return err
	}
	for _, g := range c.groups {
		if g.decided.undecided != nil {
			continue
		}
		for i, at := range g.indexes {
			r, settled := &g.decided.Entries[i], &c.settled[at]
			settled.holds, settled.debtCut = settled.holds+r.Settled, settled.debtCut+r.DebtCut
			r.Settled, r.DebtCut = 0, 0
		}
	}
	return nil
}

// repeat makes the call the repetition of an earlier one, so its keys are known.
func (c *spread) repeat() {
	c.repeated = true
	for _, g := range c.groups {
		for i := range g.call.Entries {
			g.call.Entries[i].OnlyKnown = false
		}
	}
}

// spend evaluates the groups that have something to write. If the check is admitted, they spend; if it is denied,
// they count attempts and start blocks. A denied check stays denied, even if the group that denied it admits it by
// now, or if the script call of a group fails.
func (c *spread) spend(ctx context.Context, denied bool) error {
	return c.forEach(func(g *group) error {
		g.call.Denied = denied
		if !g.needsSpend(c.repeated) {
			return nil
		}
		groupDenied := g.denies()
		decided, err := c.evaluateAtomic(ctx, &g.call, mode{receipts: true, repeated: c.repeated}, c.deadline)
		switch {
		case err != nil && denied:
			return nil
		case err != nil:
			return mayHaveWritten(err)
		}
		if g.decided = decided; groupDenied && !g.denies() {
			g.decided = g.precheck
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

// reply returns the replies of the groups in the order of the call, with what prechecks have settled.
func (c *spread) reply() *store.Reply {
	reply := c.newReply()
	for _, g := range c.groups {
		g.copyReply(reply)
	}
	for i, settled := range c.settled {
		r := &reply.Entries[i]
		r.Settled, r.DebtCut = r.Settled+settled.holds, r.DebtCut+settled.debtCut
		r.Began = r.Began && settled.holds == 0 // the key had holds
	}
	return reply
}

func (c *spread) newReply() *store.Reply {
	return &store.Reply{Entries: make([]store.EntryReply, len(c.settled))}
}

// change commits, renews or charges in each group, whatever the others do. A decided group is not sent
// again if another group needs substitutes: a charge without an ID would be counted twice. After an error some
// groups may have made their changes; the same call again changes only the others.
func (c *spread) change(ctx context.Context) (*store.Reply, error) {
	reply := c.newReply()
	for c.divide(c.all()); len(c.groups) > 0; {
		err := c.forEach(func(g *group) (err error) {
			g.decided, err = c.evaluateAtomic(ctx, &g.call, mode{}, c.deadline)
			return err
		})
		if err != nil {
			return nil, err
		}
		var again []int
		for _, g := range c.groups {
			if g.decided.undecided == nil {
				g.copyReply(reply)
			} else {
				again = append(again, g.indexes...)
			}
		}
		c.substitution.Replace(c.undecided())
		c.divide(again)
	}
	c.substitution.Mark(reply)
	return reply, nil
}
