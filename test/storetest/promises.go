// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// promises are what every store promises. They need no model.
var promises = []struct {
	name string
	test func(*testing.T, *Subject)
	// setsBack is true if the test sets the clock back.
	setsBack bool
}{
	{name: "no limit admits more than its quota", test: neverOver},
	{name: "retryAfter is exact", test: retryAfterIsExact},
	{name: "the state after waiting is as predicted", test: predictionsHold},
	{name: "everything expires", test: everythingExpires},
	{name: "a clock that is set back keeps limits", test: survivesClockStepsBack, setsBack: true},
	{name: "periods end exactly", test: periodsEndExactly},
	{name: "FixedWindow saturates", test: fixedWindowSaturates},
	{name: "SlidingWindow denies too early by less than a bucket", test: bucketsDenyTooEarlyByLessThanOne},
	{name: "smaller buckets begin empty", test: smallerBucketsBeginEmpty},
	{name: "two plans at once admit what the larger one admits", test: twoPlansAtOnce},
	{name: "Suppressed admits about its threshold", test: suppressedAdmitsAboutTheThreshold},
	{name: "Suppressed blocks at its hard limit only", test: suppressedBlocksAtTheHardLimitOnly},
	{name: "unknown keys share the overflow key", test: unknownKeysShareTheOverflowKey},
	{name: "unknown keys in a chain", test: func(t *testing.T, subject *Subject) {
		t.Helper()
		TestUnknownKeysInAChain(t, subject, [3]store.Key{"a", "b", "c"})
	}},
	{name: "chains share the overflow key", test: chainsShareTheOverflowKey},
	{name: "blocked keys are known", test: blockedKeysAreKnown},
	{name: "unknown keys of requested limits", test: unknownKeysOfRequestedLimits},
	{name: "holds return what they held", test: holdsReturnWhatTheyHeld},
	{name: "holds are listed", test: holdsAreListed},
	{name: "late commits find unsettled holds", test: lateCommitsFindUnsettledHolds},
	{name: "IDs of charges are no counters", test: chargeIDsAreNoCounters},
	{name: "only IDs that could spend again are remembered", test: fewIDsAreRemembered},
}

// TestPromises tests the promises of docs/algorithms.md and docs/reservations.md with the store.
func TestPromises(t *testing.T, subject *Subject) {
	t.Helper()
	for _, promise := range promises {
		if promise.setsBack && subject.IsMonotonic {
			continue
		}
		t.Run(promise.name, func(t *testing.T) {
			subject.Clear(t)
			promise.test(t, subject)
		})
	}
}

// LongestNeed is the longest time for which a Workload needs a state, without debts and remembered charges:
// the longest hold, and the longest window or the largest bucket at the slowest rate.
const LongestNeed = 20*time.Second + 12*time.Second/2 + 2*time.Millisecond

// After all windows, blocks, holds and debts no state is left.
func everythingExpires(t *testing.T, subject *Subject) {
	t.Helper()
	g := NewWithT(t)
	MakeRandomCalls(t, subject)
	g.Expect(subject.Size(t)).To(BeNumerically(">", 0))
	subject.SetTime(t, subject.Clock.Now().Add(LongestNeed+store.MaxDebt+2*time.Millisecond))
	g.Expect(subject.Size(t)).To(BeZero())
}

// MakeRandomCalls makes random calls of all kinds, while time passes.
func MakeRandomCalls(t *testing.T, subject *Subject) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	w := NewWorkload(r, Spending(), Features{Substitutes: true, Holds: true})
	for range 500 {
		subject.Clock.Set(subject.Clock.Now().Add(time.Duration(r.Int64N(2000)) * time.Microsecond))
		subject.MustEvaluate(t, w.NextCall())
	}
}
