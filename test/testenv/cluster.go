// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	clusterNodes = 3
	clusterSlots = 16384

	// nodeTimeout is how long a node may be silent before the others mark it failed. A
	// shorter one would report outages on a busy machine.
	nodeTimeout = 3 * time.Second

	// commandTimeout bounds a command of the test environment itself.
	commandTimeout = 30 * time.Second
)

// RedisCluster is a Redis Cluster for one test: masters that share all slots, three unless
// the test chooses another number, without replicas and persistence. As by default, it rejects commands while a slot has
// no live owner.
type RedisCluster struct {
	// Nodes are the masters. Each starts with an equal share of the slots, in this order.
	Nodes []*Redis

	// URL is the redis-cluster:// URL that names all nodes.
	URL string

	tb      testing.TB
	clients map[*Redis]*redis.Client
	ids     map[string]*Redis
}

// StartRedisCluster starts a cluster, waits until every node serves, and stops it
// when the test ends. The arguments go to every node.
func StartRedisCluster(tb testing.TB, args ...string) *RedisCluster {
	tb.Helper()
	return StartRedisClusterOf(tb, clusterNodes, args...)
}

// StartRedisClusterOf is StartRedisCluster with a number of masters.
func StartRedisClusterOf(tb testing.TB, masters int, args ...string) *RedisCluster {
	tb.Helper()
	c := &RedisCluster{tb: tb, clients: map[*Redis]*redis.Client{}, ids: map[string]*Redis{}}
	clock, env := newClock(tb)
	clock.Set(time.Now().Add(-time.Hour))
	args = append([]string{"--cluster-node-timeout", strconv.FormatInt(nodeTimeout.Milliseconds(), 10)}, args...)
	for i := range masters {
		node := &Redis{tb: tb, program: redisServer, args: args, env: env}
		c.launch(node)
		c.must(node, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		c.must(node, "CLUSTER", "ADDSLOTSRANGE", clusterSlots*i/masters, clusterSlots*(i+1)/masters-1)
	}
	// A node rejects writes for two seconds after it first checked the cluster, which it
	// did when it got its slots. Its clock stood still until here.
	clock.SetMicros(0)
	c.meet()
	c.AwaitOK()
	c.URL = clusterURL(c.Nodes)
	return c
}

// launch starts the node and adds it to the nodes of the cluster. The others do not know it yet.
func (c *RedisCluster) launch(node *Redis) {
	c.tb.Helper()
	node.launch(true)
	c.Nodes = append(c.Nodes, node)
	c.clients[node] = newNodeClient(c.tb, node)
	c.ids[c.must(node, "CLUSTER", "MYID").(string)] = node
}

func clusterURL(nodes []*Redis) string {
	query := url.Values{}
	for _, node := range nodes[1:] {
		query.Add("addr", node.Addr)
	}
	return (&url.URL{Scheme: "redis-cluster", Host: nodes[0].Addr, RawQuery: query.Encode()}).String()
}

// newNodeClient returns a client of one node that follows no redirections.
func newNodeClient(tb testing.TB, node *Redis) *redis.Client {
	tb.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: node.Addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: commandTimeout,
		ReadTimeout: commandTimeout, ContextTimeoutEnabled: true, Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// meet introduces every node to every other, since gossip alone takes a second.
func (c *RedisCluster) meet() {
	c.tb.Helper()
	for i, node := range c.Nodes {
		for _, other := range c.Nodes[i+1:] {
			c.must(node, "CLUSTER", "MEET", hostOf(other.Addr), portOf(other.Addr), portOf(other.bus))
		}
	}
}

// Client returns a client of one node that follows no redirections.
func (c *RedisCluster) Client(node *Redis) *redis.Client {
	return c.clients[node]
}

// AwaitOK waits until every node sees all others and all slots are served: after the
// start, or some seconds after a node was restarted.
func (c *RedisCluster) AwaitOK() {
	c.tb.Helper()
	await(c.tb, "the cluster", func() error {
		for _, node := range c.Nodes {
			info, err := c.do(node, "CLUSTER", "INFO")
			if err != nil {
				return err
			}
			for _, line := range []string{
				"cluster_state:ok",
				fmt.Sprintf("cluster_slots_ok:%d", clusterSlots),
				fmt.Sprintf("cluster_known_nodes:%d", len(c.Nodes)),
			} {
				if !slices.Contains(strings.Fields(fmt.Sprint(info)), line) {
					return fmt.Errorf("%s does not report %s but\n%v", node.Addr, line, info)
				}
			}
		}
		return nil
	})
}

// Slot returns the slot of the key.
func (c *RedisCluster) Slot(key string) int {
	c.tb.Helper()
	return int(c.must(c.running(), "CLUSTER", "KEYSLOT", key).(int64))
}

// Owner returns the node that owns the slot of the key. During a migration that is still
// the source.
func (c *RedisCluster) Owner(key string) *Redis {
	c.tb.Helper()
	owner, err := c.ownerOf(c.running(), c.Slot(key))
	if err != nil {
		c.tb.Fatal(err)
	}
	return owner
}

// KeyOn returns a key in a slot of the node. Different names give different keys in
// different slots.
func (c *RedisCluster) KeyOn(node *Redis, name string) string {
	c.tb.Helper()
	for i := range clusterSlots {
		if key := fmt.Sprintf("%s-%d", name, i); c.Owner(key) == node {
			return key
		}
	}
	c.tb.Fatalf("no key on %s among %d", node.Addr, clusterSlots)
	return ""
}

// ownerOf returns the owner of a slot according to one node.
func (c *RedisCluster) ownerOf(node *Redis, slot int) (*Redis, error) {
	ctx, cancel := context.WithTimeout(c.tb.Context(), commandTimeout)
	defer cancel()
	shards, err := c.clients[node].ClusterShards(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("shards of %s: %w", node.Addr, err)
	}
	for _, shard := range shards {
		for _, slots := range shard.Slots {
			if slots.Start <= int64(slot) && int64(slot) <= slots.End {
				return c.ids[shard.Nodes[0].ID], nil // the shard has only a master
			}
		}
	}
	return nil, fmt.Errorf("%s knows no owner of slot %d", node.Addr, slot)
}

// running returns any running node.
func (c *RedisCluster) running() *Redis {
	c.tb.Helper()
	i := slices.IndexFunc(c.Nodes, func(node *Redis) bool { return node.Pid() != 0 })
	if i < 0 {
		c.tb.Fatal("no node of the cluster runs")
	}
	return c.Nodes[i]
}

// id returns the ID of the node in the cluster.
func (c *RedisCluster) id(node *Redis) string {
	for id, other := range c.ids {
		if other == node {
			return id
		}
	}
	return ""
}

// do sends a command to the node.
func (c *RedisCluster) do(node *Redis, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(c.tb.Context(), commandTimeout)
	defer cancel()
	reply, err := c.clients[node].Do(ctx, args...).Result()
	if err != nil {
		return nil, fmt.Errorf("%v on %s: %w", args, node.Addr, err)
	}
	return reply, nil
}

// must is do that fails the test on an error.
func (c *RedisCluster) must(node *Redis, args ...any) any {
	c.tb.Helper()
	reply, err := c.do(node, args...)
	if err != nil {
		c.tb.Fatal(err)
	}
	return reply
}
