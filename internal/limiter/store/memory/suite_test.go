// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/test/storetest"
)

// newSubject returns a store with a clock that the test sets.
func newSubject() *storetest.Subject {
	clock := storetest.NewStillClock()
	s := &storetest.Subject{Clock: clock, IsMonotonic: true}
	var store *memory.Store
	s.Clear = func(testing.TB) {
		store = memory.NewStore(memory.Options{Keys: 1_000_000, Now: clock.Now})
		s.Store = store
	}
	s.DropExpired = func(testing.TB) { store.DropExpired() }
	s.Size = func(testing.TB) int { return store.Keys() }
	s.Clear(nil)
	return s
}

func TestPromises(t *testing.T) { storetest.TestPromises(t, newSubject()) }

func TestScenarios(t *testing.T) { storetest.TestScenarios(t, newSubject()) }

func TestAgreesWithModel(t *testing.T) { storetest.TestAgreesWithModel(t, newSubject()) }

func TestEdgeValues(t *testing.T) { storetest.TestEdgeValues(t, newSubject()) }

func TestConcurrency(t *testing.T) {
	store := memory.NewStore(memory.Options{Keys: 1000})
	storetest.TestConcurrency(t, &storetest.Replicas{Open: func(_ testing.TB, n int) []storetest.Evaluator {
		replicas := make([]storetest.Evaluator, n)
		for i := range replicas {
			replicas[i] = store
		}
		return replicas
	}})
}

func TestBlockLists(t *testing.T) {
	storetest.TestBlockLists(t, func(testing.TB) (storetest.BlockStore, func(time.Duration)) {
		clock := newClock()
		return memory.NewStore(memory.Options{Keys: 100_000, Now: clock.Now}), clock.Advance
	})
}
