// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
	"strings"
	"time"
)

// Entry is one policy and one key of a call.
type Entry struct {
	Policy *Policy
	Key    Key
	// Cost is the number of units to spend or to hold, at least 1 unless Peek or Commit.
	Cost int64
	// Peek evaluates and writes nothing.
	Peek bool
	// OnlyKnown decides a key without any state in the policy by the overflow key of the policy
	// instead. It protects Redis during a flood of new keys.
	OnlyKnown bool
	// Action is what the entry does with its cost.
	Action Action
	// ID names the hold of Reserve, Commit and Renew, and the charge of Charge. Only a
	// Charge may have none.
	ID string
	// Forgets leaves the ID of a charge out of the store, if that has no room for it: a repeat spends again, which denies
	// too early, never too late.
	Forgets bool
	// TTL is how long Reserve and Renew hold from now, in whole milliseconds, at least one.
	TTL time.Duration
}

// Call is one atomic decision. No two entries may have both the same policy
// and the same key. It holds the memory of its reply, so that calls can be pooled.
type Call struct {
	Entries []Entry
	// Denied is true if the check is denied already, outside the call: only policies
	// that count attempts spend.
	Denied bool
	// Draw is a uniform random number in 0..2^32-1, with which Suppressed sheds.
	Draw uint32
	// Uncached is true if no denial that a denialcache.Cache remembers may answer, even if Redis does not.
	Uncached bool

	reply  Reply
	limits []LimitReply // of reply
}

// Clear empties the call, which keeps its memory. The reply to it is no longer valid.
func (c *Call) Clear() {
	clear(c.Entries)
	clear(c.reply.Entries)
	*c = Call{Entries: c.Entries[:0], reply: Reply{Entries: c.reply.Entries[:0]}, limits: c.limits[:0]}
}

// WithEntries returns the call with these entries in place of its own, and a reply of its own.
func (c *Call) WithEntries(entries []Entry) *Call {
	return &Call{Entries: entries, Denied: c.Denied, Draw: c.Draw, Uncached: c.Uncached}
}

// Clone returns a copy of the call with memory of its own. Keys may be parts of a large request,
// which the copy must not keep.
func (c *Call) Clone() *Call {
	copied := c.WithEntries(slices.Clone(c.Entries))
	for i := range copied.Entries {
		e := &copied.Entries[i]
		e.Key, e.ID = Key(strings.Clone(string(e.Key))), strings.Clone(e.ID)
	}
	return copied
}

// NewReply returns an empty reply to the call, in the memory of the call.
func (c *Call) NewReply() *Reply {
	n := 0
	for i := range c.Entries {
		n += len(c.Entries[i].Policy.limits)
	}
	c.reply.FromCache, c.reply.FromSlice, c.reply.Unanswered = false, false, false
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
