// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// Spending returns the algorithms that count spent units: all but Concurrency.
func Spending() []store.Algorithm { return without(store.Concurrency) }

// Holding returns the algorithms of policies that take reservations: all but Suppressed.
func Holding() []store.Algorithm { return without(store.Suppressed) }

func without(one store.Algorithm) []store.Algorithm {
	return slices.DeleteFunc(store.Algorithms(), func(a store.Algorithm) bool { return a == one })
}

// mixedAndAlone returns all the algorithms mixed, and each of them alone.
func mixedAndAlone(algorithms []store.Algorithm) [][]store.Algorithm {
	choices := [][]store.Algorithm{algorithms}
	for _, a := range algorithms {
		choices = append(choices, []store.Algorithm{a})
	}
	return choices
}

// Evaluator decides calls: a store, or a cache of denials in front of one.
type Evaluator interface {
	Evaluate(ctx context.Context, call *store.Call) (*store.Reply, error)
}

// Store decides calls, and changes keys for operators.
type Store interface {
	Evaluator
	Reset(ctx context.Context, policy *store.Policy, key store.Key) (bool, error)
	Block(ctx context.Context, policy *store.Policy, key store.Key, length time.Duration) error
	Unblock(ctx context.Context, policy *store.Policy, key store.Key) (bool, error)
}

// Clock stands still until the test sets it.
type Clock interface {
	Now() time.Time
	Set(t time.Time)
}

// Subject is a store under test, with a clock that the test sets.
type Subject struct {
	Store

	Clock Clock
	// Clear deletes all states. It may replace Store.
	Clear func(testing.TB)
	// DropExpired deletes the states that have expired. Redis deletes them lazily, so they would
	// exist again after the clock is set back.
	DropExpired func(testing.TB)
	// Size returns the number of states that exist.
	Size func(testing.TB) int
	// IsMonotonic is true if the clock must not be set back.
	IsMonotonic bool
	// IsRemote is true if calls take a round trip, so tests make fewer of them.
	IsRemote bool
	// IsRounded is true if the store calculates with doubles. Then waits are rounded if a product of a
	// quota and a window exceeds the integers of a double.
	IsRounded bool
	// WaitRounding is how much longer than needed a wait may be: 0 for a store, a millisecond for a cache of
	// denials.
	WaitRounding time.Duration
}

// SetTime sets the clock and deletes the states that have expired.
func (s *Subject) SetTime(tb testing.TB, now time.Time) {
	tb.Helper()
	s.Clock.Set(now)
	s.DropExpired(tb)
}

// MustEvaluate evaluates the call, and fails the test after an error.
func (s *Subject) MustEvaluate(tb testing.TB, call *store.Call) *store.Reply {
	tb.Helper()
	reply, err := s.Evaluate(tb.Context(), call)
	if err != nil {
		tb.Fatal(err)
	}
	return reply
}

// StillClock is a Clock for stores in this process.
type StillClock struct{ now time.Time }

// NewStillClock returns a clock with a time whose fraction has only digits other than 0, so that a test
// detects a loss of precision.
func NewStillClock() *StillClock { return &StillClock{now: time.UnixMicro(1_900_000_000_123_456)} }

// Now returns the time that was set.
func (c *StillClock) Now() time.Time { return c.now }

// Set sets the time.
func (c *StillClock) Set(t time.Time) { c.now = t }
