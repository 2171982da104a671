// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package denialcache

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// crowd calls denied keys at random, at a given rate.
type crowd struct {
	rechecks
	now     time.Time
	random  *rand.Rand
	checked []time.Time // by key
}

func newCrowd(keys int) *crowd {
	c := &crowd{now: time.Unix(1_800_000_000, 0), random: rand.New(rand.NewPCG(1, 2)), checked: make([]time.Time, keys)}
	c.refilled = c.now
	for i := range c.checked {
		c.checked[i] = c.now
	}
	return c
}

// call calls the first keys with a number of calls a second for the time. It returns the ages of the denials that
// asked Redis, sorted.
func (c *crowd) call(keys, rate int, length time.Duration) (ages []time.Duration) {
	for end := c.now.Add(length); c.now.Before(end); c.now = c.now.Add(time.Second / time.Duration(rate)) {
		key := &c.checked[c.random.IntN(keys)]
		if c.take(*key, c.now) {
			ages = append(ages, c.now.Sub(*key))
			*key = c.now
		}
	}
	slices.Sort(ages)
	return ages
}

// Few denied keys ask once a second.
func TestFewDenialsAskOnceASecond(t *testing.T) {
	g := NewWithT(t)
	c := newCrowd(90)
	c.call(90, 5000, 2*time.Second)
	ages := c.call(90, 10_000, 10*time.Second)
	g.Expect(len(ages)).To(BeNumerically("~", 900, 45))
	g.Expect(ages[len(ages)-1]).To(BeNumerically("<", 1100*time.Millisecond)) // busy: on a clock of the test
}

// Many denied keys share the budget, and the oldest ask.
func TestManyDenialsShareABudget(t *testing.T) {
	for name, tc := range map[string]struct {
		keys, rate int
		asks       float64 // a second
	}{
		"often called":            {2000, 10_000, 100},
		"seldom called":           {2000, 1000, 100},
		"each at least every 30s": {6000, 3000, 200},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newCrowd(tc.keys)
			c.call(tc.keys, tc.rate, 40*time.Second)
			const length = 60 * time.Second
			ages := c.call(tc.keys, tc.rate, length)
			g.Expect(float64(len(ages)) / length.Seconds()).To(BeNumerically("~", tc.asks, tc.asks/10))
			usual := time.Duration(float64(tc.keys) / tc.asks * float64(time.Second))
			g.Expect(ages[len(ages)/20]).To(BeNumerically(">", usual/2), "the youngest")
			pause := time.Duration(tc.keys) * time.Second / time.Duration(tc.rate) // between two calls of one key
			g.Expect(ages[len(ages)*99/100]).To(BeNumerically("<", maxRecheckAge+6*pause), "the oldest")
		})
	}
}

// Once few keys are left, they ask once a second again.
func TestTheAgeFallsAfterAFlood(t *testing.T) {
	g := NewWithT(t)
	c := newCrowd(4000)
	c.call(4000, 4000, 60*time.Second)
	c.call(10, 1000, ageFall+2*time.Second)
	ages := c.call(10, 1000, 10*time.Second)
	g.Expect(len(ages)).To(BeNumerically(">=", 90))
	g.Expect(ages[len(ages)-1]).To(BeNumerically("<", 1200*time.Millisecond)) // busy: on a clock of the test
}

// A denial without calls for a long time asks at the next one, whatever the budget.
func TestAnOldDenialAsksAtOnce(t *testing.T) {
	g := NewWithT(t)
	c := newCrowd(2001)
	c.call(2000, 4000, 40*time.Second)
	g.Expect(c.take(c.now.Add(-maxRecheckAge), c.now)).To(BeTrue())
}
