// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import "time"

// A limit with several lengths of blocks counts the blocks it has started in data[0] of a state.

// EarlierBlocks returns the number of blocks that limit i remembers.
func (e *entry) EarlierBlocks(i int) int64 {
	if number := e.shard.stateOf(e.caller, e.hashes.state(e.Policy.EscalationName(i)), e.now); number != 0 {
		return e.shard.states.at(number).data[0]
	}
	return 0
}

// CountBlock counts a block of that length for limit i.
func (e *entry) CountBlock(i int, length time.Duration) {
	l := e.views[i].limit
	counted := state{id: e.hashes.state(e.Policy.EscalationName(i))}
	counted.data[0] = l.CountedBlocks(e.EarlierBlocks(i))
	counted.expireIn(e.now, (length + l.Escalation.Window).Milliseconds())
	e.shard.put(e.ensureCaller(), counted, e.now)
}
