// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// AddMaster adds a master without slots, and waits until all nodes know it. It stays a master when its last slot moves away. The
// nodes of the cluster then include it.
func (c *RedisCluster) AddMaster() *Redis {
	c.tb.Helper()
	first := c.Nodes[0]
	master := &Redis{tb: c.tb, program: redisServer, args: append(slices.Clip(first.args), "--cluster-allow-replica-migration", "no")}
	c.join(master, first)
	c.AwaitOK()
	return master
}

// join starts the node and introduces it to another one.
func (c *RedisCluster) join(node, other *Redis) {
	c.tb.Helper()
	c.launch(node)
	c.must(node, "CLUSTER", "MEET", hostOf(other.Addr), portOf(other.Addr), portOf(other.bus))
}

// AddReplica adds a replica of the master, which takes its place when it fails, and waits until it
// has all data. The nodes of the cluster then include it.
func (c *RedisCluster) AddReplica(master *Redis) *Redis {
	c.tb.Helper()
	replica := &Redis{tb: c.tb, program: redisServer, args: append(slices.Clip(master.args),
		"--repl-diskless-sync-delay", "0", "--cluster-replica-validity-factor", "0")}
	c.join(replica, master)
	await(c.tb, "the master to be known", func() error {
		_, err := c.do(replica, "CLUSTER", "REPLICATE", c.id(master))
		return err
	})
	await(c.tb, "the replica", func() error {
		info, err := c.do(replica, "INFO", "replication")
		if err == nil && !strings.Contains(fmt.Sprint(info), "master_link_status:up") {
			err = errors.New("not in sync")
		}
		return err
	})
	c.AwaitOK()
	return replica
}

// AwaitPromotion waits until the replica is a master and the cluster serves all slots.
func (c *RedisCluster) AwaitPromotion(replica *Redis) {
	c.tb.Helper()
	await(c.tb, "the promotion", func() error {
		info, err := c.do(replica, "INFO", "replication")
		if err == nil && !strings.Contains(fmt.Sprint(info), "role:master") {
			err = errors.New("still a replica")
		}
		return err
	})
	await(c.tb, "the slots", func() error {
		info, err := c.do(replica, "CLUSTER", "INFO")
		if err == nil && !strings.Contains(fmt.Sprint(info), "cluster_state:ok") {
			err = errors.New("the cluster is down")
		}
		return err
	})
}
