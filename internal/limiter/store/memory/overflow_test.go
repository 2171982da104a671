// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/test/storetest"
)

// When the store is full, new keys share the overflow budget of their policy, known keys stay
// exact, and no block starts.
func TestNewKeysShareTheOverflowBudgetWhenFull(t *testing.T) {
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			g := NewWithT(t)
			const keys = 200
			s := memory.NewStore(memory.Options{Keys: keys})
			l := storetest.SlowLimit(a, 5)
			l.Block = time.Hour
			p, q := policyOf("p", l), policyOf("q", l)
			for i := range keys {
				g.Expect(check(t, s, p, store.Key(fmt.Sprint("known", i))).Overflow).To(BeFalse())
			}
			g.Expect(s.Keys()).To(Equal(keys))
			for _, policy := range []*store.Policy{p, q} {
				admitted := 0
				for i := range 1000 {
					r := check(t, s, policy, store.Key(fmt.Sprint("new", i)))
					g.Expect(r.Overflow).To(BeTrue())
					g.Expect(r.Verdict).To(BeElementOf(store.Admitted, store.Denied))
					if r.Verdict == store.Admitted {
						admitted++
					}
				}
				g.Expect(admitted).To(Equal(5))
			}
			g.Expect(s.Keys()).To(Equal(keys))
			for i := range keys {
				r := check(t, s, p, store.Key(fmt.Sprint("known", i)))
				g.Expect(r.Overflow).To(BeFalse())
				g.Expect(r.Limits[0].Used).To(Equal(int64(2)))
			}
		})
	}
}

// Under a flood of new keys the bound holds, and the overflow budget is exact.
func TestFloodUnderConcurrency(t *testing.T) {
	g := NewWithT(t)
	const keys = 1000
	s, p := memory.NewStore(memory.Options{Keys: keys}), policyOf("p", storetest.SlowLimit(store.FixedWindow, 7))
	var overflows, own atomic.Int64
	concurrently(20_000, func(r *rand.Rand) {
		reply := check(t, s, p, store.Key(strconv.FormatUint(r.Uint64(), 10)))
		switch {
		case reply.Verdict == store.Admitted && reply.Overflow:
			overflows.Add(1)
		case reply.Verdict == store.Admitted:
			own.Add(1)
		}
		if s.Keys() > keys+64 { // 64 calls may be about to give their room back
			t.Error("too many keys")
		}
	})
	g.Expect(overflows.Load()).To(Equal(int64(7)))
	g.Expect(own.Load()).To(BeNumerically("~", keys, 64))
	g.Expect(s.Keys()).To(BeNumerically("<=", keys))
}

// Expired keys make room before a new key uses the overflow budget, in whatever shard they are.
func TestExpiredKeysMakeRoom(t *testing.T) {
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			g := NewWithT(t)
			c := newClock()
			s := memory.NewStore(memory.Options{Keys: 100, Now: c.Now})
			long, short := storetest.SlowLimit(a, 5), storetest.SlowLimit(a, 5)
			short.Window, short.Threshold = time.Minute, 5
			if short.Bucket > 0 {
				short.Bucket = time.Second
			}
			p, q := policyOf("p", long), policyOf("q", short)
			for i := range 50 {
				check(t, s, p, store.Key(strconv.Itoa(i)))
				check(t, s, q, store.Key(strconv.Itoa(i)))
			}
			g.Expect(check(t, s, p, "x").Overflow).To(BeTrue())
			c.Advance(time.Minute + 2*time.Millisecond)
			for i := range 50 {
				g.Expect(check(t, s, p, store.Key(fmt.Sprint("new", i))).Overflow).To(BeFalse())
			}
			g.Expect(check(t, s, p, "y").Overflow).To(BeTrue())
			g.Expect(check(t, s, p, "0").Limits[0].Used).To(Equal(int64(2)), "a live key keeps its state")
		})
	}
}

