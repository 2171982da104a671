// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/quota"
	"github.com/weir-dev/weir/internal/limiter/storetest"
	"github.com/weir-dev/weir/internal/testenv"
)

// holdingAlgorithms are those of policies that take reservations.
var holdingAlgorithms = slices.DeleteFunc(slices.Clone(allAlgorithms), func(a quota.Algorithm) bool { return a == quota.Suppressed })

// reservingPolicy returns a policy that takes reservations.
func reservingPolicy(name string, limits ...quota.Limit) *quota.Policy {
	return quota.NewVariants(quota.Settings{ID: "test/" + name, MaxOpen: 1000}, limits)[0]
}

// streams reserve an estimate, spend at most that and commit it twice, in parallel and through
// several stores. What is spent and held never exceeds the quota, and in the end the used units are
// the sum of the costs: each counted once.
func TestReservationsAreExactUnderConcurrency(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			server := on.start(t)
			for _, a := range holdingAlgorithms {
				t.Run(string(a), func(t *testing.T) {
					g := NewWithT(t)
					s := &streams{policies: []*quota.Policy{reservingPolicy("streams-"+string(a), storetest.SlowLimit(a, 100))}, keys: []quota.Key{"a"}}
					concurrently(t, server, 4, times(600), func(e evaluator) bool { return s.run(t, e) })
					g.Expect(s.most.Load()).To(And(BeNumerically("<=", 100), BeNumerically(">", 40)), "held by streams at one time")
					g.Expect(s.mistakes.Load()).To(BeZero())
					store := newStore(newClient(t, server.Addr))
					expectUsed(t, store, s.policies[0], "a", s.spent.Load())
				})
			}
		})
	}
}

// streams reserve units of all policies, and commit less.
type streams struct {
	policies []*quota.Policy
	keys     []quota.Key

	number     atomic.Int64
	spent      atomic.Int64
	held, most atomic.Int64 // by admitted streams
	mistakes   atomic.Int64
}

// run runs one stream and reports whether it was admitted.
func (s *streams) run(t *testing.T, e evaluator) bool {
	t.Helper()
	estimate := 1 + rand.Int64N(5)
	cost := rand.Int64N(estimate + 1)
	id := fmt.Sprintf("stream-%d", s.number.Add(1))
	call := func(action quota.Action, cost int64) *quota.Reply {
		c := &quota.Call{}
		for i, policy := range s.policies {
			c.Entries = append(c.Entries, quota.Entry{Policy: policy, Key: s.keys[i], Cost: cost, Action: action, ID: id, TTL: time.Minute})
		}
		reply, err := e.Evaluate(t.Context(), c)
		if err != nil {
			t.Error(err)
			return &quota.Reply{}
		}
		return reply
	}
	reply := call(quota.Reserve, estimate)
	if len(reply.Entries) == 0 || slices.ContainsFunc(reply.Entries, func(r quota.EntryReply) bool { return r.Verdict != quota.Admitted }) {
		return false
	}
	held := s.held.Add(estimate)
	for most := s.most.Load(); held > most && !s.most.CompareAndSwap(most, held); most = s.most.Load() {
	}
	s.expect(quota.HoldFound, call(quota.Renew, 0))
	s.held.Add(-estimate)
	s.expect(quota.HoldFound, call(quota.Commit, cost))
	s.expect(quota.HoldMissing, call(quota.Commit, cost))
	s.spent.Add(cost)
	return true
}

func (s *streams) expect(want quota.HoldOutcome, reply *quota.Reply) {
	for i := range reply.Entries {
		if r := &reply.Entries[i]; r.Hold != want || r.Limits[0].Used > 100 {
			s.mistakes.Add(1)
		}
	}
}

// expectUsed expects that no holds are left, and that the key has spent these units; none with
// Concurrency.
func expectUsed(t *testing.T, s *Store, policy *quota.Policy, key quota.Key, spent int64) {
	t.Helper()
	if policy.Limits()[0].Algorithm == quota.Concurrency {
		spent = 0
	}
	NewWithT(t).Eventually(func() []int64 { // holds of lost races are ended in the background
		reply, err := s.Evaluate(t.Context(), &quota.Call{Entries: []quota.Entry{{Policy: policy, Key: key, Peek: true}}})
		if err != nil {
			t.Fatal(err)
		}
		return []int64{reply.Entries[0].Limits[0].Used, reply.Entries[0].Open}
	}, "5s").Should(Equal([]int64{spent, 0}), "used, open holds")
}

