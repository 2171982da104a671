// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// refundTimeout bounds a refund, for which no caller waits.
const refundTimeout = time.Second

// refundLostRace gives back, in the background, the units that the groups spent on a check that another group denied.
// Policies that count attempts keep their counts. The other policies of these groups reply what their precheck
// replied: the state without these units. The check is denied even if a refund fails; its units then stay spent.
func (c *spread) refundLostRace() {
	for _, g := range c.groups {
		if g.denies() {
			continue
		}
		lost := *g
		lost.decided.Reply = g.decided.Clone()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), refundTimeout) //nolint:forbidigo // no caller waits for it
			defer cancel()
			if command := c.refundCommand(&lost); command.bindings != 0 {
				_, _ = c.execute(ctx, command) // an error leaves the units spent
			}
			c.cancelHolds(ctx, &lost)
		}()
		for i, e := range g.call.Entries {
			if !e.Policy.CountsAttempts() {
				g.decided.Entries[i] = g.precheck.Entries[i]
			}
		}
	}
}

// refundCommand returns the command that refunds the units the group spent.
func (s *Store) refundCommand(g *group) command {
	var spent []store.Entry
	var receipts [][]int64
	rest := g.decided.receipts
	for i, e := range g.call.Entries {
		r := &g.decided.Entries[i]
		n := min(len(r.Limits), len(rest)) // without receipts the group has spent nothing
		if !e.Peek && !e.Policy.CountsAttempts() && !takesHold(&e) && r.Verdict == store.Admitted && n > 0 {
			spent = append(spent, e)
			receipts = append(receipts, rest[:n])
		}
		rest = rest[n:]
	}
	if len(spent) == 0 {
		return command{}
	}
	c := s.newCommand(refundPrograms, run{calls: []*pending{{call: &store.Call{Entries: spent}}}})
	c.addEntries(spent, false)
	for i := range spent {
		c.args = append(c.args, spent[i].Cost)
		for _, receipt := range receipts[i] {
			c.args = append(c.args, receipt)
		}
	}
	return c
}

// cancelHolds ends the holds that the group took for a call that another group denied.
func (s *Store) cancelHolds(ctx context.Context, g *group) {
	cancel := &store.Call{}
	for i, e := range g.call.Entries {
		if g.decided.Entries[i].Hold == store.HoldTaken {
			cancel.Entries = append(cancel.Entries, store.Entry{Policy: e.Policy, Key: e.Key, Action: store.Commit, ID: e.ID})
		}
	}
	if len(cancel.Entries) > 0 {
		_, _ = s.evaluateAtomic(ctx, cancel, mode{}, s.deadline(ctx)) // after an error the holds end by themselves
	}
}
