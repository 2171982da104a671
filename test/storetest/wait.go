// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// A denied check is admitted after RetryAfter and not one millisecond earlier, for every
// mix of limits, costs, blocks and ways of counting. With a Suppressed limit it may be
// admitted earlier at random, and always is after RetryAfter.
func retryAfterIsExact(t *testing.T, subject *Subject) {
	t.Helper()
	for _, choice := range mixedAndAlone(Spending()) {
		t.Run(fmt.Sprint(choice), func(t *testing.T) {
			const denials = 250
			r := rand.New(rand.NewPCG(1, 2))
			for seen := 0; seen < denials; {
				subject.Clear(t)
				seen += checkRetryAfter(t, subject, NewWorkload(r, choice, Features{}))
			}
		})
	}
}

// checkRetryAfter makes calls of a new workload. It repeats each denied call as a peek
// after its RetryAfter, and one millisecond earlier.
func checkRetryAfter(t *testing.T, subject *Subject, w *Workload) (denials int) {
	t.Helper()
	now := subject.Clock.Now()
	for range 60 {
		now = now.Add(time.Duration(w.Rand.Int64N(3000)) * 100 * time.Microsecond)
		subject.Clock.Set(now)
		call := w.PossibleCall()
		reply := subject.MustEvaluate(t, call)
		wait, denied := waitOfCall(call, reply)
		if !denied {
			continue
		}
		denials++
		for _, fits := range []bool{false, true} {
			after := wait
			if !fits {
				after -= time.Millisecond + subject.WaitRounding
			}
			if after < 0 || !fits && byChance(call) {
				continue
			}
			subject.Clock.Set(now.Add(after))
			peek := PeekOf(call)
			peek.Draw = w.Rand.Uint32()
			_, stillDenied := waitOfCall(peek, subject.MustEvaluate(t, peek))
			NewWithT(t).Expect(!stillDenied).To(Equal(fits),
				"%v after %s\nwait %v, reply %+v", after, Describe(call), wait, reply)
		}
		if subject.IsMonotonic {
			now = subject.Clock.Now()
		}
		subject.Clock.Set(now)
	}
	return denials
}

// UsedAfterWaiting and ResetAfter are exact, for replies that are admitted, denied,
// blocked, in Shadow or a peek.
func predictionsHold(t *testing.T, subject *Subject) {
	t.Helper()
	for i, a := range Spending() {
		t.Run(string(a), func(t *testing.T) {
			r := rand.New(rand.NewPCG(8, uint64(i)))
			for range 60 {
				subject.Clear(t)
				w := NewWorkload(r, []store.Algorithm{a}, Features{})
				for range 12 {
					subject.Clock.Set(subject.Clock.Now().Add(time.Duration(r.Int64N(400)) * 100 * time.Microsecond))
					call := w.PossibleCall()
					expectPrediction(t, subject, call, subject.MustEvaluate(t, call), r.IntN(3))
				}
			}
		})
	}
}

// expectPrediction checks one limit of one entry at one later moment, and leaves the
// clock there.
func expectPrediction(t *testing.T, subject *Subject, call *store.Call, reply *store.Reply, moment int) {
	t.Helper()
	g := NewWithT(t)
	last := len(call.Entries) - 1
	e, r := call.Entries[last], reply.Entries[last].Limits[0]
	peek := func(after time.Duration) store.LimitReply {
		subject.Clock.Set(subject.Clock.Now().Add(after))
		e.Peek = true
		return subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{e}}).Entries[0].Limits[0]
	}
	details := fmt.Sprintf("%s\n%+v", Describe(call), r)
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
func byChance(call *store.Call) bool {
	return slices.ContainsFunc(call.Entries, func(e store.Entry) bool { return e.Policy.Observes() })
}

// waitOfCall returns the longest RetryAfter of the enforcing policies in whole
// milliseconds, as the engine reports it.
func waitOfCall(call *store.Call, reply *store.Reply) (wait time.Duration, denied bool) {
	for i, e := range call.Entries {
		if e.Policy.IsShadow() {
			continue
		}
		denied = denied || reply.Entries[i].Verdict != store.Admitted
		for _, l := range reply.Entries[i].Limits {
			wait = max(wait, (l.RetryAfter + time.Millisecond - 1).Truncate(time.Millisecond))
		}
	}
	return wait, denied
}
