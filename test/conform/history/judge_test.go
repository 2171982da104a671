// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/conform/history"
)

const window = 100 * time.Millisecond

var origin = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

// at returns an admitted call of one unit of key "k" that was sent and answered at these milliseconds.
func at(sent, replied int, edits ...func(*history.Call)) history.Call {
	c := history.Call{
		Sent: origin.Add(time.Duration(sent) * time.Millisecond), Replied: origin.Add(time.Duration(replied) * time.Millisecond),
		Keys: []string{"k"}, Units: 1, Admitted: true,
	}
	for _, edit := range edits {
		edit(&c)
	}
	return c
}

func denied(c *history.Call)    { c.Admitted = false }
func disturbed(c *history.Call) { c.Disturbed = true }
func failed(c *history.Call)    { c.Admitted, c.Failed = false, true }
func three(c *history.Call)     { c.Units = 3 }

func keys(names ...string) func(*history.Call) { return func(c *history.Call) { c.Keys = names } }

func calls(c ...history.Call) []history.Call { return c }

// two is a quota of two units.
func two(kind history.WindowKind) history.Quotas {
	q := history.Quota{Units: 2, Window: window, Kind: kind}
	return history.Quotas{"k": q, "other": q}
}

// The judges find what is wrong in wrong histories, and nothing in right ones.
func TestOver(t *testing.T) {
	for name, tc := range map[string]struct {
		calls                      []history.Call
		rolling, aligned, anchored int64
	}{
		"nothing":                            {nil, 0, 0, 0},
		"the quota":                          {calls(at(0, 1), at(1, 2)), 0, 0, 0},
		"one more":                           {calls(at(0, 1), at(1, 2), at(2, 3)), 1, 1, 1},
		"at once":                            {calls(at(0, 9), at(0, 9), at(0, 9)), 1, 1, 1},
		"at the end of the window":           {calls(at(0, 1), at(1, 2), at(98, 99)), 1, 1, 1},
		"in the next window":                 {calls(at(0, 1), at(1, 2), at(100, 101)), 0, 0, 0},
		"perhaps in the next window":         {calls(at(0, 1), at(1, 2), at(98, 100)), 0, 0, 0},
		"a slow call that began early":       {calls(at(0, 150), at(1, 2), at(2, 3), at(4, 5)), 1, 1, 1},
		"a larger cost":                      {calls(at(0, 1, three)), 1, 1, 1},
		"a denial":                           {calls(at(0, 1), at(1, 2), at(2, 3, denied)), 0, 0, 0},
		"a call without an answer":           {calls(at(0, 1), at(1, 2), at(2, 3, failed)), 0, 0, 0},
		"another key":                        {calls(at(0, 1), at(1, 2), at(2, 3, keys("other"))), 0, 0, 0},
		"a key without a quota":              {calls(at(0, 1, keys("x")), at(1, 2, keys("x")), at(2, 3, keys("x"))), 0, 0, 0},
		"two keys, one of them over":         {calls(at(0, 1, keys("k", "other")), at(1, 2), at(2, 3, keys("other", "k"))), 1, 1, 1},
		"two keys, both over":                {calls(at(0, 1, keys("k", "other")), at(1, 2, keys("k", "other")), at(2, 3, keys("other", "k"))), 2, 2, 2},
		"around an aligned end":              {calls(at(90, 91), at(92, 93), at(110, 111), at(112, 113)), 2, 0, 2},
		"around an anchored end":             {calls(at(10, 11), at(105, 106), at(113, 114), at(115, 116)), 1, 1, 0},
		"the second window, anchored":        {calls(at(0, 1), at(150, 151), at(160, 161), at(170, 171)), 1, 1, 1},
		"the worse of two windows":           {calls(at(0, 1), at(1, 2), at(2, 3), at(200, 201), at(201, 202), at(202, 203), at(203, 204)), 2, 2, 2},
		"three windows in a period":          {calls(at(99, 100), at(99, 100), at(100, 101), at(100, 101), at(198, 199)), 2, 1, 2},
		"anchor in doubt, at most a window":  {calls(at(0, 50), at(60, 61), at(120, 121), at(130, 131)), 1, 0, 0},
		"a former call may begin the window": {calls(at(0, 1), at(100, 102), at(110, 111), at(150, 151), at(201, 202)), 1, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for kind, want := range map[history.WindowKind]int64{history.Rolling: tc.rolling, history.Aligned: tc.aligned, history.Anchored: tc.anchored} {
				g.Expect(history.OverDocumented(tc.calls, two(kind))).To(Equal(want), string(kind))
				g.Expect(history.Over(tc.calls, two(kind))).To(Equal(tc.rolling), string(kind))
			}
		})
	}
}

