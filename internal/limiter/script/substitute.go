// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import "slices"

// substitution is a call that was not decided, with other entries in place of those that
// prevented the decision.
type substitution struct {
	call     *Call
	original []Entry
}

func newSubstitution(call *Call) *substitution {
	return &substitution{
		call:     &Call{Entries: slices.Clone(call.Entries), Denied: call.Denied, Draw: call.Draw},
		original: call.Entries,
	}
}

// replace replaces the entries with these indexes and reports whether all could be replaced: a
// requested limit, whose state may have no room, by the limit of the policy; an unknown
// key by the overflow key.
func (s *substitution) replace(indexes []int) bool {
	for _, i := range indexes {
		e := &s.call.Entries[i]
		switch {
		case e.Policy.mayBeFull():
			e.Policy = e.Policy.fallback
		case e.OnlyKnown:
			e.Policy, e.Key, e.OnlyKnown = e.Policy.Overflow(), overflowKey(e.Policy.id, i), false
		default:
			return false
		}
	}
	return true
}

// mayBeFull reports whether a requested limit may have no room for its state.
func (p *Policy) mayBeFull() bool { return p.flags&flagListed != 0 }

// mark records in the reply which entries were replaced.
func (s *substitution) mark(reply *Reply) {
	for i := range reply.Entries {
		e, original := &s.call.Entries[i], &s.original[i]
		reply.Entries[i].Overflow = e.Key != original.Key
		reply.Entries[i].RequestIgnored = e.Key == original.Key && e.Policy != original.Policy
	}
}
