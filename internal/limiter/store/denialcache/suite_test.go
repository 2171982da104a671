// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package denialcache

import (
	"context"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/test/storetest"
)

// oneReplica is a store that no other replica shares.
type oneReplica struct{ *memory.Store }

func (oneReplica) AnnounceChange(context.Context, store.Key) {}

func (oneReplica) WatchChanges(ctx context.Context, _ func(store.Key), _ func()) { <-ctx.Done() }

// A cache in front of a store keeps the promises of the store.
func TestPromises(t *testing.T) {
	clock := storetest.NewStillClock()
	var backend *memory.Store
	s := &storetest.Subject{Clock: clock, IsMonotonic: true, WaitRounding: time.Millisecond}
	s.Clear = func(testing.TB) {
		backend = memory.NewStore(memory.Options{Keys: 1_000_000, Now: clock.Now})
		s.Store = New(oneReplica{backend}, clock.Now)
	}
	s.DropExpired = func(testing.TB) { backend.DropExpired() }
	s.Size = func(testing.TB) int { return backend.Keys() }
	storetest.TestPromises(t, s)
}

// Replicas with caches of their own keep the promises of the store that they share.
func TestConcurrency(t *testing.T) {
	backend := memory.NewStore(memory.Options{Keys: 1000})
	storetest.TestConcurrency(t, &storetest.Replicas{Open: func(_ testing.TB, n int) []storetest.Evaluator {
		replicas := make([]storetest.Evaluator, n)
		for i := range replicas {
			replicas[i] = New(oneReplica{backend}, time.Now)
		}
		return replicas
	}})
}
