// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "slices"

// Substitution is a call in which a store replaces the entries that it cannot decide.
type Substitution struct {
	call     *Call
	original []Entry
}

// NewSubstitution returns a substitution for the call, which does not change the call.
func NewSubstitution(call *Call) *Substitution {
	return &Substitution{
		call:     call.WithEntries(slices.Clone(call.Entries)),
		original: call.Entries,
	}
}

// Call returns the call with the replaced entries.
func (s *Substitution) Call() *Call { return s.call }

// Replace replaces the entries with these indexes: a requested limit by the limit of the policy, and
// otherwise the key by an overflow key. A key whose requested limit is replaced may be unknown to the
// limit of the policy as well, so it keeps OnlyKnown, and the next call may replace it once more.
func (s *Substitution) Replace(indexes []int) {
	for i := range s.call.Entries {
		e := &s.call.Entries[i]
		switch replaced := slices.Contains(indexes, i); {
		case replaced && e.Policy.mayBeFull():
			e.Policy = e.Policy.fallback
			continue
		case replaced:
			e.Policy, e.Key = e.Policy.Overflow(), s.call.OverflowKey(i)
		}
		e.OnlyKnown = false // an overflow key, or a key that is known
	}
}

// OverflowKey returns the key that decided entry i in place of a key that was not known, if
// EntryReply.Overflow. It does not depend on the other policies of the call.
func (c *Call) OverflowKey(i int) Key {
	id, number := c.Entries[i].Policy.settings.ID, 0
	for j := range c.Entries[:i] {
		if c.Entries[j].Policy.settings.ID == id {
			number++
		}
	}
	return overflowKey(id, number)
}

// Mark records in the reply to Call which entries were replaced.
func (s *Substitution) Mark(reply *Reply) {
	for i := range reply.Entries {
		e, original := &s.call.Entries[i], &s.original[i]
		reply.Entries[i].Overflow = e.Key != original.Key
		reply.Entries[i].RequestIgnored = e.Key == original.Key && e.Policy != original.Policy
	}
}

// MayBeUndecided reports whether the entry can prevent a decision.
func (e *Entry) MayBeUndecided() bool { return e.OnlyKnown || e.Policy.mayBeFull() }

// mayBeFull reports whether a requested limit may have no room for its state.
func (p *Policy) mayBeFull() bool {
	return p.requested >= 0 && p.limits[p.requested].Algorithm.Refills()
}
