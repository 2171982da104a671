// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import "math/bits"

const (
	wheelBits = 6
	slotCount = 1 << wheelBits
	// wheelLevels cover 54 bits of milliseconds.
	wheelLevels = 9
)

// wheel orders callers by the time at which they are due, in milliseconds: a hierarchical
// timing wheel. A caller is in the slot of the highest digit, in base 64, in which its time
// differs from the time of the wheel. It moves down at most once a level, so each operation
// takes constant time.
type wheel struct {
	time int64 // everything that was due before has been taken
	// open is the slot of which callers were taken last. It is emptied before any other.
	open  int
	slots [wheelLevels * slotCount]uint32
	// filled has a bit for each slot of a level that is not empty.
	filled [wheelLevels]uint64
}

// link is the place of a caller in the wheel.
type link struct {
	next, prev uint32
	slot       uint16
}

// add files the caller under the time at which it is due.
func (w *wheel) add(callers *slab[caller], i uint32, due int64) {
	due = max(due, w.time)
	level := max(0, bits.Len64(uint64(due^w.time))-1) / wheelBits //nolint:gosec // not negative
	level = min(level, wheelLevels-1)
	digit := int(due>>(level*wheelBits)) % slotCount
	slot := level*slotCount + digit
	c := callers.at(i)
	c.link = link{next: w.slots[slot], slot: uint16(slot)} //nolint:gosec // less than wheelLevels * slotCount
	if c.next != 0 {
		callers.at(c.next).prev = i
	}
	w.slots[slot] = i
	w.filled[level] |= 1 << digit
}

// remove takes the caller out of the wheel.
func (w *wheel) remove(callers *slab[caller], i uint32) {
	l := callers.at(i).link
	if l.next != 0 {
		callers.at(l.next).prev = l.prev
	}
	if l.prev != 0 {
		callers.at(l.prev).next = l.next
		return
	}
	w.slots[l.slot] = l.next
	if l.next == 0 {
		w.filled[l.slot/slotCount] &^= 1 << (l.slot % slotCount)
	}
}

// next returns the first slot that is not empty, and the time at which it begins.
func (w *wheel) next() (slot int, begins int64, found bool) {
	if w.slots[w.open] != 0 && w.isNow(w.open) {
		return w.open, w.time, true
	}
	for level, filled := range w.filled {
		if filled == 0 {
			continue
		}
		digit := bits.TrailingZeros64(filled)
		shift := level * wheelBits
		begins = w.time>>(shift+wheelBits)<<(shift+wheelBits) | int64(digit)<<shift
		return level*slotCount + digit, max(begins, w.time), true
	}
	return 0, 0, false
}

// isNow reports whether the time of the wheel lies in the slot.
func (w *wheel) isNow(slot int) bool {
	level, digit := slot/slotCount, slot%slotCount
	return int(w.time>>(level*wheelBits))%slotCount == digit
}

// take takes a caller that may be due out of the wheel: the rest of its time has to be
// checked, and unless it is due, it has to be added again. It returns 0 if none is due.
func (w *wheel) take(callers *slab[caller], now int64) uint32 {
	slot, begins, found := w.next()
	if !found || begins > now {
		return 0
	}
	w.time, w.open = begins, slot
	i := w.slots[slot]
	w.remove(callers, i)
	return i
}
