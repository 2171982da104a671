// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// ReservingPolicy returns a policy that takes reservations.
func ReservingPolicy(name string, limits ...store.Limit) *store.Policy {
	return store.NewVariants(store.Settings{ID: "test/" + name, MaxOpen: 1000}, limits)[0]
}

// Streams reserve units of all policies, and commit fewer.
type Streams struct {
	Policies []*store.Policy
	Keys     []store.Key // of the policies

	Spent    atomic.Int64 // units that were committed
	Mistakes atomic.Int64 // replies other than expected

	number     atomic.Int64
	open, most atomic.Int64 // units of the streams that hold some, now and at most
}

// Stream reserves an estimate, renews it, spends at most the estimate and commits it twice. It reports whether
// the reserve was admitted.
func (s *Streams) Stream(t *testing.T, backend Evaluator) bool {
	t.Helper()
	estimate := 1 + rand.Int64N(5)
	cost := rand.Int64N(estimate + 1)
	id := fmt.Sprintf("stream-%d", s.number.Add(1))
	call := func(action store.Action, cost int64) *store.Reply {
		c := &store.Call{}
		for i, policy := range s.Policies {
			c.Entries = append(c.Entries, store.Entry{Policy: policy, Key: s.Keys[i], Cost: cost, Action: action, ID: id, TTL: time.Minute})
		}
		reply, err := backend.Evaluate(t.Context(), c)
		if err != nil {
			t.Error(err)
			return &store.Reply{}
		}
		return reply
	}
	reply := call(store.Reserve, estimate)
	if len(reply.Entries) == 0 || slices.ContainsFunc(reply.Entries, func(r store.EntryReply) bool { return r.Verdict != store.Admitted }) {
		return false
	}
	open := s.open.Add(estimate)
	for most := s.most.Load(); open > most && !s.most.CompareAndSwap(most, open); most = s.most.Load() {
	}
	s.expect(store.HoldFound, call(store.Renew, 0))
	s.open.Add(-estimate)
	s.expect(store.HoldFound, call(store.Commit, cost))
	s.expect(store.HoldMissing, call(store.Commit, cost))
	s.Spent.Add(cost)
	return true
}

func (s *Streams) expect(want store.HoldOutcome, reply *store.Reply) {
	for i := range reply.Entries {
		if r := &reply.Entries[i]; r.Hold != want || r.Limits[0].Used > s.Policies[i].Limits()[0].Quota {
			s.Mistakes.Add(1)
		}
	}
}

// ExpectUsed expects that no holds are left, and that the key has spent these units; none with
// Concurrency.
func ExpectUsed(t *testing.T, backend Evaluator, policy *store.Policy, key store.Key, spent int64) {
	t.Helper()
	if policy.Limits()[0].Algorithm == store.Concurrency {
		spent = 0
	}
	NewWithT(t).Eventually(func() []int64 { // holds of lost races are ended in the background
		reply, err := backend.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{{Policy: policy, Key: key, Peek: true}}})
		if err != nil {
			t.Fatal(err)
		}
		return []int64{reply.Entries[0].Limits[0].Used, reply.Entries[0].Open}
	}, "30s").Should(Equal([]int64{spent, 0}), "used, open holds")
}

// Lister is a Store that lists holds.
type Lister interface {
	Store
	Holds(ctx context.Context, policy *store.Policy, key store.Key, most int) ([]store.Hold, error)
}

// Few and many open holds are listed in the order of their ends, without those that have ended.
func holdsAreListed(t *testing.T, subject *Subject) {
	t.Helper()
	backend, ok := subject.Store.(Lister)
	if !ok {
		return // the model
	}
	for _, holds := range []int{3, 30} {
		t.Run(strconv.Itoa(holds), func(t *testing.T) {
			g := NewWithT(t)
			policy := ReservingPolicy(fmt.Sprintf("listed%d", holds), SlowLimit(store.SlidingLog, 1000))
			g.Expect(backend.Holds(t.Context(), policy, "a", 100)).To(BeEmpty())
			var want []store.Hold
			for i := range holds {
				h := store.Hold{ID: fmt.Sprintf("%c%d", 'z'-rune(i%26), i), Units: int64(1 + i), EndsIn: time.Duration(1+i) * time.Second}
				subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{
					{Policy: policy, Key: "a", Cost: h.Units, Action: store.Reserve, ID: h.ID, TTL: h.EndsIn + time.Second},
				}})
				want = append(want, h)
			}
			subject.Clock.Set(subject.Clock.Now().Add(time.Second))
			g.Expect(backend.Holds(t.Context(), policy, "a", 100)).To(Equal(want))
			g.Expect(backend.Holds(t.Context(), policy, "a", 2)).To(Equal(want[:2]))
			subject.Clock.Set(subject.Clock.Now().Add(time.Second))
			g.Expect(backend.Holds(t.Context(), policy, "a", 100)).To(HaveLen(holds - 1))
		})
	}
}

