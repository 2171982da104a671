// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"errors"
	"slices"
	"time"
)

var errReply = errors.New("reply does not have the form of decide.lua")

// millionths is the unit of shares in replies, which contain only integers.
const millionths = 1e6

// decodeReply reads the array that decide.lua returns for one call.
func decodeReply(call *Call, receipts bool, value any) (*Reply, error) {
	values, _ := value.([]any)
	c := replyCursor{values: values}
	reply := call.newReply()
	for i := range reply.Entries {
		e := &reply.Entries[i]
		e.Verdict = Verdict(c.number())
		c.bad = c.bad || e.Verdict < Admitted || e.Verdict > Tripped
		if e.Verdict >= Blocked {
			e.BlockLeft = micros(c.number())
			e.BlockedBy = c.text()
		}
		policy := call.Entries[i].Policy
		for j := range e.Limits {
			l := &e.Limits[j]
			admits := c.number()
			l.Admits, l.Shed = admits == 1, admits == 2
			l.Used = c.number()
			l.RetryAfter = waitOf(c.number())
			l.UsedAfterWaiting = c.number()
			l.ResetAfter = micros(c.number())
			if policy.limits[j].Algorithm == Suppressed {
				l.Suppression = float64(c.number()) / millionths
			}
			if receipts {
				l.receipt = c.number()
			}
			policy.saturate(j, l)
		}
	}
	if c.bad || len(c.values) > 0 {
		return nil, &StoreError{Cause: CauseScript, Err: errReply}
	}
	return reply, nil
}

// newReply returns an empty reply in the memory of the call.
func (c *Call) newReply() *Reply {
	n := 0
	for i := range c.Entries {
		n += len(c.Entries[i].Policy.limits)
	}
	c.reply.FromCache = false
	c.reply.Entries = cleared(c.reply.Entries, len(c.Entries))
	c.limits = cleared(c.limits, n)
	rest := c.limits
	for i := range c.Entries {
		n := len(c.Entries[i].Policy.limits)
		c.reply.Entries[i].Limits, rest = rest[:n:n], rest[n:]
	}
	return &c.reply
}

// cleared returns a list of n zero values, in the memory of the list if it is large enough.
func cleared[T any](list []T, n int) []T {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

// saturate caps the reported attempts at the threshold. The state may hold more, for a
// variant with a larger threshold.
func (p *Policy) saturate(i int, l *LimitReply) {
	if p.attempts {
		l.Used = min(l.Used, p.limits[i].Threshold)
		l.UsedAfterWaiting = min(l.UsedAfterWaiting, p.limits[i].Threshold)
	}
}

type replyCursor struct {
	values []any
	bad    bool
}

func (c *replyCursor) next() any {
	if len(c.values) == 0 {
		c.bad = true
		return nil
	}
	v := c.values[0]
	c.values = c.values[1:]
	return v
}

func (c *replyCursor) number() int64 {
	n, ok := c.next().(int64)
	c.bad = c.bad || !ok
	return n
}

func (c *replyCursor) text() string {
	s, ok := c.next().(string)
	c.bad = c.bad || !ok
	return s
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func waitOf(n int64) time.Duration {
	if n < 0 {
		return Never
	}
	return micros(n)
}
