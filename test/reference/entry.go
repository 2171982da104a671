// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/steps"
)

// entry is one entry of a call at one time: the States of its steps.
type entry struct {
	*store.Entry

	model   *Model
	now     int64
	debtCut int64
}

// limit returns a limit with its counter.
func (e *entry) limit(i int) (*store.Limit, counter) {
	l := &e.Policy.Limits()[i]
	return l, e.model.counter(e.Entry, l)
}

// begin forgets what an earlier call was judged by.
func (e *entry) begin() {
	for i := range e.Policy.Limits() {
		if _, c := e.limit(i); c != nil {
			switch b := c.(type) {
			case *tokenBucket:
				b.current = nil
			case *gcra:
				b.current = nil
			}
		}
	}
}

// read reads the limits of GCRA, which may store what judges this plan, while the holds that keep their states are there.
func (e *entry) read() {
	for i := range e.Policy.Limits() {
		if l, c := e.limit(i); l.Algorithm == store.GCRA {
			c.used(e.Entry, l, e.now)
		}
	}
}

func (e *entry) Used(i int) int64 {
	l, c := e.limit(i)
	return c.used(e.Entry, l, e.now)
}

func (e *entry) UsedAfter(i int, wait int64) int64 {
	l, c := e.limit(i)
	return c.usedAfter(e.Entry, l, e.now, wait)
}

func (e *entry) TimeToFit(i int, cost int64) int64 {
	l, c := e.limit(i)
	other := *e.Entry
	other.Cost = cost
	return c.timeToFit(&other, l, e.now)
}

func (e *entry) ResetAfter(i int) int64 {
	l, c := e.limit(i)
	return c.resetAfter(e.Entry, l, e.now)
}

func (e *entry) AfterLast(i int, held, last, wait int64) int64 {
	l, c := e.limit(i)
	return c.(settler).afterLast(l, held, last, wait) //nolint:forcetypeassert // see settle
}

func (e *entry) Judge(i int, draw uint32) (admits, shed bool, suppression float64) {
	l, c := e.limit(i)
	return c.(*suppressed).judge(e.Entry, l, e.now, draw) //nolint:forcetypeassert // it is one
}

// Spend records the cost. Limits that share a log spend once.
func (e *entry) Spend(i int, passes bool) {
	l, c := e.limit(i)
	if sharesLog(e.Policy, i) {
		return
	}
	c.spend(e.Entry, l, e.now, passes)
	e.addDebtCut(i)
}

// sharesLog reports whether an earlier limit has the same log.
func sharesLog(policy *store.Policy, i int) bool {
	for j := range i {
		if policy.StateName(j) == policy.StateName(i) {
			return true
		}
	}
	return false
}

func (e *entry) addDebtCut(i int) {
	if l, c := e.limit(i); l.Algorithm.Refills() {
		e.debtCut += c.(debtor).cutDebt(e.Entry, l, e.now) //nolint:forcetypeassert // it refills
	}
}

func (e *entry) DebtCut() int64 { return e.debtCut }

// Block returns the live block, if there is one.
func (e *entry) Block() (left time.Duration, by string, live bool) {
	b := e.model.block(e.Entry)
	return steps.Duration(b.end.left(e.now)), b.by, b.alive(e.now)
}

// StartBlock starts a block, and returns the time until it ends.
func (e *entry) StartBlock(by string, length time.Duration) (left time.Duration) {
	b := e.model.block(e.Entry)
	b.by, b.end = by, expireIn(e.now, length)
	return steps.Duration(b.end.left(e.now))
}

// EarlierBlocks returns the number of blocks that the limit remembers.
func (e *entry) EarlierBlocks(i int) int64 {
	c := state[blockCount](e.model, e.Key, e.Policy.EscalationName(i))
	if c.alive(e.now) {
		return c.blocks
	}
	return 0
}

// CountBlock counts a block of that length.
func (e *entry) CountBlock(i int, length time.Duration) {
	l := &e.Policy.Limits()[i]
	*state[blockCount](e.model, e.Key, e.Policy.EscalationName(i)) = blockCount{
		blocks: l.CountedBlocks(e.EarlierBlocks(i)), end: expireIn(e.now, length+l.Escalation.Window),
	}
}

// blockCount is the number of blocks that a limit has started.
type blockCount struct {
	blocks int64
	end    expiry
}

func (c *blockCount) alive(now int64) bool { return c.end.alive(now) }
