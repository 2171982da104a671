// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import "time"

// alone returns a call with the i-th entry only.
func (c *Call) alone(i int) *Call { return &Call{Entries: c.Entries[i : i+1 : i+1]} }

// updateEntries caches the denial of a chain entry by entry too, each as that of a call with the entry
// alone. Without Redis they deny every chain with the same policy and key.
func (c *DenialCache) updateEntries(call *Call, reply *Reply, changes uint64, sent time.Time) {
	if len(call.Entries) == 1 {
		return
	}
	for i := range reply.Entries {
		if reply.Entries[i].Verdict == Admitted {
			continue
		}
		alone := call.alone(i)
		id, own := c.identify(alone)
		if _, now := c.identify(call); now != changes || c.recall(alone, sent) != nil {
			continue // a key was changed meanwhile, or the denial is known
		}
		if d := c.newDenial(alone, &Reply{Entries: reply.Entries[i : i+1 : i+1]}, own, sent); d != nil {
			c.shard(id).update(id, d, alone)
		}
	}
}

// recall returns the cached denial of the call if it has the same cost or a block denies every cost,
// or nil.
func (c *DenialCache) recall(call *Call, now time.Time) *denial {
	id, changes := c.identify(call)
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.lookUp(id, call, changes, now); d != nil && (d.denies(call) || d.isBlocked(now)) {
		return d
	}
	return nil
}

// answerWithEntries returns the answer to a chain of which cached denials deny some entries, or nil. The
// other entries are Unknown.
func (c *DenialCache) answerWithEntries(call *Call, now time.Time) *Reply {
	reply, isDenied := call.newReply(), false
	reply.FromCache = true
	for i := range call.Entries {
		alone := call.alone(i)
		if d := c.recall(alone, now); d != nil {
			reply.Entries[i], isDenied = d.replyTo(alone, now).Entries[0], true
		} else {
			reply.Entries[i].Unknown = true
		}
	}
	if !isDenied {
		return nil
	}
	return reply
}
