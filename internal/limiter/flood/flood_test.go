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

// flood begins keys with that life at the given rate per second, as long as the budget allows, and
// returns how many began.
func flood(b *Budget, from time.Time, perSecond int, length, life time.Duration) (begun int) {
	for at := from; at.Before(from.Add(length)); at = at.Add(time.Second / time.Duration(perSecond)) {
		if !b.Exhausted(at) {
			b.Begin(at, life)
			begun++
		}
	}
	return begun
}

func TestBudgetPerMinute(t *testing.T) {
	g := NewWithT(t)
	b := NewBudget(Limits{PerMinute: 100}, time.Hour, start)
	g.Expect(flood(b, start, 50, time.Minute, time.Hour)).To(Equal(100))
	g.Expect(flood(b, start.Add(time.Minute), 50, 10*time.Minute, time.Hour)).To(Equal(1000))
	g.Expect(flood(b, start.Add(11*time.Minute), 1, 10*time.Minute, time.Hour)).To(Equal(600), "a rate below the limit is never bounded")
}

// Clients whose state soon ends begin again with many of their checks, and fill no memory.
func TestShortLivesCountLess(t *testing.T) {
	g := NewWithT(t)
	b := NewBudget(Limits{PerMinute: 100, PerWindow: 1000}, time.Second, start)
	g.Expect(flood(b, start, 50, 10*time.Minute, time.Second)).To(Equal(50*600), "50 keys exist at a time")
	b = NewBudget(Limits{PerMinute: 100, PerWindow: 1000}, time.Second, start)
	g.Expect(flood(b, start, 1000, 10*time.Minute, time.Second)).To(BeNumerically("~", 10*60*100, 100), "1,000 keys at a time")
	b = NewBudget(Limits{PerMinute: 100, PerWindow: 1000}, time.Hour, start)
	g.Expect(flood(b, start, 1000, time.Minute, 0)).To(Equal(60_000), "no state at all")
}

// At no time do more keys exist than the budget allows, and one more for each part of the longest
// life; a budget that is not used is whole again.
func TestBudgetPerWindow(t *testing.T) {
	for _, window := range []time.Duration{time.Second, time.Minute, time.Hour, 720 * time.Hour} {
		for _, life := range []time.Duration{window, window / 7} {
			g := NewWithT(t)
			const most = 600
			b := NewBudget(Limits{PerWindow: most}, window, start)
			var ends []time.Time
			for at, step := start, window/2000; at.Before(start.Add(3 * window)); at = at.Add(step) {
				for len(ends) > 0 && !ends[0].After(at) {
					ends = ends[1:]
				}
				if !b.Exhausted(at) {
					b.Begin(at, life)
					ends = append(ends, at.Add(life))
				}
				g.Expect(len(ends)).To(BeNumerically("<=", most+resolution), "%v %v", window, life)
			}
			g.Expect(len(ends)).To(BeNumerically(">", 200), "%v %v", window, life)
			g.Expect(flood(b, start.Add(10*window), 500, time.Second, window)).To(Equal(500), "after a pause the budget is whole")
		}
	}
}

func TestUnlimitedBudget(t *testing.T) {
	b := NewBudget(Limits{}, time.Hour, start)
	NewWithT(t).Expect(flood(b, start, 1000, 2*time.Minute, time.Hour)).To(Equal(120_000))
}

func TestBudgetOfConcurrentCallers(t *testing.T) {
	b := NewBudget(Limits{PerMinute: 1000}, time.Hour, start)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 125 {
				b.Begin(start, time.Hour)
			}
		})
	}
	wait.Wait()
	NewWithT(t).Expect(b.Exhausted(start)).To(BeTrue())
	NewWithT(t).Expect(b.Exhausted(start.Add(time.Minute))).To(BeFalse())
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
		m.measure(t.Context())
		g.Expect(m.Low()).To(Equal(step.low), "%+v", step)
	}
}

// An edit from 1 s to 24 h must not let keys that exist for a day count for a second.
func TestBudgetFollowsTheLongestLife(t *testing.T) {
	g := NewWithT(t)
	b := NewBudget(Limits{PerWindow: 100}, time.Second, start)
	g.Expect(flood(b, start, 1000, time.Second/20, time.Second)).To(Equal(50))
	day := b.ForLongest(24*time.Hour, start.Add(time.Second/10))
	g.Expect(day).NotTo(BeIdenticalTo(b))
	g.Expect(day.ForLongest(24*time.Hour, start)).To(BeIdenticalTo(day))
	g.Expect(flood(day, start.Add(time.Second/10), 1000, time.Second/2, 24*time.Hour)).To(Equal(50), "the keys before the edit count")
	g.Expect(flood(day, start.Add(time.Hour), 10, 10*time.Hour, 24*time.Hour)).To(BeNumerically("<", 200), "50 ended, and one in each part")
}

func TestBudgetKeepsCountsForAShorterLife(t *testing.T) {
	g := NewWithT(t)
	b := NewBudget(Limits{PerWindow: 100}, 24*time.Hour, start)
	g.Expect(flood(b, start, 1000, time.Second, 24*time.Hour)).To(Equal(100))
	b = b.ForLongest(time.Second, start.Add(time.Minute))
	g.Expect(b.Exhausted(start.Add(time.Minute))).To(BeTrue())
	g.Expect(flood(b, start.Add(time.Minute), 10, 10*time.Hour, time.Second)).To(BeNumerically("<", 100))
	g.Expect(flood(b, start.Add(25*time.Hour), 10, 5*time.Second, time.Second)).To(Equal(50), "the keys of a day have ended")
}

func TestBudgetKeepsTheMinute(t *testing.T) {
	g := NewWithT(t)
	b := NewBudget(Limits{PerMinute: 100}, time.Hour, start)
	g.Expect(flood(b, start, 100, time.Second/2, time.Hour)).To(Equal(50))
	b = b.ForLongest(24*time.Hour, start.Add(time.Second))
	g.Expect(flood(b, start.Add(time.Second), 100, 30*time.Second, time.Hour)).To(Equal(50))
}
