// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv/seeds"
)

// A precheck of all groups and then a charge give the same replies as one step, without concurrent calls, with groups
// by key and by the number of limits: with edits, overrides, blocks, and a clock that is set back.
func TestSpreadAgreesWithModel(t *testing.T) {
	model := storetest.NewModel()
	byKey, _ := newSubject(t, servers[0])
	storeOf(byKey).isCluster = true
	bySize, _ := newSubject(t, servers[0])
	storeOf(bySize).atomicLimits, storeOf(bySize).groupLimits = 2, 2
	choices := [][]store.Algorithm{allAlgorithms}
	for _, a := range allAlgorithms {
		choices = append(choices, []store.Algorithm{a})
	}
	for _, choice := range choices {
		t.Run(fmt.Sprint(choice), func(t *testing.T) {
			for seed := range seeds.OnServer(4) {
				storetest.Compare(t, 1000+seed, 200, choice, model, byKey)
				storetest.Compare(t, 2000+seed, 200, choice, model, bySize)
			}
		})
	}
}

func storeOf(b *storetest.Subject) *Store {
	return b.Store.(*Store) //nolint:forcetypeassert // it is one
}

// largeCall is a call of twelve policies with sixteen limits each. The last one admits five.
func largeCall() *store.Call {
	call := &store.Call{}
	for i := range 12 {
		var limits []store.Limit
		for j := range 16 {
			l := storetest.SlowLimit(store.FixedWindow, 1000)
			if i == 11 && j == 15 {
				l = storetest.SlowLimit(store.FixedWindow, 5)
			}
			l.Name = fmt.Sprint("l", j)
			limits = append(limits, l)
		}
		call.Entries = append(call.Entries, store.Entry{Policy: store.NewPolicy(fmt.Sprint("test/p", i), false, false, limits), Key: "a", Cost: 1})
	}
	return call
}

// A call with more limits than Redis may decide at once spends in all of them or in none.
func TestLargeCallsSpendAllOrNothing(t *testing.T) {
	g := NewWithT(t)
	b, client := newSubject(t, servers[0])
	call := largeCall()
	reply, err := b.Evaluate(t.Context(), call)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reply.Entries).To(HaveLen(12))
	g.Expect(client.Info(t.Context(), "commandstats").Val()).To(ContainSubstring("cmdstat_evalsha:calls=24,"), "twelve groups, each tried and spent")

	var admitted atomic.Int64
	var wait errgroup.Group
	for range 100 {
		wait.Go(func() error {
			reply, err := b.Evaluate(t.Context(), call)
			if err == nil && !slices.ContainsFunc(reply.Entries, func(r store.EntryReply) bool { return r.Verdict != store.Admitted }) {
				admitted.Add(1)
			}
			return err
		})
	}
	g.Expect(wait.Wait()).To(Succeed())
	g.Expect(admitted.Load()).To(BeNumerically("<=", 4))
	g.Eventually(func() (used []int64) {
		reply := b.MustEvaluate(t, storetest.PeekOf(call))
		for _, e := range reply.Entries {
			for _, l := range e.Limits {
				used = append(used, l.Used)
			}
		}
		return slices.Compact(used)
	}).Should(Equal([]int64{admitted.Load() + 1}), "refunds of lost races arrive")
}

// A group whose script fails after another group has spent: the whole call may have written.
func TestFailureAfterAnotherGroupHasSpent(t *testing.T) {
	g := NewWithT(t)
	b, _ := newSubject(t, servers[0])
	only := storeOf(b).route(t.Context(), "a")
	send, calls := only.send, 0
	only.send = func(ctx context.Context, batch []*pending) []outcome {
		if calls++; calls == 24 { // twelve prechecks, then twelve that spend
			return failAll(len(batch), &store.Error{Cause: store.CauseScript, Err: errReply, Unwritten: true})
		}
		return send(ctx, batch)
	}
	call := largeCall()
	_, err := b.Evaluate(t.Context(), call)
	failure, ok := errors.AsType[*store.Error](err)
	g.Expect(ok).To(BeTrue())
	g.Expect(failure).To(And(HaveField("Cause", store.CauseScript), HaveField("Unwritten", false)))
	g.Expect(b.MustEvaluate(t, storetest.PeekOf(call)).Entries[0].Limits[0].Used).To(Equal(int64(1)))
}

// refundTest spends from one policy and refunds single calls.
type refundTest struct {
	*storetest.Subject
	store  *Store
	policy *store.Policy
}

func newRefundTest(t *testing.T, a store.Algorithm) *refundTest {
	t.Helper()
	b, _ := newSubject(t, servers[0])
	l := storetest.SlowLimit(a, 100)
	if refills(a) {
		l.Threshold, l.Window = 100, time.Second
	}
	return &refundTest{
		Subject: b,
		store:   storeOf(b),
		policy:  store.NewPolicy("test/refund", false, false, []store.Limit{l}),
	}
}

func refills(a store.Algorithm) bool { return a == store.TokenBucket || a == store.GCRA }

func (r *refundTest) spend(t *testing.T, cost int64) *group {
	t.Helper()
	g := &group{call: store.Call{Entries: []store.Entry{{Policy: r.policy, Key: "a", Cost: cost}}}}
	var err error
	if g.decided, err = r.store.evaluateAtomic(t.Context(), &g.call, mode{receipts: true}, time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return g
}

func (r *refundTest) refund(t *testing.T, g *group) {
	t.Helper()
	if _, err := r.store.execute(t.Context(), r.store.refundCommand(g)); err != nil {
		t.Fatal(err)
	}
}

func (r *refundTest) used(t *testing.T) int64 {
	t.Helper()
	peek := &store.Call{Entries: []store.Entry{{Policy: r.policy, Key: "a", Peek: true}}}
	return r.MustEvaluate(t, peek).Entries[0].Limits[0].Used
}

func TestRefundReturnsTheCost(t *testing.T) {
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			r := newRefundTest(t, a)
			r.spend(t, 20)
			r.refund(t, r.spend(t, 30))
			NewWithT(t).Expect(r.used(t)).To(Equal(int64(20)))
		})
	}
}

// A refund after a reset takes nothing from later units. The algorithms that refill cannot
// distinguish single units.
func TestRefundAfterResetReturnsNothing(t *testing.T) {
	for _, a := range algorithms {
		if refills(a) {
			continue
		}
		t.Run(string(a), func(t *testing.T) {
			r := newRefundTest(t, a)
			refunded := r.spend(t, 30)
			r.Clear(t)                                      // as a reset does
			r.Clock.Set(r.Clock.Now().Add(2 * time.Minute)) // another bucket
			r.spend(t, 50)
			r.refund(t, refunded)
			NewWithT(t).Expect(r.used(t)).To(Equal(int64(50)))
		})
	}
}

func TestRefundExcludesRefilledUnits(t *testing.T) {
	for _, a := range []store.Algorithm{store.TokenBucket, store.GCRA} {
		t.Run(string(a), func(t *testing.T) {
			r := newRefundTest(t, a)
			refunded := r.spend(t, 30)
			r.Clock.Set(r.Clock.Now().Add(300 * time.Millisecond))
			r.spend(t, 100)
			r.refund(t, refunded)
			NewWithT(t).Expect(r.used(t)).To(Equal(int64(100)), "all 30 units had been refilled")
		})
	}
}
