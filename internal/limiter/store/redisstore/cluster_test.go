// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/reference"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
)

// clusterStore returns a store on the cluster, and one key on each node.
func clusterStore(t *testing.T, cluster *testenv.RedisCluster) (backend *Store, keys []store.Key) {
	t.Helper()
	client, err := redisclient.New(cluster.URL, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	for _, node := range cluster.Nodes {
		keys = append(keys, store.Key(cluster.KeyOn(node, "caller")))
	}
	return newStore(client), keys
}

// A call with keys on several nodes gives the same reply as the model, without
// concurrent calls.
func TestClusterAgreesWithModel(t *testing.T) {
	cluster := testenv.StartRedisCluster(t)
	backend, keys := clusterStore(t, cluster)
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			model := &reference.Model{}
			r := rand.New(rand.NewPCG(1, uint64(indexOf(a))))
			var policies []*store.Policy
			for i := range 3 {
				l := storetest.SlowLimit(a, 3+r.Int64N(4))
				if i == 1 {
					l.Block = time.Hour
				}
				policies = append(policies, store.NewPolicy(fmt.Sprintf("test/%s%d", a, i), i == 2 && a.CanCountAttempts(), false, []store.Limit{l}))
			}
			for range 60 {
				call := &store.Call{Draw: r.Uint32(), Denied: r.IntN(10) == 0}
				for _, i := range r.Perm(3)[:1+r.IntN(3)] {
					call.Entries = append(call.Entries, store.Entry{
						Policy: policies[i], Key: keys[r.IntN(3)], Cost: 1 + r.Int64N(2), Peek: r.IntN(8) == 0,
					})
				}
				got, err := backend.Evaluate(t.Context(), call)
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				want := model.Evaluate(call, time.Now())
				NewWithT(t).Expect(withoutTimes(got)).To(Equal(withoutTimes(want)), storetest.Describe(call))
			}
		})
	}
}

// withoutTimes returns a reply without its times, which the duration of the call makes
// different from the model.
func withoutTimes(reply *store.Reply) []string {
	var all []string
	for _, e := range reply.Entries {
		all = append(all, fmt.Sprint(e.Verdict, e.BlockedBy))
		for _, l := range e.Limits {
			all = append(all, fmt.Sprintf("admits %v shed %v used %d suppression %.3f", l.Admits, l.Shed, l.Used, l.Suppression))
		}
	}
	return all
}

// Parallel chains over keys on different nodes, with one key that all of them share: on
// every key the units of the admitted checks are the spent units, and no more than the
// quota. A chain that lost a race has been refunded.
func TestClusterChainsAreAllOrNothing(t *testing.T) {
	cluster := testenv.StartRedisCluster(t)
	for i, a := range algorithms {
		other := algorithms[(i+1)%len(algorithms)]
		t.Run(fmt.Sprintf("%s with %s", a, other), func(t *testing.T) {
			g := NewWithT(t)
			backend, keys := clusterStore(t, cluster)
			users := store.NewPolicy(fmt.Sprintf("test/user%d", i), false, false, []store.Limit{storetest.SlowLimit(a, 60)})
			tenant := store.NewPolicy(fmt.Sprintf("test/tenant%d", i), false, false, []store.Limit{storetest.SlowLimit(other, 50)})
			spent := map[store.Key]int64{}
			var mu sync.Mutex
			var wait sync.WaitGroup
			for range 8 {
				wait.Go(func() {
					for range 40 {
						user, cost := keys[1+rand.IntN(2)], 1+rand.Int64N(2)
						reply, err := backend.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{
							{Policy: users, Key: user, Cost: cost}, {Policy: tenant, Key: keys[0], Cost: cost},
						}})
						g.Expect(err).NotTo(HaveOccurred())
						if reply.Entries[0].Verdict == store.Admitted && reply.Entries[1].Verdict == store.Admitted {
							mu.Lock()
							spent[user] += cost
							spent[keys[0]] += cost
							mu.Unlock()
						}
					}
				})
			}
			wait.Wait()
			for key, policy := range map[store.Key]*store.Policy{keys[0]: tenant, keys[1]: users, keys[2]: users} {
				g.Eventually(func() int64 { // refunds continue in the background
					reply, err := backend.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{{Policy: policy, Key: key, Peek: true}}})
					g.Expect(err).NotTo(HaveOccurred())
					return reply.Entries[0].Limits[0].Used
				}, "30s").Should(Equal(spent[key]), string(key))
			}
			g.Expect(spent[keys[0]]).To(BeNumerically("~", 50, 1), "the tenant's whole quota and no more")
		})
	}
}

