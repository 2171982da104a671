// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"sync"
	"sync/atomic"

	"github.com/weir-dev/weir/internal/limiter/store/steps"
)

// shard holds a part of the callers.
type shard struct {
	mu      sync.Mutex
	index   map[id]uint32 // the numbers of the callers
	callers slab[caller]
	states  slab[state]
	// logs and blockers hold what states cannot, by number of the state: the hits of a sliding
	// algorithm, and the limit that started a block.
	logs     map[uint32]*hitLog
	blockers map[uint32]string
	// holds and buckets are by number of the state, too: see hold.go and deficit.go.
	holds   map[uint32]*steps.HoldSet
	buckets map[uint32]beside
	// charges are the IDs of charges of all its callers.
	charges charges
	wheel   wheel
	// due is when the first slot of the wheel begins, in milliseconds; see Store.reclaim.
	due atomic.Int64
}

func (s *shard) init() {
	s.index = map[id]uint32{}
	s.logs, s.blockers = map[uint32]*hitLog{}, map[uint32]string{}
	s.holds, s.buckets = map[uint32]*steps.HoldSet{}, map[uint32]beside{}
	s.due.Store(never)
}

// never is later than every time.
const never = 1 << 62

// stateOf returns the number of a state of the caller that exists, or 0.
func (s *shard) stateOf(c uint32, of stateID, now int64) uint32 {
	if c == 0 {
		return 0
	}
	for i := s.callers.at(c).first; i != 0; i = s.states.at(i).next {
		if st := s.states.at(i); st.id == of {
			if st.exists(now) {
				return i
			}
			return 0
		}
	}
	return 0
}

// ends returns when the first of the caller's states ceases to exist.
func (s *shard) ends(c uint32) int64 {
	first := int64(never)
	for i := s.callers.at(c).first; i != 0; i = s.states.at(i).next {
		first = min(first, s.states.at(i).gone)
	}
	return first
}

// count returns the number of states of the caller that match.
func (s *shard) count(c uint32, matches func(*state) bool) (n int) {
	for i := s.callers.at(c).first; i != 0; i = s.states.at(i).next {
		if matches(s.states.at(i)) {
			n++
		}
	}
	return n
}

// put stores the state of the caller, if possible in place of one that has expired, and
// returns its number.
func (s *shard) put(c uint32, st state, now int64) uint32 {
	owner := s.callers.at(c)
	place := uint32(0)
	for i := owner.first; i != 0; i = s.states.at(i).next {
		old := s.states.at(i)
		if old.id == st.id {
			place = i
			break
		}
		if !old.exists(now) {
			place = i
		}
	}
	if place != 0 {
		s.forget(place)
		st.next = s.states.at(place).next
	} else {
		place = s.states.add()
		st.next, owner.first = owner.first, place
	}
	*s.states.at(place) = st
	return place
}

// forget drops what the state has outside it.
func (s *shard) forget(i uint32) {
	delete(s.logs, i)
	delete(s.blockers, i)
	delete(s.holds, i)
	delete(s.buckets, i)
}

// addCaller adds a caller without states, in no slot of the wheel.
func (s *shard) addCaller(of id, overflow bool) uint32 {
	i := s.callers.add()
	c := s.callers.at(i)
	c.id, c.overflow = of, overflow
	s.index[of] = i
	return i
}

// file files a new caller under the end of its first state.
func (s *shard) file(c uint32) {
	s.wheel.add(&s.callers, c, s.ends(c))
	s.setDue()
}

// refile files a caller again if its first state ends earlier than before.
func (s *shard) refile(c uint32, before int64) {
	if ends := s.ends(c); ends < before {
		s.wheel.remove(&s.callers, c)
		s.wheel.add(&s.callers, c, ends)
		s.setDue()
	}
}

func (s *shard) setDue() {
	due := int64(never)
	if _, begins, found := s.wheel.next(); found {
		due = begins
	}
	if s.due.Load() != due {
		s.due.Store(due)
	}
}

// drop removes the states of the caller that match.
func (s *shard) drop(c uint32, matches func(*state) bool) {
	link := &s.callers.at(c).first
	for *link != 0 {
		i := *link
		st := s.states.at(i)
		if !matches(st) {
			link = &st.next
			continue
		}
		*link = st.next
		s.forget(i)
		s.states.remove(i)
	}
}

// dropCaller removes a caller without states. It must be in no slot.
func (s *shard) dropCaller(c uint32) {
	delete(s.index, s.callers.at(c).id)
	s.callers.remove(c)
}

// expire removes states that have expired, and callers without states. It looks at up to most
// of the callers that may have such states, and returns how many it looked at and how many of
// the removed ones took room. It also forgets up to most charges. The shard is locked.
func (s *shard) expire(now int64, most int) (seen, freed int) {
	s.charges.expire(now, most)
	if s.due.Load() > now/1000 {
		return 0, 0
	}
	hasExpired := func(st *state) bool { return !st.exists(now) }
	for ; seen < most; seen++ {
		c := s.wheel.take(&s.callers, now/1000)
		if c == 0 {
			break
		}
		s.drop(c, hasExpired)
		owner := s.callers.at(c)
		if owner.first != 0 {
			s.wheel.add(&s.callers, c, s.ends(c))
			continue
		}
		if !owner.overflow {
			freed++
		}
		s.dropCaller(c)
	}
	s.setDue()
	return seen, freed
}

// blockOf returns the state of the block of the caller and the limit that started it, or nil.
func (s *shard) blockOf(c uint32, now int64) (*state, string) {
	i := s.stateOf(c, blockID, now)
	if i == 0 {
		return nil, ""
	}
	return s.states.at(i), s.blockers[i]
}

// setBlock blocks the caller for the given milliseconds.
func (s *shard) setBlock(c uint32, by string, now, millis int64) *state {
	st := state{id: blockID}
	st.expireIn(now, millis)
	i := s.put(c, st, now)
	if by != manualBlock {
		s.blockers[i] = by
	}
	return s.states.at(i)
}

// manualBlock is the name of the limit of a block that no limit started.
const manualBlock = ""
