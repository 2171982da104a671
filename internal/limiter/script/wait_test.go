// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A check that was denied is admitted after its wait and not one millisecond
// earlier, for every mix of limits, costs, blocks and ways of counting. Where a
// Suppressed limit takes part chance may admit it earlier, but waiting is
// enough whatever chance says.
func TestRetryAfterIsExact(t *testing.T) {
	choices := [][]Algorithm{algorithms}
	for _, a := range algorithms {
		choices = append(choices, []Algorithm{a})
	}
	for _, b := range newBackends(t) {
		for _, choice := range choices {
			t.Run(fmt.Sprint(b.name, choice), func(t *testing.T) {
				const denials = 250
				r := rand.New(rand.NewPCG(1, 2))
				for seen := 0; seen < denials; {
					b.clear(t)
					seen += checkRetryAfter(t, b, newWorkload(r, choice))
				}
			})
		}
	}
}

// checkRetryAfter makes calls in a new world; after each that is denied it looks
// at the moment that the answer named, and at the one before.
func checkRetryAfter(t *testing.T, b *backend, w *workload) (denials int) {
	t.Helper()
	now := b.clock.Now()
	for range 60 {
		now = now.Add(time.Duration(w.r.Int64N(3000)) * 100 * time.Microsecond)
		b.clock.Set(now)
		call := w.possibleCall()
		reply := b.evaluate(t, call)
		wait, denied := waitOfCall(call, reply)
		if !denied {
			continue
		}
		denials++
		for _, fits := range []bool{false, true} {
			after := wait
			if !fits {
				after -= time.Millisecond
			}
			if after < 0 || !fits && byChance(call) {
				continue
			}
			b.clock.Set(now.Add(after))
			peek := peekOf(call)
			peek.Draw = w.r.Uint32()
			_, stillDenied := waitOfCall(peek, b.evaluate(t, peek))
			NewWithT(t).Expect(!stillDenied).To(Equal(fits),
				"%v after %s\nwait %v, reply %+v", after, describe(0, call), wait, reply)
		}
		b.clock.Set(now)
	}
	return denials
}

// What an answer says of later times comes true, admitted, denied, blocked, in
// Shadow or as a peek: what is held after the wait, and when nothing is any more.
func TestPredictionsHold(t *testing.T) {
	for _, b := range newBackends(t) {
		for _, a := range algorithms {
			t.Run(fmt.Sprint(b.name, " ", a), func(t *testing.T) {
				r := rand.New(rand.NewPCG(8, uint64(a.index())))
				for range 60 {
					b.clear(t)
					w := newWorkload(r, []Algorithm{a})
					for range 12 {
						b.clock.Set(b.clock.Now().Add(time.Duration(r.Int64N(400)) * 100 * time.Microsecond))
						call := w.possibleCall()
						expectPrediction(t, b, call, b.evaluate(t, call), r.IntN(3))
					}
				}
			})
		}
	}
}

// expectPrediction looks at one limit of one entry at one later moment, and leaves
// the clock there.
func expectPrediction(t *testing.T, b *backend, call *Call, reply *Reply, moment int) {
	t.Helper()
	g := NewWithT(t)
	last := len(call.Entries) - 1
	e, r := call.Entries[last], reply.Entries[last].Limits[0]
	peek := func(after time.Duration) LimitReply {
		b.clock.Set(b.clock.Now().Add(after))
		e.Peek = true
		return b.evaluate(t, &Call{Entries: []Entry{e}}).Entries[0].Limits[0]
	}
	story := fmt.Sprintf("%s\n%+v", describe(0, call), r)
	g.Expect(peek(0).Used).To(Equal(r.Used), story)
	switch {
	case moment == 0 && r.RetryAfter > 0:
		g.Expect(peek(r.RetryAfter).Used).To(Equal(r.UsedAfterWaiting), story)
	case moment == 1:
		g.Expect(peek(r.ResetAfter).Used).To(BeZero(), story)
	case r.ResetAfter > time.Millisecond:
		g.Expect(peek(r.ResetAfter-time.Millisecond).Used).To(BeNumerically(">", 0), story)
	}
}

// byChance reports whether chance takes part in the decision.
func byChance(call *Call) bool {
	return slices.ContainsFunc(call.Entries, func(e Entry) bool { return e.Policy.algorithms&Suppressed.bit() != 0 })
}

// waitOfCall is what the engine makes of the waits: the longest of those who
// enforce, in whole milliseconds.
func waitOfCall(call *Call, reply *Reply) (wait time.Duration, denied bool) {
	for i, e := range call.Entries {
		if e.Policy.shadow {
			continue
		}
		denied = denied || reply.Entries[i].Verdict != Admitted
		for _, l := range reply.Entries[i].Limits {
			wait = max(wait, (l.RetryAfter + time.Millisecond - 1).Truncate(time.Millisecond))
		}
	}
	return wait, denied
}

func peekOf(call *Call) *Call {
	peek := &Call{Entries: slices.Clone(call.Entries)}
	for i := range peek.Entries {
		peek.Entries[i].Peek = true
	}
	return peek
}
