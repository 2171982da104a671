// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// charges remembers the IDs of charges for the time of store.MemoryOf. One key may have many, so they are no
// states of their caller. They take no room of keys, and Reset does not forget them. Beyond a bound of their own, none is
// remembered.
type charges struct {
	most int
	gone map[chargeID]int64 // the first millisecond in which it is forgotten
	// queues have the IDs in the order in which they are forgotten: of streams of Envoy, and others.
	queues [2][]remembered
}

// leastCharges is the least number of IDs that a shard may remember. In all shards as many are possible as keys.
const leastCharges = 1024

type chargeID struct {
	caller id
	hash   uint64 // of the ID
}

type remembered struct {
	chargeID
	gone int64
}

// has reports whether the ID is remembered at the given microsecond.
func (c *charges) has(of chargeID, now int64) bool { return now/1000 < c.gone[of] }

// remember remembers the ID for that time, or longer if it was remembered already.
func (c *charges) remember(of chargeID, memory time.Duration, now int64) {
	if len(c.gone) >= c.most {
		return
	}
	if c.gone == nil {
		c.gone = map[chargeID]int64{}
	}
	gone, queue := now/1000+memory.Milliseconds(), &c.queues[0]
	if memory != store.StreamMemory {
		queue = &c.queues[1]
	}
	c.gone[of] = gone
	*queue = append(*queue, remembered{of, gone})
}

// expire forgets up to most IDs of each queue whose time is over.
func (c *charges) expire(now int64, most int) {
	for i := range c.queues {
		queue := c.queues[i]
		for n := most; n > 0 && len(queue) > 0 && queue[0].gone <= now/1000; n-- {
			if c.gone[queue[0].chargeID] == queue[0].gone {
				delete(c.gone, queue[0].chargeID)
			}
			queue = queue[1:]
		}
		if len(queue) == 0 {
			queue = nil
		}
		c.queues[i] = queue
	}
	if len(c.queues[0])+len(c.queues[1]) == 0 {
		c.gone = nil
	}
}
