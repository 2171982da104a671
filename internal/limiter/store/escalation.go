// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "time"

// Escalation makes the blocks of a limit longer, in place of a length that is always the same.
type Escalation struct {
	// Lengths are the lengths of the first, second, ... block that the limit starts, in whole milliseconds;
	// further blocks have the last one. There is at least one.
	Lengths []time.Duration
	// Window is how long after the end of its last block the limit forgets its blocks, in whole
	// milliseconds.
	Window time.Duration
}

// BlockLength returns the length of the block that the limit starts after a number of earlier ones.
func (l *Limit) BlockLength(earlier int64) time.Duration {
	if l.Escalation == nil {
		return l.Block
	}
	lengths := l.Escalation.Lengths
	return lengths[min(earlier, int64(len(lengths)-1))]
}

// CountedBlocks returns the number of blocks that the limit counts, with a further one: as many as
// have lengths of their own, or as another plan with more lengths has counted.
func (l *Limit) CountedBlocks(earlier int64) int64 {
	return max(earlier, min(earlier+1, int64(len(l.Escalation.Lengths))))
}

// startsBlocks reports whether a denial by the limit starts a block.
func (l *Limit) startsBlocks() bool { return l.Block > 0 || l.Escalation != nil }

// EscalationName returns the name of the state that counts the blocks of limit i, "" without one.
func (p *Policy) EscalationName(i int) string {
	if p.limits[i].Escalation == nil {
		return ""
	}
	return p.limits[i].EscalationName(p.settings.ID)
}

// EscalationNames returns the names of the states that count blocks, of all variants of the policy.
func (p *Policy) EscalationNames() []string { return p.escalationNames }
