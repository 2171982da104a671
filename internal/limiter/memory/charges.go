// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"github.com/weir-dev/weir/internal/limiter/quota"
)

// charges remembers the IDs of charges for quota.ChargeMemory. One key may have many, so they are no
// states of their caller. They take no room, and Reset does not forget them.
type charges struct {
	gone  map[chargeID]int64 // the first millisecond in which it is forgotten
	queue []remembered       // in the order in which they are forgotten
}

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

// remember remembers the ID, longer than before if it was remembered already.
func (c *charges) remember(of chargeID, now int64) {
	if c.gone == nil {
		c.gone = map[chargeID]int64{}
	}
	gone := now/1000 + quota.ChargeMemory.Milliseconds()
	c.gone[of] = gone
	c.queue = append(c.queue, remembered{of, gone})
}

// expire forgets up to most IDs whose time is over.
func (c *charges) expire(now int64, most int) {
	for ; most > 0 && len(c.queue) > 0 && c.queue[0].gone <= now/1000; most-- {
		first := c.queue[0]
		c.queue = c.queue[1:]
		if c.gone[first.chargeID] == first.gone {
			delete(c.gone, first.chargeID)
		}
	}
	if len(c.queue) == 0 {
		*c = charges{}
	}
}
