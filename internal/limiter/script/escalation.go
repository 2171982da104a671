// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"strconv"
	"time"
)

// Escalation makes the blocks of a limit longer, in place of a length that is always the same.
type Escalation struct {
	// Lengths are those of the first, second, ... block that the limit starts, in whole milliseconds;
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
// have lengths of their own.
func (l *Limit) CountedBlocks(earlier int64) int64 {
	return min(earlier+1, int64(len(l.Escalation.Lengths)))
}

// blocks reports whether a denial by the limit starts a block.
func (l *Limit) blocks() bool { return l.Block > 0 || l.Escalation != nil }

// escalationKey returns the key of the number of blocks that the limit has started.
func escalationKey(policy string, l *Limit) string { return policy + ":" + l.Name + ":escalation" }

// EscalationName returns the name of the state that counts the blocks of limit i, "" without one.
func (p *Policy) EscalationName(i int) string {
	if p.limits[i].Escalation == nil {
		return ""
	}
	return escalationKey(p.id, &p.limits[i])
}

// EscalationNames returns the names of the states that count blocks, of all variants of the policy.
func (p *Policy) EscalationNames() []string { return p.escalationKeys }

// blockArguments returns the arguments about the blocks of the limit: its length and name; or the
// number of lengths below 0, the name, the lengths, and how long they are remembered.
func (l *Limit) blockArguments() []any {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	if l.Escalation == nil {
		return []any{number(l.Block.Milliseconds()), l.Name}
	}
	args := []any{number(-int64(len(l.Escalation.Lengths))), l.Name}
	for _, length := range l.Escalation.Lengths {
		args = append(args, number(length.Milliseconds()))
	}
	return append(args, number(l.Escalation.Window.Milliseconds()))
}

// blockCount is the number of blocks that a limit has started, in the reference model.
type blockCount struct {
	blocks int64
	end    expiry
}

func (c *blockCount) alive(now int64) bool { return c.end.alive(now) }

// earlierBlocks returns the number of blocks that the limit remembers.
func (m *Model) earlierBlocks(e *Entry, l *Limit, now int64) int64 {
	if l.Escalation == nil {
		return 0
	}
	if c := state[blockCount](m, e.Key, escalationKey(e.Policy.id, l)); c.alive(now) {
		return c.blocks
	}
	return 0
}

// countBlock counts a block of that length.
func (m *Model) countBlock(e *Entry, l *Limit, length time.Duration, now int64) {
	if l.Escalation == nil {
		return
	}
	*state[blockCount](m, e.Key, escalationKey(e.Policy.id, l)) = blockCount{
		blocks: l.CountedBlocks(m.earlierBlocks(e, l, now)), end: expireIn(now, length+l.Escalation.Window),
	}
}
