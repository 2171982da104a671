// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/quota"
	"github.com/weir-dev/weir/internal/limiter/storetest"
)

// A denied check is admitted after RetryAfter and not one millisecond earlier, for every
// mix of limits, costs, blocks and ways of counting. With a Suppressed limit it may be
// admitted earlier at random, and always is after RetryAfter.
func TestRetryAfterIsExact(t *testing.T) {
	choices := [][]quota.Algorithm{algorithms}
	for _, a := range algorithms {
		choices = append(choices, []quota.Algorithm{a})
	}
	for _, b := range newBackends(t) {
		for _, choice := range choices {
			t.Run(fmt.Sprint(b.name, choice), func(t *testing.T) {
				const denials = 250
				r := rand.New(rand.NewPCG(1, 2))
				for seen := 0; seen < denials; {
					b.clear(t)
					seen += checkRetryAfter(t, b, newWorkload(r, choice, features{}))
				}
			})
		}
	}
}

// checkRetryAfter makes calls of a new workload. It repeats each denied call as a peek
// after its RetryAfter, and one millisecond earlier.
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
			peek := storetest.PeekOf(call)
			peek.Draw = w.r.Uint32()
			_, stillDenied := waitOfCall(peek, b.evaluate(t, peek))
			NewWithT(t).Expect(!stillDenied).To(Equal(fits),
				"%v after %s\nwait %v, reply %+v", after, describe(call), wait, reply)
		}
		b.clock.Set(now)
	}
	return denials
}

// UsedAfterWaiting and ResetAfter are exact, for replies that are admitted, denied,
// blocked, in Shadow or a peek.
func TestPredictionsHold(t *testing.T) {
	for _, b := range newBackends(t) {
		for _, a := range algorithms {
			t.Run(fmt.Sprint(b.name, " ", a), func(t *testing.T) {
				r := rand.New(rand.NewPCG(8, uint64(indexOf(a))))
				for range 60 {
					b.clear(t)
					w := newWorkload(r, []quota.Algorithm{a}, features{})
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

// expectPrediction checks one limit of one entry at one later moment, and leaves the
// clock there.
func expectPrediction(t *testing.T, b *backend, call *quota.Call, reply *quota.Reply, moment int) {
	t.Helper()
	g := NewWithT(t)
	last := len(call.Entries) - 1
	e, r := call.Entries[last], reply.Entries[last].Limits[0]
	peek := func(after time.Duration) quota.LimitReply {
		b.clock.Set(b.clock.Now().Add(after))
		e.Peek = true
		return b.evaluate(t, &quota.Call{Entries: []quota.Entry{e}}).Entries[0].Limits[0]
	}
	details := fmt.Sprintf("%s\n%+v", describe(call), r)
	g.Expect(peek(0).Used).To(Equal(r.Used), details)
	switch {
	case moment == 0 && r.RetryAfter > 0:
		g.Expect(peek(r.RetryAfter).Used).To(Equal(r.UsedAfterWaiting), details)
	case moment == 1:
		g.Expect(peek(r.ResetAfter).Used).To(BeZero(), details)
	case r.ResetAfter > time.Millisecond:
		g.Expect(peek(r.ResetAfter-time.Millisecond).Used).To(BeNumerically(">", 0), details)
	}
}

// byChance reports whether the decision of the call is random.
func byChance(call *quota.Call) bool {
	return slices.ContainsFunc(call.Entries, func(e quota.Entry) bool { return e.Policy.Observes() })
}

// waitOfCall returns the longest RetryAfter of the enforcing policies in whole
// milliseconds, as the engine reports it.
func waitOfCall(call *quota.Call, reply *quota.Reply) (wait time.Duration, denied bool) {
	for i, e := range call.Entries {
		if e.Policy.IsShadow() {
			continue
		}
		denied = denied || reply.Entries[i].Verdict != quota.Admitted
		for _, l := range reply.Entries[i].Limits {
			wait = max(wait, (l.RetryAfter + time.Millisecond - 1).Truncate(time.Millisecond))
		}
	}
	return wait, denied
}
