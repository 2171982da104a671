// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"sync"
	"sync/atomic"
	"time"
)

// Limits bound the keys that one policy begins in one process.
type Limits struct {
	// PerMinute is the number of keys that a policy may begin in one minute; 0 is unlimited.
	PerMinute int64
	// PerWindow is the number of keys that a policy may begin within its longest window or block;
	// 0 is unlimited. The state of these keys exists at the same time.
	PerWindow int64
}

// resolution is the number of parts into which a window is divided: keys are forgotten when the
// part in which they began has left the window.
const resolution = 60

// Budget counts the keys that one policy begins. It is safe for concurrent use.
type Budget struct {
	limits Limits
	part   time.Duration // of the window
	start  time.Time
	// spentUntil is the time since start, in nanoseconds, until which the budget is spent.
	spentUntil atomic.Int64

	mu     sync.Mutex
	minute int64 // the current minute since start
	begun  int64 // the keys begun in it
	parts  [resolution]int64
	newest int64 // the current part since start
	total  int64 // of parts
}

// NewBudget returns a budget that nothing has been spent from. window is the longest window or
// block of the policy.
func NewBudget(limits Limits, window time.Duration, now time.Time) *Budget {
	return &Budget{limits: limits, part: max(window, time.Minute) / resolution, start: now}
}

// Spent reports whether the policy may begin no further key now.
func (b *Budget) Spent(now time.Time) bool {
	until := b.spentUntil.Load()
	return until > 0 && int64(now.Sub(b.start)) < until
}

// Begin counts a key that the policy has begun.
func (b *Budget) Begin(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := now.Sub(b.start)
	b.advance(at)
	b.begun++
	b.total++
	b.parts[b.newest%resolution]++
	var until time.Duration
	if b.limits.PerMinute > 0 && b.begun >= b.limits.PerMinute {
		until = time.Duration(b.minute+1) * time.Minute
	}
	if b.limits.PerWindow > 0 && b.total >= b.limits.PerWindow {
		until = max(until, time.Duration(b.newest+1)*b.part)
	}
	b.spentUntil.Store(max(b.spentUntil.Load(), int64(until)))
}

// advance forgets the keys that began before the current minute or window.
func (b *Budget) advance(at time.Duration) {
	if minute := int64(at / time.Minute); minute > b.minute {
		b.minute, b.begun = minute, 0
	}
	newest := int64(at / b.part)
	for b.newest < newest {
		if newest-b.newest > resolution { // every part has left the window
			b.newest = newest - resolution
		}
		b.newest++
		b.total -= b.parts[b.newest%resolution]
		b.parts[b.newest%resolution] = 0
	}
}
