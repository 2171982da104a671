// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// AddReplica adds a replica of the master, which takes its place when it fails, and waits until it
// has all data. The nodes of the cluster then include it.
func (c *RedisCluster) AddReplica(master *Redis) *Redis {
	c.tb.Helper()
	replica := &Redis{tb: c.tb, program: redisServer, args: append(slices.Clip(master.args),
		"--repl-diskless-sync-delay", "0", "--cluster-replica-validity-factor", "0")}
	replica.launch(true)
	c.clients[replica] = newNodeClient(c.tb, replica)
	c.ids[c.must(replica, "CLUSTER", "MYID").(string)] = replica
	c.Nodes = append(c.Nodes, replica)
	c.must(replica, "CLUSTER", "MEET", hostOf(master.Addr), portOf(master.Addr), portOf(master.bus))
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
