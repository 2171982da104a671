// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

const (
	// inlineBytes is the length of the longest key that an event holds without an allocation.
	inlineBytes = 128
	// maxLongBytes bounds the longer keys in one buffer.
	maxLongBytes = 256 << 10
)

// event is a denial of a key or, if it has an end, a block that began.
type event struct {
	policy string
	hash   uint64
	end    time.Time
	length int // of the key in inline; -1 if it is long
	inline [inlineBytes]byte
	long   string
}

// text returns the key. It is valid as long as the event.
func (e *event) text() []byte {
	if e.length < 0 {
		return []byte(e.long)
	}
	return e.inline[:e.length]
}

// buffer is a bounded queue of events with any number of writers and one reader. Neither waits for
// the other. It is the bounded queue of Dmitry Vyukov: the turn of a slot determines which of them uses it.
type buffer struct {
	slots []slot
	size  uint64
	// wake receives a value when a quarter of the buffer has been written.
	wake chan<- struct{}
	long atomic.Int64 // bytes of long keys

	_    [64]byte // writers and the reader use different cache lines
	tail atomic.Uint64
	_    [64]byte
	head uint64
}

type slot struct {
	// turn is the position at which the slot may be written, and one more when it may be read.
	turn atomic.Uint64
	event
}

// newBuffer returns a buffer for size events, a power of two.
func newBuffer(size uint64, wake chan<- struct{}) *buffer {
	b := &buffer{slots: make([]slot, size), size: size, wake: wake}
	for i := range b.slots {
		b.slots[i].turn.Store(uint64(i))
	}
	return b
}

func (b *buffer) slot(position uint64) *slot { return &b.slots[position&(b.size-1)] }

// add appends the event and reports whether there was room. It copies the key.
func (b *buffer) add(policy string, key store.Key, hash uint64, end time.Time) bool {
	if len(key) > inlineBytes && b.long.Add(int64(len(key))) > maxLongBytes {
		b.long.Add(-int64(len(key)))
		return false
	}
	position := b.tail.Load()
	for {
		s := b.slot(position)
		switch turn := s.turn.Load(); {
		case turn == position && b.tail.CompareAndSwap(position, position+1):
			s.set(policy, key, hash, end)
			s.turn.Store(position + 1)
			b.signal(position)
			return true
		case turn < position: // the reader has not taken the event of the previous round
			if len(key) > inlineBytes {
				b.long.Add(-int64(len(key)))
			}
			return false
		default:
			position = b.tail.Load()
		}
	}
}

func (e *event) set(policy string, key store.Key, hash uint64, end time.Time) {
	e.policy, e.hash, e.end = policy, hash, end
	if len(key) > inlineBytes {
		e.length, e.long = -1, strings.Clone(string(key))
		return
	}
	e.length = copy(e.inline[:], key)
}

// signal wakes the reader at each quarter.
func (b *buffer) signal(position uint64) {
	if position&(b.size/4-1) != 0 {
		return
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take calls use with the next event, which is valid during the call, and reports whether there was
// one. Only one goroutine may call it.
func (b *buffer) take(use func(*event)) bool {
	s := b.slot(b.head)
	if s.turn.Load() != b.head+1 {
		return false
	}
	use(&s.event)
	if s.length < 0 {
		b.long.Add(-int64(len(s.long)))
	}
	s.long, s.policy = "", ""
	s.turn.Store(b.head + b.size)
	b.head++
	return true
}