// A commit or charge that comes when many holds have ended finds its own among those that are not
// settled yet. Each counts once, with its estimate.
func lateCommitsFindUnsettledHolds(t *testing.T, subject *Subject) {
	t.Helper()
	for _, holds := range []int{2 * store.MostSettled, 4 * store.MostSettled} { // Redis has them in a list, or in a set
		g := NewWithT(t)
		subject.Clear(t)
		policy := ReservingPolicy("late", SlowLimit(store.FixedWindow, 10_000))
		call := func(action store.Action, id string, cost int64) *store.EntryReply {
			reply := subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{
				{Policy: policy, Key: "a", Cost: cost, Action: action, ID: id, TTL: 2 * time.Second},
			}})
			return &reply.Entries[0]
		}
		for i := range holds {
			g.Expect(call(store.Reserve, fmt.Sprintf("%03d", i), 10).Hold).To(Equal(store.HoldTaken))
		}
		subject.Clock.Set(subject.Clock.Now().Add(3 * time.Second))
		late := call(store.CommitOrCharge, fmt.Sprintf("%03d", holds-1), 5)
		g.Expect(late.Settled).To(BeEquivalentTo(store.MostSettled))
		g.Expect(late.Hold).To(Equal(store.HoldMissing))
		g.Expect(call(store.CommitOrCharge, "000", 5).Hold).To(Equal(store.HoldMissing), "which is settled")
		after := call(store.Check, "", 0)
		for n := 3; n*store.MostSettled < holds; n++ {
			after = call(store.Check, "", 0)
		}
		g.Expect(after.Open).To(BeZero())
		g.Expect(after.Limits[0].Used).To(BeEquivalentTo(10 * holds))
	}
}

// A commit spends its cost and returns the rest of the hold. A hold without a commit spends its estimate as it
// ends.
func holdsReturnWhatTheyHeld(t *testing.T, subject *Subject) {
	t.Helper()
	for _, a := range Holding() {
		t.Run(string(a), func(t *testing.T) {
			g := NewWithT(t)
			subject.Clear(t)
			policy := ReservingPolicy("returned", SlowLimit(a, 10))
			call := func(action store.Action, id string, cost int64) store.EntryReply {
				return subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{
					{Policy: policy, Key: "a", Cost: cost, Action: action, ID: id, TTL: time.Second},
				}}).Entries[0]
			}
			spent, all := int64(4), int64(10)
			if a == store.Concurrency {
				spent, all = 0, 0
			}
			g.Expect(call(store.Reserve, "one", 10).Hold).To(Equal(store.HoldTaken))
			g.Expect(call(store.Check, "", 1).Verdict).To(Equal(store.Denied))
			g.Expect(call(store.Commit, "one", 4).Limits[0].Used).To(Equal(spent))
			g.Expect(call(store.Reserve, "two", 10-spent).Hold).To(Equal(store.HoldTaken), "the rest")
			g.Expect(call(store.Reserve, "three", 1).Verdict).To(Equal(store.Denied))
			g.Expect(call(store.Commit, "two", 0).Limits[0].Used).To(Equal(spent))
			g.Expect(call(store.Reserve, "four", 10-spent).Hold).To(Equal(store.HoldTaken))
			subject.Clock.Set(subject.Clock.Now().Add(2 * time.Second))
			after := call(store.Charge, "", 0)
			g.Expect([]int64{after.Settled, after.Open, after.Limits[0].Used}).To(Equal([]int64{1, 0, all}))
		})
	}
}

// The ID of a charge does not name a counter, whatever ID a caller sends and a limit is named.
func chargeIDsAreNoCounters(t *testing.T, subject *Subject) {
	t.Helper()
	g := NewWithT(t)
	l := SlowLimit(store.FixedWindow, 5)
	l.Name, l.Window = "charge", time.Hour
	policy := store.NewVariants(store.Settings{ID: "test/p", MaxOpen: 10}, []store.Limit{l})[0]
	reply := subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: 5, Action: store.Charge, ID: "fw:1h"}}})
	g.Expect(reply.Entries[0].Hold).To(Equal(store.HoldNone))
	reply = subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: 1}}})
	g.Expect(reply.Entries[0].Verdict).To(Equal(store.Denied))
	g.Expect(reply.Entries[0].Limits[0].Used).To(Equal(int64(5)))
}

// An ID takes room only if a repeat of the charge could spend, and for as long as its caller may repeat it.
func fewIDsAreRemembered(t *testing.T, subject *Subject) {
	t.Helper()
	g := NewWithT(t)
	policy := ReservingPolicy("ids", SlowLimit(store.FixedWindow, 1000))
	charge := func(id string, cost int64, forgets bool) (spent bool, more int) {
		before := subject.Size(t)
		reply := subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{
			{Policy: policy, Key: "a", Cost: cost, Action: store.CommitOrCharge, ID: id, Forgets: forgets},
		}})
		return reply.Entries[0].Hold != store.HoldMissing, subject.Size(t) - before
	}
	charge("first", 1, true) // the window
	more := func(id string, cost int64, forgets bool) int {
		_, more := charge(id, cost, forgets)
		return more
	}
	g.Expect(more("free", 0, false)).To(BeZero(), "a repeat spends nothing")
	g.Expect(more("forgotten", 1, true)).To(BeZero())
	spent, _ := charge("forgotten", 1, true)
	g.Expect(spent).To(BeTrue(), "it counts again")

	charge("paid", 1, false)
	charge(store.StreamPrefix+"paid", 1, false)
	subject.SetTime(t, subject.Clock.Now().Add(store.StreamMemory-time.Second))
	for _, id := range []string{"paid", store.StreamPrefix + "paid"} {
		spent, _ := charge(id, 1, false)
		g.Expect(spent).To(BeFalse(), id)
	}
	subject.SetTime(t, subject.Clock.Now().Add(2*time.Second))
	spent, _ = charge(store.StreamPrefix+"paid", 1, false)
	g.Expect(spent).To(BeTrue())
	spent, _ = charge("paid", 1, false)
	g.Expect(spent).To(BeFalse())
}
