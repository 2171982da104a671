// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

// Limits bound the keys that one policy begins in one process.
type Limits struct {
	// PerMinute is the number of keys that a policy may begin in one minute; 0 is unlimited. A key
	// whose state exists for a part of a minute counts with that part: with a window of a second, or
	// a bucket that is soon full again, known clients begin their keys again and again.
	PerMinute int64
	// PerWindow is the number of started keys whose state may exist at the same time; 0 is unlimited.
	PerWindow int64
}

// resolution is the number of parts into which the longest life of a state is divided.
const resolution = 60

// Budget counts the keys that one policy begins. It is safe for concurrent use.
type Budget struct {
	limits Limits
	part   time.Duration // of the longest life
	start  time.Time
	// spentUntil is the time since start, in nanoseconds, until which the budget is spent.
	spentUntil atomic.Int64

	mu      sync.Mutex
	minute  int64   // the current minute since start
	newKeys float64 // counted in it
	// ends counts the keys by the part before which their state has ended, from the next part on. It is nil until
	// the policy begins a key.
	ends    *[resolution + 2]int64
	current int64 // the current part since start
	alive   int64 // of ends
}

// NewBudget returns a budget that nothing has been spent from. longest is the longest life of a
// state of the policy, and the longest for which keys count.
func NewBudget(limits Limits, longest time.Duration, now time.Time) *Budget {
	return &Budget{limits: limits, part: partOf(longest), start: now}
}

// partOf returns the length of the parts of the longest life.
func partOf(longest time.Duration) time.Duration { return max(longest, time.Second) / resolution }

// ForLongest returns a budget with the counts of b for another longest life, as after an edit of the
// policy, or b itself if it is the same. Counted keys stay counted until their state has ended, even
// if the longest life became shorter.
func (b *Budget) ForLongest(longest time.Duration, now time.Time) *Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	if partOf(longest) == b.part {
		return b
	}
	at := now.Sub(b.start)
	b.advance(at)
	for end, keys := range b.counted() {
		if keys > 0 {
			longest = max(longest, time.Duration(end)*b.part-at)
		}
	}
	changed := &Budget{limits: b.limits, part: partOf(longest), start: b.start, minute: b.minute, newKeys: b.newKeys}
	changed.current = int64(at / changed.part)
	for end, keys := range b.counted() {
		changed.count(keys, time.Duration(end)*b.part)
	}
	changed.update()
	return changed
}

// counted returns the number of keys by the part before which their state has ended.
func (b *Budget) counted() iter.Seq2[int64, int64] {
	return func(yield func(int64, int64) bool) {
		if b.ends == nil {
			return
		}
		for end := b.current + 1; end < b.current+int64(len(b.ends)); end++ {
			if !yield(end, b.ends[end%int64(len(b.ends))]) {
				return
			}
		}
	}
}

// count counts keys whose state ends at that time since start, or later.
func (b *Budget) count(keys int64, at time.Duration) {
	if b.ends == nil {
		b.ends = new([resolution + 2]int64)
	}
	end := min(int64((at+b.part-1)/b.part), b.current+resolution+1)
	b.alive += keys
	b.ends[end%int64(len(b.ends))] += keys
}

// update sets until when the budget is spent.
func (b *Budget) update() {
	var until time.Duration
	if b.limits.PerMinute > 0 && b.newKeys >= float64(b.limits.PerMinute) {
		until = time.Duration(b.minute+1) * time.Minute
	}
	if b.limits.PerWindow > 0 && b.alive >= b.limits.PerWindow {
		until = max(until, time.Duration(b.current+1)*b.part)
	}
	b.spentUntil.Store(max(b.spentUntil.Load(), int64(until)))
}

// Exhausted reports whether the policy may begin no further key now. While the budget stays exhausted, one
// key may begin in each sixtieth of the longest life, which is when Begin looks again.
func (b *Budget) Exhausted(now time.Time) bool {
	until := b.spentUntil.Load()
	return until > 0 && int64(now.Sub(b.start)) < until
}

// Begin counts a key that the policy has begun, whose state exists for the given life.
func (b *Budget) Begin(now time.Time, life time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := now.Sub(b.start)
	b.advance(at)
	b.newKeys += min(1, life.Minutes())
	if life > 0 {
		b.count(1, at+life+1)
	}
	b.update()
}

// advance forgets the keys of earlier minutes, and those whose state has ended.
func (b *Budget) advance(at time.Duration) {
	if minute := int64(at / time.Minute); minute > b.minute {
		b.minute, b.newKeys = minute, 0
	}
	now := int64(at / b.part)
	for steps := min(now-b.current, int64(len(b.ends))); steps > 0 && b.ends != nil; steps-- {
		b.current++
		slot := &b.ends[b.current%int64(len(b.ends))]
		b.alive -= *slot
		*slot = 0
	}
	b.current = max(b.current, now)
}
