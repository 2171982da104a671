// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

var start = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

// flood begins keys at the given rate per second, as long as the budget allows, and returns how
// many began.
func flood(b *Budget, from time.Time, perSecond int, length time.Duration) (begun int) {
	for at := from; at.Before(from.Add(length)); at = at.Add(time.Second / time.Duration(perSecond)) {
		if !b.Spent(at) {
			b.Begin(at)
			begun++
		}
	}
	return begun
}

func TestBudgetPerMinute(t *testing.T) {
	g := NewWithT(t)
	b := NewBudget(Limits{PerMinute: 100}, time.Hour, start)
	g.Expect(flood(b, start, 50, time.Minute)).To(Equal(100))
	g.Expect(flood(b, start.Add(time.Minute), 50, 10*time.Minute)).To(Equal(1000))
	g.Expect(flood(b, start.Add(11*time.Minute), 1, 10*time.Minute)).To(Equal(600), "a rate below the limit is never bounded")
}

func TestBudgetPerWindow(t *testing.T) {
	for _, window := range []time.Duration{time.Second, time.Minute, time.Hour, 720 * time.Hour} {
		g := NewWithT(t)
		b := NewBudget(Limits{PerMinute: 100, PerWindow: 1000}, window, start)
		window = max(window, time.Minute)
		for at := start; at.Before(start.Add(3 * window)); at = at.Add(window) {
			begun := 0
			for part := range 600 {
				begun += flood(b, at.Add(time.Duration(part)*window/600), 20, min(window/600, time.Second))
			}
			g.Expect(begun).To(BeNumerically("<=", 1000+resolution), window.String())
			g.Expect(begun).To(BeNumerically(">=", 90), window.String())
		}
		g.Expect(flood(b, start.Add(10*window), 10, time.Second)).To(Equal(10), "after a pause the budget is whole")
	}
}

func TestUnlimitedBudget(t *testing.T) {
	b := NewBudget(Limits{}, time.Hour, start)
	NewWithT(t).Expect(flood(b, start, 1000, 2*time.Minute)).To(Equal(120_000))
}

func TestBudgetOfConcurrentCallers(t *testing.T) {
	b := NewBudget(Limits{PerMinute: 1000}, time.Hour, start)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 125 {
				b.Begin(start)
			}
		})
	}
	wait.Wait()
	NewWithT(t).Expect(b.Spent(start)).To(BeTrue())
	NewWithT(t).Expect(b.Spent(start.Add(time.Minute))).To(BeFalse())
}

func TestMemoryIsLowUntilEnoughIsFree(t *testing.T) {
	g := NewWithT(t)
	var use float64
	var err error
	m := NewMemory(func(context.Context) (float64, error) { return use, err }, slog.New(slog.DiscardHandler))
	for _, step := range []struct {
		use float64
		err error
		low bool
	}{
		{0, nil, false}, {0.79, nil, false}, {0.8, nil, true}, {0, errors.New("away"), true}, {0.76, nil, true}, {0.74, nil, false}, {0.79, nil, false},
	} {
		use, err = step.use, step.err
		m.look(t.Context())
		g.Expect(m.Low()).To(Equal(step.low), "%+v", step)
	}
}
