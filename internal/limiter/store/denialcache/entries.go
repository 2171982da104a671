// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package denialcache

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// alone returns a call with the i-th entry only.
func alone(c *store.Call, i int) *store.Call { return &store.Call{Entries: c.Entries[i : i+1 : i+1]} }

// updateEntries also caches the denial of a chain entry by entry, each as the denial of a call with this entry
// alone. Without Redis they deny every chain with the same policy and key.
func (c *Cache) updateEntries(call *store.Call, reply *store.Reply, changes uint64, sent time.Time) {
	if len(call.Entries) == 1 {
		return
	}
	for i := range reply.Entries {
		if reply.Entries[i].Verdict == store.Admitted {
			continue
		}
		entry := alone(call, i)
		id, own := c.identify(entry)
		if _, now := c.identify(call); now != changes || c.recall(entry, sent) != nil {
			continue // a key was changed meanwhile, or the denial is known
		}
		if d := c.newDenial(entry, &store.Reply{Entries: reply.Entries[i : i+1 : i+1]}, own, sent); d != nil {
			c.shard(id).update(id, d, entry)
		}
	}
}

// recall returns the cached denial of the call if it has the same cost or a block denies every cost,
// or nil.
func (c *Cache) recall(call *store.Call, now time.Time) *denial {
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
func (c *Cache) answerWithEntries(call *store.Call, now time.Time) *store.Reply {
	reply, isDenied := call.NewReply(), false
	reply.FromCache = true
	for i := range call.Entries {
		entry := alone(call, i)
		if d := c.recall(entry, now); d != nil {
			reply.Entries[i], isDenied = d.replyTo(entry, now).Entries[0], true
		} else {
			reply.Entries[i].Unknown = true
		}
	}
	if !isDenied {
		return nil
	}
	return reply
}
