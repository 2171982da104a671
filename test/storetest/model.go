// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/reference"
	"github.com/weir-dev/weir/test/testenv/seeds"
)

// modelStore is the model with a clock.
type modelStore struct {
	*reference.Model

	clock Clock
}

// Evaluate decides the call at the time of the clock.
func (s modelStore) Evaluate(_ context.Context, call *store.Call) (*store.Reply, error) {
	return s.Model.Evaluate(call, s.clock.Now()), nil
}

// Reset deletes the states of the key.
func (s modelStore) Reset(_ context.Context, policy *store.Policy, key store.Key) (bool, error) {
	return s.Model.Reset(policy, key, s.clock.Now()), nil
}

// Block blocks the key.
func (s modelStore) Block(_ context.Context, policy *store.Policy, key store.Key, length time.Duration) error {
	s.Model.Block(policy, key, length, s.clock.Now())
	return nil
}

// Unblock lifts the block of the key.
func (s modelStore) Unblock(_ context.Context, policy *store.Policy, key store.Key) (bool, error) {
	return s.Model.Unblock(policy, key, s.clock.Now()), nil
}

// NewModel returns the model with a clock.
func NewModel() *Subject {
	clock := NewStillClock()
	model := &reference.Model{}
	return &Subject{
		Store: modelStore{Model: model, clock: clock}, Clock: clock,
		Clear:       func(testing.TB) { model.Clear() },
		DropExpired: func(testing.TB) { model.Expire(clock.Now()) },
		Size:        func(testing.TB) int { return model.Size() },
	}
}

// TestAgreesWithModel compares the store with the model, with all algorithms mixed and with each alone.
func TestAgreesWithModel(t *testing.T, subject *Subject) {
	t.Helper()
	const steps = 250
	all := seeds.InMemory(60)
	if subject.IsRemote {
		all = seeds.OnServer(8)
	}
	model := NewModel()
	for _, choice := range mixedAndAlone(store.Algorithms()) {
		t.Run(fmt.Sprint(choice), func(t *testing.T) {
			for seed := range all {
				Compare(t, seed, steps, choice, model, subject)
			}
			for _, seed := range []uint64{705985, 777819} { // two that have found a defect
				Compare(t, seed, steps, choice, model, subject)
			}
		})
	}
}

// Compare runs the same random steps on two stores and compares the replies: calls to chains of random
// policies, costs, peeks, overrides, edits, resets, manual blocks, and time that mostly advances.
func Compare(t *testing.T, seed uint64, steps int, choice []store.Algorithm, one, other *Subject) {
	t.Helper()
	w := NewWorkload(rand.New(rand.NewPCG(seed, 7)), choice, Features{Substitutes: true, Holds: true})
	one.Clear(t)
	other.Clear(t)
	start := other.Clock.Now()
	now := start
	var history []Step
	for range steps {
		if next := w.NextTime(now); !other.IsMonotonic || next.After(now) {
			now = next
		}
		one.SetTime(t, now)
		other.SetTime(t, now)
		step := w.NextStep()
		after, describe := now.Sub(start), step.Describe
		history = append(history, Step{Describe: func() string { return fmt.Sprintf("at %v %s", after, describe()) }})
		want, err := step.Do(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		got, err := step.Do(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		if difference := DifferenceOf(got, want); difference != "" {
			t.Fatalf("seed %d\n%s\n%s", seed, LastSteps(history), difference)
		}
	}
}
