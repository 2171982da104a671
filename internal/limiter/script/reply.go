// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"errors"
	"time"
)

var errReply = errors.New("reply does not have the form of decide.lua")

// decodeReply reads the flat array that decide.lua returns.
func decodeReply(call *Call, values []any) (*Reply, error) {
	c := replyCursor{values: values}
	reply := &Reply{Entries: make([]EntryReply, len(call.Entries))}
	for i := range reply.Entries {
		e := &reply.Entries[i]
		e.Verdict = Verdict(c.number())
		if e.Verdict >= Blocked {
			e.BlockLeft = micros(c.number())
			e.BlockedBy = c.text()
		}
		e.Limits = make([]LimitReply, len(call.Entries[i].Policy.limits))
		for j := range e.Limits {
			e.Limits[j] = LimitReply{
				Fits:     c.number() == 1,
				Used:     c.number(),
				Wait:     waitOf(c.number()),
				UsedThen: c.number(),
				Idle:     micros(c.number()),
			}
		}
	}
	if c.bad || len(c.values) > 0 {
		return nil, &StoreError{Cause: CauseScript, Err: errReply}
	}
	return reply, nil
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
