// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"testing"

	"github.com/weir-dev/weir/internal/testenv"
)

// replicated are the arguments of a master that rejects writes soon after it lost its replica.
var replicated = []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"}

// failoverFaults are the faults of Redis with replicas.
var failoverFaults = []fault{
	{name: "Sentinel: the master is killed, a replica promoted", degrades: true, incidents: 1, setup: func(t *testing.T) *system {
		t.Helper()
		s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{})
		return &system{redisURL: s.URL, begin: s.Nodes[0].Stop, end: func() { s.AwaitMaster(s.Nodes[1]) }}
	}},
	{name: "Sentinel: failover on command", incidents: 1, mayDegrade: true, setup: func(t *testing.T) *system {
		t.Helper()
		s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{})
		return &system{redisURL: s.URL, begin: s.Failover}
	}},
	{
		name:     "Sentinel: a partition with two masters, one `weir` process on each (`min-replicas-to-write 1`, `min-replicas-max-lag 1`)",
		degrades: true, incidents: 1, setup: func(t *testing.T) *system {
			t.Helper()
			s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{Args: replicated, Partitionable: true})
			return &system{
				redisURL: s.URL, weirs: 2,
				// One process sees only the old master.
				urls:  []string{s.URL, "redis://" + s.Nodes[0].Addr},
				begin: func() { s.Proxy.BlackHole(); s.AwaitMaster(s.Nodes[1]) },
				end: func() {
					// The new master needs a replica to accept writes: the old one.
					s.Must(s.Nodes[1], "CONFIG", "SET", "min-replicas-to-write", "0")
					s.Proxy.Heal()
					s.AwaitReplica(s.Nodes[0])
				},
				retired: 1,
			}
		},
	},
	{name: "Cluster: slots move between masters", setup: func(t *testing.T) *system {
		t.Helper()
		c := testenv.StartRedisCluster(t)
		slots := map[int]bool{}
		for i := range keys {
			slots[c.Slot(fmt.Sprintf("key-%d", i))] = true
		}
		return &system{redisURL: c.URL, begin: func() {
			for slot := range slots {
				for _, to := range []int{1, 2, 0} {
					c.Migrate(slot, c.Nodes[to])
				}
			}
		}}
	}},
	{name: "Cluster: a master is killed, its replica promoted", degrades: true, incidents: 1, setup: func(t *testing.T) *system {
		t.Helper()
		c := testenv.StartRedisCluster(t)
		master := c.Owner("key-0")
		replica := c.AddReplica(master)
		return &system{redisURL: c.URL, begin: master.Stop, end: func() { c.AwaitPromotion(replica) }}
	}},
}

func TestFaultsOfReplicatedRedis(t *testing.T) {
	for i := range failoverFaults {
		t.Run(failoverFaults[i].name, func(t *testing.T) { report(t, failoverFaults[i].run(t)) })
	}
}
