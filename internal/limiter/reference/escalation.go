// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// blockCount is the number of blocks that a limit has started, in the reference model.
type blockCount struct {
	blocks int64
	end    expiry
}

func (c *blockCount) alive(now int64) bool { return c.end.alive(now) }

// earlierBlocks returns the number of blocks that the limit remembers.
func (m *Model) earlierBlocks(e *quota.Entry, l *quota.Limit, now int64) int64 {
	if l.Escalation == nil {
		return 0
	}
	if c := state[blockCount](m, e.Key, l.EscalationName(e.Policy.ID())); c.alive(now) {
		return c.blocks
	}
	return 0
}

// countBlock counts a block of that length.
func (m *Model) countBlock(e *quota.Entry, l *quota.Limit, length time.Duration, now int64) {
	if l.Escalation == nil {
		return
	}
	*state[blockCount](m, e.Key, l.EscalationName(e.Policy.ID())) = blockCount{
		blocks: l.CountedBlocks(m.earlierBlocks(e, l, now)), end: expireIn(now, length+l.Escalation.Window),
	}
}
