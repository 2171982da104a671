// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// maxLag is min-replicas-max-lag. Redis compares it once a second with a lag in whole seconds, so that
// the master may accept writes for two seconds longer, and on a busy machine for lagSlack.
const (
	maxLag   = time.Second
	lagSlack = 30 * time.Second
)

// replicated are the arguments of a master that rejects writes soon after it lost its replica.
var replicated = []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", fmt.Sprint(maxLag.Seconds())}

// sendTime is how long a call is sent again while the keys of its slot move, see docs/topologies.md.
const sendTime = 30 * time.Millisecond

// failoverFaults are the faults of Redis with replicas.
var failoverFaults = []fault{
	{name: "Sentinel: the master is killed, a replica promoted", degrades: true, incidents: 1, setup: killedMaster},
	{name: "Sentinel: failover on command", incidents: 1, mayDegrade: true, setup: commandedFailover},
	{
		name:     "Sentinel: a partition with two masters, one `weir` process on each (`min-replicas-to-write 1`, `min-replicas-max-lag 1`)",
		degrades: true, incidents: 1, setup: partition,
	},
	{name: "Cluster: slots move between masters", setup: func(t *testing.T) *system {
		t.Helper()
		c := testenv.StartRedisCluster(t)
		slots := map[int]bool{}
		for i := range keys {
			slots[c.Slot(fmt.Sprintf("key-%d", i))] = true
		}
		var divided time.Duration // the longest
		return &system{redisURL: c.URL, wasSlow: func() bool { return divided > sendTime/2 }, begin: func() {
			for slot := range slots {
				for _, to := range []int{1, 2, 0} {
					divided = max(divided, c.Migrate(slot, c.Nodes[to]))
				}
			}
		}}
	}},
	{name: "Cluster: a master is killed, its replica promoted", degrades: true, incidents: 1, setup: killedClusterMaster},
}

// killedMaster kills the master. It had counted what the callers saw admitted until then.
func killedMaster(t *testing.T) *system {
	t.Helper()
	s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{})
	var watched *replica
	var died time.Time
	return &system{
		redisURL: s.URL,
		begin: func() {
			watched = watchReplica(t, s.Client(s.Nodes[1]), hourly())
			s.Nodes[0].Stop()
			died = time.Now()
		},
		end: func() { s.AwaitMaster(s.Nodes[1]) },
		lost: func(records []record) units {
			return unreplicated(admittedUntil(records, died, hourly()), watched.atPromotion(t))
		},
	}
}

// commandedFailover promotes the replica although the master works. The master stays one until the
// sentinels demote it, seconds after all clients have left it.
func commandedFailover(t *testing.T) *system {
	t.Helper()
	s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{})
	var watched *replica
	var old map[counter]state
	return &system{
		redisURL: s.URL,
		begin: func() {
			watched = watchReplica(t, s.Client(s.Nodes[1]), hourly())
			s.Failover()
			await(t, "the clients to leave the old master", func() bool {
				clients, err := s.Client(s.Nodes[0]).ClientList(t.Context()).Result()
				return err == nil && !strings.Contains(clients, " cmd=eval")
			})
			old = oldMaster(t, s.Client(s.Nodes[0]))
		},
		lost: func([]record) units { return unreplicated(old, watched.atPromotion(t)) },
	}
}

// partition separates the master and one weir process from all others.
func partition(t *testing.T) *system {
	t.Helper()
	s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{Args: replicated, Partitionable: true})
	var watched *replica
	var old map[counter]state
	var began time.Time
	return &system{
		redisURL: s.URL, weirs: 2,
		// One process sees only the old master.
		urls: []string{s.URL, "redis://" + s.Nodes[0].Addr},
		begin: func() {
			watched = watchReplica(t, s.Client(s.Nodes[1]), hourly())
			s.Network.BlackHole()
			began = time.Now()
			s.AwaitMaster(s.Nodes[1])
		},
		end: func() {
			await(t, "the old master to reject writes", func() bool {
				return strings.Contains(s.Client(s.Nodes[0]).Info(t.Context(), "replication").Val(), "min_slaves_good_slaves:0")
			})
			old = oldMaster(t, s.Client(s.Nodes[0]))
			// The new master needs a replica to accept writes: the old one.
			s.Must(s.Nodes[1], "CONFIG", "SET", "min-replicas-to-write", "0")
			s.Network.Heal()
			s.AwaitReplica(s.Nodes[0])
		},
		retired: 1,
		lost: func(records []record) units {
			last := lastAdmission(records, 1, began)
			t.Logf("the old master admitted for %v", last.Round(time.Millisecond))
			NewWithT(t).Expect(last).To(And(BeNumerically(">", 0), BeNumerically("<=", maxLag+lagSlack)), "the old master stops")
			return unreplicated(old, watched.atPromotion(t))
		},
	}
}

// killedClusterMaster kills the master of some counters. The others lose nothing.
func killedClusterMaster(t *testing.T) *system {
	t.Helper()
	c := testenv.StartRedisCluster(t)
	master := c.Owner("key-0")
	replicaNode := c.AddReplica(master)
	owned := slices.DeleteFunc(hourly(), func(k counter) bool { return c.Owner(k.key) != master })
	var watched *replica
	var died time.Time
	return &system{
		redisURL: c.URL,
		begin: func() {
			watched = watchReplica(t, c.Client(replicaNode), owned)
			master.Stop()
			died = time.Now()
		},
		end: func() { c.AwaitPromotion(replicaNode) },
		lost: func(records []record) units {
			return unreplicated(admittedUntil(records, died, owned), watched.atPromotion(t))
		},
	}
}

func TestFaultsOfReplicatedRedis(t *testing.T) {
	runEach(t, failoverFaults)
}