// Streams over keys on several nodes hold all of their keys or none, and each key counts each cost
// once.
func TestClusterReservationsAreAllOrNothing(t *testing.T) {
	cluster := testenv.StartRedisCluster(t)
	for i, a := range holdingAlgorithms {
		other := holdingAlgorithms[(i+1)%len(holdingAlgorithms)]
		t.Run(fmt.Sprintf("%s with %s", a, other), func(t *testing.T) {
			store, keys := clusterStore(t, cluster)
			s := &streams{
				policies: []*quota.Policy{
					reservingPolicy(fmt.Sprintf("user%d", i), storetest.SlowLimit(a, 100)), reservingPolicy(fmt.Sprintf("tenant%d", i), storetest.SlowLimit(other, 100)),
				},
				keys: keys[:2],
			}
			var wait sync.WaitGroup
			for range 16 {
				wait.Go(func() {
					for range 12 {
						s.run(t, store)
					}
				})
			}
			wait.Wait()
			NewWithT(t).Expect(s.mistakes.Load()).To(BeZero())
			NewWithT(t).Expect(s.spent.Load()).To(BeNumerically(">", 0))
			for i := range s.policies {
				expectUsed(t, store, s.policies[i], s.keys[i], s.spent.Load())
			}
		})
	}
}

// lister is a store that lists holds.
type lister interface {
	decider
	Holds(ctx context.Context, policy *quota.Policy, key quota.Key, most int) ([]quota.Hold, error)
}

// Few and many open holds are listed in the order of their ends, without those that have ended.
func TestHoldsAreListed(t *testing.T) {
	for _, b := range newBackends(t) {
		store, ok := b.decider.(lister)
		if !ok {
			continue // the model
		}
		for _, holds := range []int{3, 30} {
			t.Run(fmt.Sprint(b.name, " ", holds), func(t *testing.T) {
				g := NewWithT(t)
				policy := reservingPolicy(fmt.Sprintf("listed%d", holds), storetest.SlowLimit(quota.SlidingLog, 1000))
				g.Expect(store.Holds(t.Context(), policy, "a", 100)).To(BeEmpty())
				var want []quota.Hold
				for i := range holds {
					h := quota.Hold{ID: fmt.Sprintf("%c%d", 'z'-rune(i%26), i), Units: int64(1 + i), EndsIn: time.Duration(1+i) * time.Second}
					b.evaluate(t, &quota.Call{Entries: []quota.Entry{
						{Policy: policy, Key: "a", Cost: h.Units, Action: quota.Reserve, ID: h.ID, TTL: h.EndsIn + time.Second},
					}})
					want = append(want, h)
				}
				b.clock.Set(b.clock.Now().Add(time.Second))
				g.Expect(store.Holds(t.Context(), policy, "a", 100)).To(Equal(want))
				g.Expect(store.Holds(t.Context(), policy, "a", 2)).To(Equal(want[:2]))
				b.clock.Set(b.clock.Now().Add(time.Second))
				g.Expect(store.Holds(t.Context(), policy, "a", 100)).To(HaveLen(holds - 1))
			})
		}
	}
}

// Reserves that share a call keep the holds of each key as long as its last one.
func TestHoldsInABatchExpireWithTheirKey(t *testing.T) {
	g := NewWithT(t)
	_, client := newServerBackend(t, servers[0])
	store := newStore(client)
	policy := reservingPolicy("p", storetest.SlowLimit(quota.TokenBucket, 30))
	reserve := func(key quota.Key, id string, ttl time.Duration) *pending {
		return &pending{call: &quota.Call{Entries: []quota.Entry{{Policy: policy, Key: key, Cost: 1, Action: quota.Reserve, ID: id, TTL: ttl}}}}
	}
	send := func(batch ...*pending) {
		for i, o := range store.send(t.Context(), batch) {
			g.Expect(decoded(t, batch[i], o).Entries[0].Hold).To(Equal(quota.HoldTaken))
		}
	}
	send(reserve("long", "a", 20*time.Hour))
	send(reserve("short", "b", time.Hour), reserve("long", "b", time.Hour))
	ttl := func(key quota.Key) time.Duration {
		return client.PTTL(t.Context(), store.key(key, policy.HoldsName())).Val()
	}
	g.Expect(ttl("long") - ttl("short")).To(BeNumerically("~", 19*time.Hour, time.Minute))
}