// After a failed call it is unknown when a window began.
func TestOverAfterFailedCall(t *testing.T) {
	g := NewWithT(t)
	around := calls(at(0, 1, failed), at(50, 51), at(60, 61), at(102, 103), at(104, 105))
	g.Expect(history.OverDocumented(around, two(history.Anchored))).To(BeZero())
	g.Expect(history.OverDocumented(append(around, at(106, 107)), two(history.Anchored))).To(Equal(int64(1)))
}

func TestUnder(t *testing.T) {
	for name, tc := range map[string]struct {
		calls []history.Call
		under int64
	}{
		"nothing":                       {nil, 0},
		"a denial at once":              {calls(at(0, 1, denied)), 1},
		"a denial over the quota":       {calls(at(0, 1), at(1, 2), at(2, 3, denied)), 0},
		"a denial before the last unit": {calls(at(0, 1), at(1, 2, denied)), 1},
		"during the last unit":          {calls(at(0, 1), at(1, 9), at(2, 3, denied)), 0},
		"after the window":              {calls(at(0, 1), at(1, 2), at(103, 104, denied)), 1},
		"perhaps in the window":         {calls(at(0, 1), at(1, 2), at(101, 104, denied)), 0},
		"a cost that fits":              {calls(at(0, 1, three, denied)), 0},
		"a failed call may have spent":  {calls(at(0, 1), at(1, 2, failed), at(300, 301, denied)), 1},
		"a failed call may spend late":  {calls(at(0, 1, failed), at(1, 2, failed), at(300, 301, denied)), 0},
		"a disturbed denial may spend":  {calls(at(0, 1), at(1, 2, denied, disturbed), at(300, 301), at(302, 303, denied)), 1},
		"one of two keys is full":       {calls(at(0, 1, keys("other")), at(1, 2, keys("other")), at(2, 3, keys("k", "other"), denied)), 0},
		"both keys have room":           {calls(at(0, 1, keys("other")), at(2, 3, keys("k", "other"), denied)), 1},
		"a denied call that spent":      {calls(at(0, 1, denied), at(1, 2, denied), at(2, 3, denied)), 3},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(history.Under(tc.calls, two(history.Rolling))).To(Equal(tc.under))
		})
	}
}

// Limiters without defects, with any latency, are never accused, whatever their windows.
func TestJudgesAreFair(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		for _, kind := range []history.WindowKind{history.Rolling, history.Aligned, history.Anchored} {
			recorded := simulate(random, kind, 2)
			g := NewWithT(t)
			g.Expect(history.OverDocumented(recorded, two(kind))).To(BeNumerically("<=", 0), "%s, seed %d", kind, seed)
			g.Expect(history.Under(recorded, two(kind))).To(BeZero(), "%s, seed %d", kind, seed)
		}
	}
}

// A limiter that admits one unit too many is found as often as its windows can be known.
func TestJudgesFindOneUnitTooMany(t *testing.T) {
	g := NewWithT(t)
	for _, kind := range []history.WindowKind{history.Rolling, history.Aligned, history.Anchored} {
		found := 0
		for seed := range uint64(300) {
			recorded := simulate(rand.New(rand.NewPCG(seed, 2)), kind, 3)
			if history.OverDocumented(recorded, two(kind)) > 0 {
				found++
			}
		}
		g.Expect(found).To(BeNumerically(">", 250), string(kind))
	}
}

// simulate returns the calls of a limiter with a quota and windows of the kind, which counts every call at a
// random time between its sending and its answer.
func simulate(random *rand.Rand, kind history.WindowKind, quota int) []history.Call {
	recorder := &history.Recorder{}
	var counted []int // microseconds
	start := -1       // of the window
	now := 0
	for range 40 {
		now += random.IntN(40_000)
		if kind == history.Aligned && start != now/100_000 {
			start, counted = now/100_000, nil
		}
		if kind == history.Anchored && (start < 0 || now >= start+100_000) {
			start, counted = now, nil
		}
		if kind == history.Rolling {
			for len(counted) > 0 && counted[0] <= now-100_000 {
				counted = counted[1:]
			}
		}
		c := history.Call{
			Sent:    origin.Add(time.Duration(now-random.IntN(3_000)) * time.Microsecond),
			Replied: origin.Add(time.Duration(now+1+random.IntN(3_000)) * time.Microsecond),
			Keys:    []string{"k"}, Units: 1, Admitted: len(counted) < quota,
		}
		if c.Admitted {
			counted = append(counted, now)
		}
		recorder.Add(c)
	}
	return recorder.Calls()
}

func TestTimes(t *testing.T) {
	g := NewWithT(t)
	all := calls(at(0, 1), at(0, 2, denied), at(0, 3, failed), at(0, 10))
	g.Expect(history.Count(all)).To(Equal(history.Counts{Admitted: 2, Denied: 1, Failed: 1}))
	g.Expect(history.Percentile(all, 0.5)).To(Equal(3 * time.Millisecond))
	g.Expect(history.Percentile(all, 1)).To(Equal(10 * time.Millisecond))
	g.Expect(history.Percentile(nil, 0.5)).To(BeZero())
}
