// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
)

// Streams over keys on several nodes hold all of their keys or none, and each key counts each cost
// once.
func TestClusterReservationsAreAllOrNothing(t *testing.T) {
	cluster := testenv.StartRedisCluster(t)
	for i, a := range storetest.Holding() {
		other := storetest.Holding()[(i+1)%len(storetest.Holding())]
		t.Run(fmt.Sprintf("%s with %s", a, other), func(t *testing.T) {
			backend, keys := clusterStore(t, cluster)
			s := &storetest.Streams{
				Policies: []*store.Policy{
					storetest.ReservingPolicy(fmt.Sprintf("user%d", i), storetest.SlowLimit(a, 100)), storetest.ReservingPolicy(fmt.Sprintf("tenant%d", i), storetest.SlowLimit(other, 100)),
				},
				Keys: keys[:2],
			}
			var wait sync.WaitGroup
			for range 16 {
				wait.Go(func() {
					for range 12 {
						s.Stream(t, backend)
					}
				})
			}
			wait.Wait()
			NewWithT(t).Expect(s.Mistakes.Load()).To(BeZero())
			NewWithT(t).Expect(s.Spent.Load()).To(BeNumerically(">", 0))
			for i := range s.Policies {
				storetest.ExpectUsed(t, backend, s.Policies[i], s.Keys[i], s.Spent.Load())
			}
		})
	}
}

// Reserves that share a call keep the holds of each key as long as its last one.
func TestHoldsInABatchExpireWithTheirKey(t *testing.T) {
	g := NewWithT(t)
	_, client := newSubject(t, servers[0])
	backend := newStore(client)
	policy := storetest.ReservingPolicy("p", storetest.SlowLimit(store.TokenBucket, 30))
	reserve := func(key store.Key, id string, ttl time.Duration) *pending {
		return pendingOf(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: key, Cost: 1, Action: store.Reserve, ID: id, TTL: ttl}}})
	}
	send := func(batch ...*pending) {
		for i, o := range backend.send(t.Context(), batch) {
			g.Expect(decoded(t, batch[i], o).Entries[0].Hold).To(Equal(store.HoldTaken))
		}
	}
	send(reserve("long", "a", 20*time.Hour))
	send(reserve("short", "b", time.Hour), reserve("long", "b", time.Hour))
	ttl := func(key store.Key) time.Duration {
		return client.PTTL(t.Context(), backend.key(key, policy.HoldsName())).Val()
	}
	g.Expect(ttl("long") - ttl("short")).To(BeNumerically("~", 19*time.Hour, time.Minute))
}

// The last commit removes the holds, whether the fast or the general path does it.
func TestTheLastCommitRemovesTheHolds(t *testing.T) {
	_, client := newSubject(t, servers[0])
	backend := newStore(client)
	general := storetest.SlowLimit(store.FixedWindow, 9)
	general.Block, general.Escalation = time.Minute, &store.Escalation{Lengths: []time.Duration{time.Minute, time.Hour}, Window: time.Hour}
	other := storetest.SlowLimit(store.FixedWindow, 9)
	other.Name, other.Window = "other", 2*other.Window
	for name, limits := range map[string][]store.Limit{
		"fast": {storetest.SlowLimit(store.FixedWindow, 9)}, "fast, two windows": {storetest.SlowLimit(store.FixedWindow, 9), other}, "general": {general},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			policy := storetest.ReservingPolicy(name, limits...)
			g.Expect(preparedOf(policy).hasFastPath).To(Equal(name != "general"))
			hold := func(action store.Action, id string) {
				_, err := backend.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{{
					Policy: policy, Key: "a", Cost: 1, Action: action, ID: id, TTL: time.Minute,
				}}})
				g.Expect(err).NotTo(HaveOccurred())
			}
			held := func() int64 { return client.Exists(t.Context(), backend.key("a", policy.HoldsName())).Val() }
			hold(store.Check, "")
			hold(store.Reserve, "one")
			hold(store.Reserve, "two")
			hold(store.Commit, "one")
			g.Expect(held()).To(BeEquivalentTo(1))
			hold(store.Commit, "two")
			g.Expect(held()).To(BeZero())
		})
	}
}

// A key with holds is listed only while it is blocked, and its mark outlives the block.
func TestBlocksOfKeysWithHolds(t *testing.T) {
	forEachServer(t, func(t *testing.T, subject *storetest.Subject) {
		t.Helper()
		g := NewWithT(t)
		backend, key := storeOf(subject), store.Key("a")
		limit := storetest.SlowLimit(store.FixedWindow, 9)
		reserving, plain := storetest.ReservingPolicy("p", limit), store.NewPolicy("test/p", false, false, []store.Limit{limit})
		call := storetest.SpendOne(reserving, key)
		call.Entries[0].Action, call.Entries[0].ID, call.Entries[0].TTL = store.Reserve, "one", time.Minute
		subject.MustEvaluate(t, call)
		listed := func() []store.Block {
			blocks, _, err := backend.Blocks(t.Context(), plain.ID(), 10)
			g.Expect(err).NotTo(HaveOccurred())
			return blocks
		}
		g.Expect(backend.AddBlocks(t.Context(), plain.ID(), []store.Block{{Key: key, Left: time.Hour}})).To(Succeed())
		g.Expect(listed()).To(BeEmpty(), "it is marked, and not blocked")
		for _, length := range []time.Duration{time.Second, time.Hour} { // shorter than the mark, and longer
			g.Expect(backend.Block(t.Context(), plain, key, length)).To(Succeed())
			g.Expect(listed()).To(Equal([]store.Block{{Key: key, Left: length}}))
		}
		g.Expect(backend.Unblock(t.Context(), plain, key)).To(BeTrue())
		g.Expect(backend.Unblock(t.Context(), plain, key)).To(BeFalse())
		g.Expect(listed()).To(BeEmpty())
		reply := subject.MustEvaluate(t, storetest.SpendOne(plain, key)).Entries[0]
		g.Expect([]int64{reply.Held, reply.Limits[0].Used}).To(Equal([]int64{1, 2}), "a plan without reservations counts the hold")
		g.Expect(backend.Reset(t.Context(), plain, key)).To(BeTrue())
		g.Expect(backend.Reset(t.Context(), plain, key)).To(BeFalse())
	})
}

// The block of a key with holds can be lifted in the last millisecond of its mark, whose TTL is then 0.
func TestUnblockInTheLastMillisecondOfAMark(t *testing.T) {
	forEachServer(t, func(t *testing.T, subject *storetest.Subject) {
		t.Helper()
		g := NewWithT(t)
		backend, key := storeOf(subject), store.Key("a")
		policy := storetest.ReservingPolicy("p", storetest.SlowLimit(store.FixedWindow, 9))
		call := storetest.SpendOne(policy, key)
		call.Entries[0].Action, call.Entries[0].ID, call.Entries[0].TTL = store.Reserve, "one", time.Minute
		subject.MustEvaluate(t, call)
		mark := backend.key(key, preparedOf(policy).keys[0])
		left := backend.client.PTTL(t.Context(), mark).Val()
		g.Expect(left).To(BeNumerically(">", time.Minute))
		subject.SetTime(t, subject.Clock.Now().Add(left))
		g.Expect(backend.client.Do(t.Context(), "PTTL", mark).Val()).To(BeEquivalentTo(0))
		g.Expect(backend.Unblock(t.Context(), policy, key)).To(BeFalse())
	})
}