// raceHook calls spend just before the given script call, so that the store loses a race.
type raceHook struct {
	spend  func()
	before int // counts down the script calls
}

func (*raceHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*raceHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *raceHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	var mu sync.Mutex
	return func(ctx context.Context, cmd redis.Cmder) error {
		mu.Lock()
		if cmd.Name() == "evalsha" {
			if r.before--; r.before == 0 {
				r.spend()
			}
		}
		mu.Unlock()
		return next(ctx, cmd)
	}
}

// A check that passes its precheck on every node, and is then denied by one node, is
// refunded on the others. A policy that counts attempts keeps its count. A block that the
// denying node started stays.
func TestClusterLostRace(t *testing.T) {
	cluster := testenv.StartRedisCluster(t)
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			g := NewWithT(t)
			backend, keys := clusterStore(t, cluster)
			competitor, _ := clusterStore(t, cluster)
			policy := func(name string, attempts bool, l store.Limit) *store.Policy {
				return store.NewPolicy("test/"+string(a)+"-"+name, attempts, false, []store.Limit{l})
			}
			given := policy("given", false, storetest.SlowLimit(a, 10))
			counted := policy("counted", true, storetest.SlowLimit(store.SlidingLog, 10))
			tight := storetest.SlowLimit(store.FixedWindow, 1)
			tight.Block = time.Hour
			denies := policy("denies", false, tight)
			before := &store.Call{Entries: []store.Entry{{Policy: given, Key: keys[0], Cost: 2}}}
			_, err := backend.Evaluate(t.Context(), before)
			g.Expect(err).NotTo(HaveOccurred())

			// Three prechecks, then three calls that spend: the competitor takes the last
			// unit of the tight limit in between.
			backend.client.(*redis.ClusterClient).AddHook(&raceHook{before: 4, spend: func() {
				_, err := competitor.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{{Policy: denies, Key: keys[2], Cost: 1}}})
				g.Expect(err).NotTo(HaveOccurred())
			}})
			call := &store.Call{Entries: []store.Entry{
				{Policy: given, Key: keys[0], Cost: 3}, {Policy: counted, Key: keys[1], Cost: 1}, {Policy: denies, Key: keys[2], Cost: 1},
			}}
			reply, err := backend.Evaluate(t.Context(), call)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(reply.Entries[0].Verdict).To(Equal(store.Admitted))
			g.Expect(reply.Entries[0].Limits[0].Used).To(Equal(int64(2)), "refunded")
			g.Expect(reply.Entries[1].Limits[0].Used).To(Equal(int64(1)), "an attempt stays counted")
			g.Expect(reply.Entries[2].Verdict).To(BeElementOf(store.BlockStarted, store.Blocked))

			peek := &store.Call{Entries: []store.Entry{{Policy: given, Key: keys[0], Cost: 8, Peek: true}}}
			if a != store.Suppressed { // it also observes denied checks
				g.Eventually(func() store.Verdict {
					reply, err = backend.Evaluate(t.Context(), peek)
					g.Expect(err).NotTo(HaveOccurred())
					return reply.Entries[0].Verdict
				}).Should(Equal(store.Admitted), "the rest of the quota is free")
			}
		})
	}
}

// While slots move between nodes, no decision is lost or counted twice.
func TestClusterWhileSlotsMove(t *testing.T) {
	g := NewWithT(t)
	cluster := testenv.StartRedisCluster(t)
	backend, keys := clusterStore(t, cluster)
	policy := store.NewPolicy("test/moving", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 200), storetest.SlowLimit(store.SlidingLog, 1000)})
	decided := make(chan bool, 400)
	go func() {
		defer close(decided)
		for range 400 {
			reply, err := backend.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{{Policy: policy, Key: keys[0], Cost: 1}}})
			if err != nil {
				t.Error(err)
				return
			}
			decided <- reply.Entries[0].Verdict == store.Admitted
		}
	}()
	slot := cluster.Slot("{" + string(keys[0]) + "}")
	for _, to := range []int{1, 2, 0, 1} {
		cluster.Migrate(slot, cluster.Nodes[to])
	}
	admitted := 0
	for ok := range decided {
		if ok {
			admitted++
		}
	}
	g.Expect(admitted).To(Equal(200))
}

