// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// Replicas are stores that share their states.
type Replicas struct {
	// Open returns this number of replicas.
	Open func(tb testing.TB, n int) []Evaluator
	// AreRemote is true if calls take a round trip; then many are in flight at a time.
	AreRemote bool
}

// calls returns how many calls a test makes.
func (r *Replicas) calls(remote int64) int64 {
	if r.AreRemote {
		return remote
	}
	return 16 * remote
}

// TestConcurrency tests promises with calls from many goroutines.
func TestConcurrency(t *testing.T, replicas *Replicas) {
	t.Helper()
	t.Run("the quota is exact", func(t *testing.T) { quotaIsExact(t, replicas) })
	t.Run("chains are all or nothing", func(t *testing.T) { chainsAreAllOrNothing(t, replicas) })
	t.Run("chains name their keys in any order", func(t *testing.T) { chainsNameKeysInAnyOrder(t, replicas) })
	t.Run("reservations are exact", func(t *testing.T) { reservationsAreExact(t, replicas) })
}

// Concurrently calls do while there is more to do, from 64 goroutines of each replica. It returns how many
// calls were true.
func Concurrently(replicas []Evaluator, more func() bool, do func(Evaluator) bool) int {
	const goroutines = 64 // more than a batch
	var wait sync.WaitGroup
	var passed atomic.Int64
	for _, replica := range replicas {
		for range goroutines {
			wait.Go(func() {
				for more() {
					if do(replica) {
						passed.Add(1)
					}
				}
			})
		}
	}
	wait.Wait()
	return int(passed.Load())
}

// Times returns a function that returns true n times.
func Times(n int64) func() bool {
	var calls atomic.Int64
	return func() bool { return calls.Add(1) <= n }
}

// admits reports whether the store admits the call.
func admits(t *testing.T, backend Evaluator, call *store.Call) bool {
	t.Helper()
	reply, err := backend.Evaluate(t.Context(), call)
	return err == nil && !slices.ContainsFunc(reply.Entries, func(e store.EntryReply) bool { return e.Verdict != store.Admitted })
}

func plainPolicy(name string, limit store.Limit) *store.Policy {
	return store.NewPolicy("test/"+name, false, false, []store.Limit{limit})
}

// Of parallel checks of one key with a quota of 100, through one to four replicas, exactly 100 are admitted.
func quotaIsExact(t *testing.T, replicas *Replicas) {
	t.Helper()
	for _, algorithm := range Spending() {
		t.Run(string(algorithm), func(t *testing.T) {
			for n := 1; n <= 4; n++ {
				policy := plainPolicy(fmt.Sprintf("%s-%d", algorithm, n), SlowLimit(algorithm, 100))
				admitted := Concurrently(replicas.Open(t, n), Times(replicas.calls(400)), func(backend Evaluator) bool {
					return admits(t, backend, SpendOne(policy, "a"))
				})
				NewWithT(t).Expect(admitted).To(Equal(100))
			}
		})
	}
}

// ledger sums the costs of admitted calls, by policy and key.
type ledger struct {
	mu    sync.Mutex
	spent map[string]int64
}

func (l *ledger) add(call *store.Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range call.Entries {
		l.spent[e.Policy.ID()+string(e.Key)] += e.Cost
	}
}

// expect expects that each key has spent what admitted calls cost.
func (l *ledger) expect(t *testing.T, backend Evaluator, policies []*store.Policy, keys ...store.Key) {
	t.Helper()
	for _, policy := range policies {
		for _, key := range keys {
			reply, err := backend.Evaluate(t.Context(), PeekOf(SpendOne(policy, key)))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(reply.Entries[0].Limits[0].Used).To(Equal(l.spent[policy.ID()+string(key)]))
		}
	}
}

