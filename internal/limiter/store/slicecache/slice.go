// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// slice is a number of units of one policy and key that this replica spends by itself.
type slice struct {
	policy *store.Policy
	key    store.Key
	id     string
	// units is the size of the slice, and demand the requested size: the demand of the key in the age of a slice.
	units, demand int64
	// The replica spends from the slice until ends, and its hold is in the store until gone, both counted from when the
	// call that takes it was first sent.
	ends, gone time.Duration
	// limits are the limits after the slice was taken, at the time received.
	limits   []store.LimitReply
	received time.Duration

	// left is what is not spent yet, or sealed.
	left atomic.Int64
}

const sealed = -1

// spend takes the cost from the slice. It returns the units that are left, and false if they do not suffice or the
// slice is sealed.
func (s *slice) spend(cost int64) (left int64, ok bool) {
	for {
		left := s.left.Load()
		if left < cost { // sealed, too
			return left, false
		}
		if s.left.CompareAndSwap(left, left-cost) {
			return left - cost, true
		}
	}
}

// giveBack returns what spend took. It returns false if the slice was sealed meanwhile: the cost stays spent.
func (s *slice) giveBack(cost int64) bool {
	for {
		left := s.left.Load()
		if left == sealed {
			return false
		}
		if s.left.CompareAndSwap(left, left+cost) {
			return true
		}
	}
}

// seal ends the slice, and returns the units that were spent; false if it was sealed before.
func (s *slice) seal() (spent int64, first bool) {
	left := s.left.Swap(sealed)
	return s.units - left, left != sealed
}

// isDue reports whether the next slice is to be taken. It is once half is spent, but not while the rest would last for more than a
// quarter of the age: each exchange costs the store some six checks. It is, too, in the last quarter of its age if the
// key is hot, or the key would have to become hot again.
func (s *slice) isDue(left int64, now time.Duration) bool {
	if now >= s.ends-s.policy.SliceAge()/4 {
		return s.units-left >= hotChecks
	}
	return 2*left <= s.units && 4*left <= s.demand
}

// isFor reports whether the slice may serve the entry at all.
func (s *slice) isFor(e *store.Entry) bool { return s != nil && s.policy == e.Policy }

// reply fills the reply to an entry that was admitted and left the given number of units in the slice. What the slice still
// has is not used.
func (s *slice) reply(r *store.EntryReply, left int64, now time.Duration) {
	for i := range r.Limits {
		r.Limits[i] = store.LimitReply{
			Admits:     true,
			Used:       s.limits[i].Used - left,
			ResetAfter: max(0, s.limits[i].ResetAfter-(now-s.received)),
		}
		r.Limits[i].UsedAfterWaiting = r.Limits[i].Used
	}
}

// hotKey is a key of which this replica takes slices.
type hotKey struct {
	id      keyID
	current atomic.Pointer[slice]
	// isTaking is true while a slice is being taken: one at a time.
	isTaking atomic.Bool
	// pausedUntil is the time before which no slice is taken.
	pausedUntil atomic.Int64
	// drops counts the times when an operator changed the state of the key.
	drops atomic.Int64
	// rate is the demand when a slice was last taken, in units for each SliceAge.
	rate atomic.Int64
}

type keyID struct {
	policy string
	key    store.Key
}

// pause stops the key from taking slices for a quarter of the age of its slices.
func (k *hotKey) pause(p *store.Policy, now time.Duration) {
	k.pausedUntil.Store(int64(now + p.SliceAge()/4))
}
