// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"testing"
	"time"
)

// OtherStore is a store in a package that imports this one.
type OtherStore interface {
	decider
	// DropExpired removes all expired callers.
	DropExpired()
}

// NewOtherStore returns an empty store with that clock. Tests of package script_test set it, so
// that the tests of this package run on that store, too.
var NewOtherStore func(now func() time.Time) OtherStore

func newMemoryBackend() *backend {
	clock := &stillClock{now: time.UnixMicro(1_900_000_000_123_456)}
	store := NewOtherStore(clock.Now)
	b := &backend{name: "memory", decider: store, clock: clock, isMonotonic: true}
	b.clear = func(testing.TB) {
		store = NewOtherStore(clock.Now)
		b.decider = store
	}
	b.setTime = func(_ testing.TB, now time.Time) {
		clock.Set(now)
		store.DropExpired()
	}
	return b
}