// A chain is charged as a whole or not at all, for every pair of algorithms.
func chainsAreAllOrNothing(t *testing.T, replicas *Replicas) {
	t.Helper()
	for i, algorithm := range Spending() {
		other := Spending()[(i+1)%len(Spending())]
		t.Run(fmt.Sprintf("%s with %s", algorithm, other), func(t *testing.T) {
			g := NewWithT(t)
			wide := plainPolicy(fmt.Sprintf("wide%d", i), SlowLimit(algorithm, 90))
			tight := plainPolicy(fmt.Sprintf("tight%d", i), SlowLimit(other, 40))
			chains := [][]store.Entry{
				{{Policy: wide, Key: "a", Cost: 1}, {Policy: tight, Key: "a", Cost: 1}},
				{{Policy: tight, Key: "a", Cost: 2}, {Policy: wide, Key: "a", Cost: 1}},
				{{Policy: wide, Key: "a", Cost: 3}},
			}
			l := &ledger{spent: map[string]int64{}}
			stores := replicas.Open(t, 4)
			Concurrently(stores, Times(replicas.calls(400)), func(backend Evaluator) bool {
				call := &store.Call{Entries: chains[rand.IntN(len(chains))]}
				admitted := admits(t, backend, call)
				if admitted {
					l.add(call)
				}
				return admitted
			})
			l.expect(t, stores[0], []*store.Policy{wide, tight}, "a")
			g.Expect(l.spent[wide.ID()+"a"]).To(BeNumerically(">", 85))
			g.Expect(l.spent[tight.ID()+"a"]).To(BeNumerically(">", 0))
		})
	}
}

// A chain of several keys is charged as a whole or not at all, also by callers that name the keys in another
// order.
func chainsNameKeysInAnyOrder(t *testing.T, replicas *Replicas) {
	t.Helper()
	keys := []store.Key{"a", "b", "c", "d"}
	for i, algorithm := range Spending() {
		other := Spending()[(i+1)%len(Spending())]
		t.Run(fmt.Sprintf("%s with %s", algorithm, other), func(t *testing.T) {
			policies := []*store.Policy{
				plainPolicy(fmt.Sprintf("p%d", i), SlowLimit(algorithm, 300)), plainPolicy(fmt.Sprintf("q%d", i), SlowLimit(other, 200)),
			}
			l := &ledger{spent: map[string]int64{}}
			stores := replicas.Open(t, 1)
			Concurrently(stores, Times(3000), func(backend Evaluator) bool {
				call := &store.Call{}
				for range 1 + rand.IntN(4) {
					e := store.Entry{Policy: policies[rand.IntN(2)], Key: keys[rand.IntN(4)], Cost: 1 + rand.Int64N(3)}
					if !slices.ContainsFunc(call.Entries, func(o store.Entry) bool { return o.Policy == e.Policy && o.Key == e.Key }) {
						call.Entries = append(call.Entries, e)
					}
				}
				admitted := admits(t, backend, call)
				if admitted {
					l.add(call)
				}
				return admitted
			})
			l.expect(t, stores[0], policies, keys...)
			NewWithT(t).Expect(l.spent).To(HaveLen(8))
		})
	}
}

// Streams through several replicas never hold and spend more than the quota, and in the end the used units are
// the sum of the costs: each counted once.
func reservationsAreExact(t *testing.T, replicas *Replicas) {
	t.Helper()
	for _, a := range Holding() {
		t.Run(string(a), func(t *testing.T) {
			g := NewWithT(t)
			policy := ReservingPolicy("streams-"+string(a), SlowLimit(a, 100))
			s := &Streams{Policies: []*store.Policy{policy}, Keys: []store.Key{"a"}}
			stores := replicas.Open(t, 4)
			Concurrently(stores, Times(600), func(backend Evaluator) bool { return s.Stream(t, backend) })
			g.Expect(s.most.Load()).To(BeNumerically("<=", 100), "held by streams at one time")
			if replicas.AreRemote {
				g.Expect(s.most.Load()).To(BeNumerically(">", 40))
			}
			g.Expect(s.Mistakes.Load()).To(BeZero())
			ExpectUsed(t, stores[0], policy, "a", s.Spent.Load())
		})
	}
}