// While slots move to a node that is added, and to others, streams over keys on two nodes hold both keys or none, and each key counts
// each cost once.
func TestClusterReservationsWhileSlotsMove(t *testing.T) {
	cluster := testenv.StartRedisCluster(t)
	backend, keys := clusterStore(t, cluster)
	nodes := []*testenv.Redis{cluster.AddMaster(), cluster.Nodes[2], cluster.Nodes[0]}
	for i, a := range storetest.Holding() {
		t.Run(string(a), func(t *testing.T) {
			g := NewWithT(t)
			s := &storetest.Streams{Keys: keys[:2]}
			for _, role := range []string{"user", "tenant"} {
				s.Policies = append(s.Policies, storetest.ReservingPolicy(fmt.Sprint("moving-", role, i), storetest.WideLimit(a)))
			}
			var wait sync.WaitGroup
			var moved atomic.Bool
			for range 8 {
				wait.Go(func() {
					for !moved.Load() {
						s.Stream(t, backend)
					}
				})
			}
			for _, node := range nodes {
				for _, key := range s.Keys {
					spent := s.Spent.Load()
					g.Eventually(s.Spent.Load, "30s").Should(BeNumerically(">", spent), "streams while the slot has an owner")
					cluster.Migrate(cluster.Slot("{"+string(key)+"}"), node)
				}
			}
			moved.Store(true)
			wait.Wait()
			g.Expect(s.Mistakes.Load()).To(BeZero())
			for i := range s.Policies {
				storetest.ExpectUsed(t, backend, s.Policies[i], s.Keys[i], s.Spent.Load())
			}
		})
	}
}

// A node that hangs stops only the callers whose keys it has, and these only until its breaker
// opens.
func TestClusterNodesHaveBreakersOfTheirOwn(t *testing.T) {
	g := NewWithT(t)
	cluster := testenv.StartRedisCluster(t)
	client, err := redisclient.New(cluster.URL, time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	const timeout = 20 * time.Millisecond
	backend := NewStore(Options{Client: client, Prefix: testPrefix, Timeout: timeout})
	hung, works := store.Key(cluster.KeyOn(cluster.Nodes[0], "caller")), store.Key(cluster.KeyOn(cluster.Nodes[1], "caller"))
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1_000_000)})
	causes := func(key store.Key) store.Cause {
		_, err := backend.Evaluate(t.Context(), storetest.SpendOne(policy, key))
		return causeIn(err)
	}
	for _, key := range []store.Key{hung, works} { // the client knows the nodes, and they have the script
		g.Eventually(func() store.Cause { return causes(key) }).Should(BeEmpty())
	}
	cluster.Nodes[0].Pause()
	g.Eventually(func() store.Cause { return causes(hung) }, "30s").Should(Equal(store.CauseBreaker))
	g.Expect(causes(works)).NotTo(Equal(store.CauseBreaker))
	cluster.Nodes[0].Resume()
	for _, key := range []store.Key{hung, works} {
		g.Eventually(func() store.Cause { return causes(key) }, "30s").Should(BeEmpty())
	}
}

// While no node of the cluster has ever answered, callers wait only until the breaker opens.
func TestClusterThatIsDownAtTheStart(t *testing.T) {
	g := NewWithT(t)
	cluster := testenv.StartRedisCluster(t)
	for _, node := range cluster.Nodes {
		node.Pause()
	}
	client, err := redisclient.New(cluster.URL, time.Second)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	backend := NewStore(Options{Client: client, Prefix: testPrefix, Timeout: 20 * time.Millisecond})
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1_000_000)})
	cause := func() store.Cause {
		_, err := backend.Evaluate(t.Context(), storetest.SpendOne(policy, "a"))
		return causeIn(err)
	}
	g.Eventually(cause, "30s").Should(Equal(store.CauseBreaker))
	for _, node := range cluster.Nodes {
		node.Resume()
	}
	g.Eventually(cause, "30s").Should(BeEmpty())
}