// A block by an operator holds also for a new key of a full store.
func TestOperatorsBlockInAFullStore(t *testing.T) {
	g := NewWithT(t)
	s, p := memory.NewStore(memory.Options{Keys: 1}), policyOf("p", storetest.SlowLimit(store.FixedWindow, 5))
	check(t, s, p, "a")
	g.Expect(s.Block(t.Context(), p, "b", time.Hour)).To(Succeed())
	g.Expect(check(t, s, p, "b").Verdict).To(Equal(store.Blocked))
	g.Expect(s.Unblock(t.Context(), p, "b")).To(BeTrue())
	g.Expect(check(t, s, p, "b").Overflow).To(BeTrue())
}

// A commit of a hold of the overflow budget needs no room, also if the budget has no state any more.
func TestLateCommitsOfOverflowsInAFullStore(t *testing.T) {
	for _, action := range []store.Action{store.Commit, store.CommitOrCharge, store.Renew} {
		t.Run(fmt.Sprint(action), func(t *testing.T) {
			g := NewWithT(t)
			s := memory.NewStore(memory.Options{Keys: 1})
			p := store.NewVariants(store.Settings{ID: "test/p", MaxOpen: 5}, []store.Limit{storetest.SlowLimit(store.FixedWindow, 5)})[0]
			check(t, s, p, "a")
			replied := make(chan *store.Reply)
			go func() {
				reply, _ := s.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{
					{Policy: p, Key: p.OverflowKey(0), Action: action, ID: "r", Cost: 1, TTL: time.Minute},
				}})
				replied <- reply
			}()
			var reply *store.Reply
			g.Eventually(replied).Should(Receive(&reply))
			g.Expect(reply.Entries[0].Verdict).To(Equal(store.Admitted))
			g.Expect(s.Keys()).To(Equal(1))
		})
	}
}

// Keys that share an overflow budget cannot be named from outside.
func TestNoKeyIsTheOverflowBudget(t *testing.T) {
	g := NewWithT(t)
	s, p := memory.NewStore(memory.Options{Keys: 1}), policyOf("p", storetest.SlowLimit(store.FixedWindow, 1))
	check(t, s, p, "a")
	g.Expect(check(t, s, p, "b").Verdict).To(Equal(store.Admitted))
	for _, value := range []string{"#test/p#0", "#", "{overflow}", "test/p"} {
		_, err := s.Reset(t.Context(), p, store.EncodeKey(value))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(check(t, s, p, "c").Verdict).To(Equal(store.Denied), "no reset reached the budget")
}

// A requested limit gives no unknown key a state while only known keys are decided, or while the store
// is full.
func TestRequestedLimitsOfUnknownKeys(t *testing.T) {
	for _, a := range []store.Algorithm{store.TokenBucket, store.GCRA} {
		for _, onlyKnown := range []bool{true, false} {
			t.Run(fmt.Sprint(a, onlyKnown), func(t *testing.T) {
				g := NewWithT(t)
				keys := 1
				if onlyKnown {
					keys = 10_000
				}
				s := memory.NewStore(memory.Options{Keys: keys})
				l := storetest.SlowLimit(a, 5)
				p := store.NewVariants(store.Settings{ID: "test/p", Requestable: true}, []store.Limit{l})[0]
				check(t, s, p, "known")
				l.Quota, l.Threshold, l.StateSuffix = 1000, 1000, "1000"
				requested := p.NewRequested([]store.Limit{l}, 0)
				admitted := 0
				for i := range 1000 {
					reply, err := s.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{
						{Policy: requested, Key: store.Key(fmt.Sprint("new", i)), Cost: 1, OnlyKnown: onlyKnown},
					}})
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(reply.Entries[0].Overflow).To(BeTrue())
					if reply.Entries[0].Verdict == store.Admitted {
						admitted++
					}
				}
				g.Expect(admitted).To(Equal(5))
				g.Expect(s.Keys()).To(BeNumerically("<=", 2), "the known key and the overflow key")
			})
		}
	}
}