// The last commit removes the holds, whether the lean or the general code does it.
func TestTheLastCommitRemovesTheHolds(t *testing.T) {
	_, client := newServerBackend(t, servers[0])
	store := newStore(client)
	general := storetest.SlowLimit(quota.FixedWindow, 9)
	general.Block, general.Escalation = time.Minute, &quota.Escalation{Lengths: []time.Duration{time.Minute, time.Hour}, Window: time.Hour}
	other := storetest.SlowLimit(quota.FixedWindow, 9)
	other.Name, other.Window = "other", 2*other.Window
	for name, limits := range map[string][]quota.Limit{
		"lean": {storetest.SlowLimit(quota.FixedWindow, 9)}, "lean, two windows": {storetest.SlowLimit(quota.FixedWindow, 9), other}, "general": {general},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			policy := reservingPolicy(name, limits...)
			g.Expect(preparedOf(policy).isLean).To(Equal(name != "general"))
			hold := func(action quota.Action, id string) {
				_, err := store.Evaluate(t.Context(), &quota.Call{Entries: []quota.Entry{{
					Policy: policy, Key: "a", Cost: 1, Action: action, ID: id, TTL: time.Minute,
				}}})
				g.Expect(err).NotTo(HaveOccurred())
			}
			held := func() int64 { return client.Exists(t.Context(), store.key("a", policy.HoldsName())).Val() }
			hold(quota.Check, "")
			hold(quota.Reserve, "one")
			hold(quota.Reserve, "two")
			hold(quota.Commit, "one")
			g.Expect(held()).To(BeEquivalentTo(1))
			hold(quota.Commit, "two")
			g.Expect(held()).To(BeZero())
		})
	}
}

// A commit or charge that comes when many holds have ended finds its own among those that are not
// settled yet. Each counts once, with its estimate.
func TestLateCommitOfAnUnsettledHold(t *testing.T) {
	for _, b := range newBackends(t) {
		for _, holds := range []int{2 * quota.MostSettled, 4 * quota.MostSettled} { // in a list, and in a set
			t.Run(fmt.Sprint(b.name, " ", holds), func(t *testing.T) {
				g := NewWithT(t)
				b.clear(t)
				policy := reservingPolicy("late", storetest.SlowLimit(quota.FixedWindow, 10_000))
				call := func(action quota.Action, id string, cost int64) *quota.EntryReply {
					reply := b.evaluate(t, &quota.Call{Entries: []quota.Entry{
						{Policy: policy, Key: "a", Cost: cost, Action: action, ID: id, TTL: 2 * time.Second},
					}})
					return &reply.Entries[0]
				}
				for i := range holds {
					g.Expect(call(quota.Reserve, fmt.Sprintf("%03d", i), 10).Hold).To(Equal(quota.HoldTaken))
				}
				b.clock.Set(b.clock.Now().Add(3 * time.Second))
				late := call(quota.CommitOrCharge, fmt.Sprintf("%03d", holds-1), 5)
				g.Expect(late.Settled).To(BeEquivalentTo(quota.MostSettled))
				g.Expect(late.Hold).To(Equal(quota.HoldMissing))
				g.Expect(call(quota.CommitOrCharge, "000", 5).Hold).To(Equal(quota.HoldMissing), "which is settled")
				after := call(quota.Check, "", 0)
				for n := 3; n*quota.MostSettled < holds; n++ {
					after = call(quota.Check, "", 0)
				}
				g.Expect(after.Open).To(BeZero())
				g.Expect(after.Limits[0].Used).To(BeEquivalentTo(10 * holds))
			})
		}
	}
}
