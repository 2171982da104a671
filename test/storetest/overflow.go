// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// OnlyKnown returns a call that spends one unit from each key, if it is known.
func OnlyKnown(policy *store.Policy, keys ...store.Key) *store.Call {
	call := &store.Call{}
	for _, key := range keys {
		call.Entries = append(call.Entries, store.Entry{Policy: policy, Key: key, Cost: 1, OnlyKnown: true})
	}
	return call
}

// With OnlyKnown, keys without state share the budget of the overflow key; they begin no state.
// Known keys keep their own counts.
func unknownKeysShareTheOverflowKey(t *testing.T, subject *Subject) {
	t.Helper()
	for _, a := range Spending() {
		t.Run(string(a), func(t *testing.T) {
			subject.Clear(t)
			policy := store.NewPolicy("test/p", false, false, []store.Limit{Blocking(SlowLimit(a, 3))})
			g := NewWithT(t)
			known := subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "known", Cost: 1}}})
			g.Expect(known.Entries[0].Began).To(BeTrue())
			known = subject.MustEvaluate(t, OnlyKnown(policy, "known"))
			g.Expect([]any{known.Entries[0].Overflow, known.Entries[0].Began}).To(Equal([]any{false, false}))
			var verdicts []store.Verdict
			for _, key := range []store.Key{"x1", "x2", "x3", "x4", "x5"} {
				reply := subject.MustEvaluate(t, OnlyKnown(policy, key))
				g.Expect(reply.Entries[0].Overflow).To(BeTrue())
				verdicts = append(verdicts, reply.Entries[0].Verdict)
			}
			if a != store.Suppressed { // sheds at random
				g.Expect(verdicts).To(Equal([]store.Verdict{store.Admitted, store.Admitted, store.Admitted, store.Denied, store.Denied}), "and no block")
			}
			used := subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "known", Cost: 1, Peek: true}}})
			g.Expect(used.Entries[0].Limits[0].Used).To(Equal(int64(2)))
			unknown := subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "x1", Cost: 1, Peek: true}}})
			g.Expect(unknown.Entries[0].Limits[0].Used).To(BeZero())
		})
	}
}

// The budget of the overflow key is the same wherever the policy is in a chain.
func chainsShareTheOverflowKey(t *testing.T, subject *Subject) {
	t.Helper()
	limits := []store.Limit{SlowLimit(store.FixedWindow, 3)}
	policy, other := store.NewPolicy("test/p", false, false, limits), store.NewPolicy("test/other", false, false, limits)
	g := NewWithT(t)
	subject.MustEvaluate(t, OnlyKnown(policy, "x"))
	chain := &store.Call{Entries: slices.Concat(OnlyKnown(other, "y").Entries, OnlyKnown(policy, "y").Entries)}
	reply := subject.MustEvaluate(t, chain)
	g.Expect(reply.Entries[1].Overflow).To(BeTrue())
	g.Expect(reply.Entries[1].Limits[0].Used).To(Equal(int64(2)))
}

// TestUnknownKeysInAChain tests that a call with two unknown keys is decided as a whole, also with keys on
// different nodes.
func TestUnknownKeysInAChain(t *testing.T, backend Evaluator, keys [3]store.Key) {
	t.Helper()
	g := NewWithT(t)
	policy := store.NewPolicy("test/chain", false, false, []store.Limit{SlowLimit(store.FixedWindow, 2)})
	wide := store.NewPolicy("test/wide", false, false, []store.Limit{SlowLimit(store.FixedWindow, 100)})
	call := func() *store.Reply {
		call := OnlyKnown(policy, keys[0], keys[1])
		call.Entries = append(call.Entries, store.Entry{Policy: wide, Key: keys[2], Cost: 1})
		reply, err := backend.Evaluate(t.Context(), call)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect([]bool{reply.Entries[0].Overflow, reply.Entries[1].Overflow, reply.Entries[2].Overflow}).
			To(Equal([]bool{true, true, false}))
		g.Expect(call.Entries[0].Key).To(Equal(keys[0]), "the call is unchanged")
		return reply
	}
	for range 2 {
		g.Expect(call().Entries[0].Verdict).To(Equal(store.Admitted))
	}
	last := call()
	g.Expect([]store.Verdict{last.Entries[0].Verdict, last.Entries[1].Verdict}).To(Equal([]store.Verdict{store.Denied, store.Denied}))
	g.Expect(last.Entries[2].Limits[0].Used).To(Equal(int64(2)), "a denied call spends nothing")
}

// A key that is blocked, or whose policy counts it in any of its limits, is known.
func blockedKeysAreKnown(t *testing.T, subject *Subject) {
	t.Helper()
	policy := store.NewPolicy("test/p", false, false, []store.Limit{SlowLimit(store.FixedWindow, 3)})
	g := NewWithT(t)
	g.Expect(subject.Block(t.Context(), policy, "a", time.Hour)).To(Succeed())
	reply := subject.MustEvaluate(t, OnlyKnown(policy, "a"))
	g.Expect(reply.Entries[0].Verdict).To(Equal(store.Blocked))
	g.Expect(reply.Entries[0].Overflow).To(BeFalse())
}

// requestedOf returns a policy, and the variant with another number.
func requestedOf(a store.Algorithm) (policy, requested *store.Policy) {
	l := SlowLimit(a, 3)
	policy = store.NewVariants(store.Settings{ID: "test/requested", Requestable: true}, []store.Limit{l})[0]
	l.Quota, l.Threshold = 1000, 1000
	if a.Refills() {
		l.StateSuffix = "1000"
	}
	return policy, policy.NewRequested([]store.Limit{l}, 0)
}

// A requested limit gives no unknown key a state. Keys that are known to the requested limit, or to
// the limit of the policy, keep their own counts.
func unknownKeysOfRequestedLimits(t *testing.T, subject *Subject) {
	t.Helper()
	for _, a := range []store.Algorithm{store.FixedWindow, store.SlidingLog, store.TokenBucket, store.GCRA} {
		t.Run(string(a), func(t *testing.T) {
			subject.Clear(t)
			policy, requested := requestedOf(a)
			g := NewWithT(t)
			subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "known", Cost: 1}}})
			subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: requested, Key: "requested", Cost: 1}}})
			admitted := 0
			for _, key := range []store.Key{"x1", "x2", "x3", "x4", "x5"} {
				call := OnlyKnown(requested, key)
				reply := subject.MustEvaluate(t, call)
				g.Expect([]bool{reply.Entries[0].Overflow, reply.Entries[0].RequestIgnored}).To(Equal([]bool{true, false}))
				g.Expect(call.Entries[0].OnlyKnown).To(BeTrue(), "the call is unchanged")
				if reply.Entries[0].Verdict == store.Admitted {
					admitted++
				}
			}
			g.Expect(admitted).To(Equal(3))
			for _, key := range []store.Key{"known", "requested"} {
				reply := subject.MustEvaluate(t, OnlyKnown(requested, key))
				g.Expect(reply.Entries[0].Overflow).To(BeFalse(), string(key))
				g.Expect(reply.Entries[0].Limits[0].Used).To(Equal(int64(2)), string(key))
				g.Expect(reply.Entries[0].RequestIgnored).To(Equal(a.Refills() && key == "known"), string(key))
			}
		})
	}
}
