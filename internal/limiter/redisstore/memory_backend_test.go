// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/limiter/memory"
)

func newMemory(now func() time.Time) *memory.Store {
	return memory.NewStore(memory.Options{Keys: 1_000_000, Now: now})
}

func newMemoryBackend() *backend {
	clock := &stillClock{now: time.UnixMicro(1_900_000_000_123_456)}
	store := newMemory(clock.Now)
	b := &backend{name: "memory", decider: store, clock: clock, isMonotonic: true}
	b.clear = func(testing.TB) {
		store = newMemory(clock.Now)
		b.decider = store
	}
	b.setTime = func(_ testing.TB, now time.Time) {
		clock.Set(now)
		store.DropExpired()
	}
	return b
}
