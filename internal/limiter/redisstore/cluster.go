// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// clusterNodes are the nodes of a Redis Cluster. A node keeps its queue and its breaker while
// calls are sent to it.
type clusterNodes struct {
	store  *Store
	client *redis.ClusterClient
	loaded atomic.Bool // the client knows the slots
	nodes  sync.Map    // address -> *node
}

func newClusterNodes(s *Store, client *redis.ClusterClient) *clusterNodes {
	return &clusterNodes{store: s, client: client}
}

// unknown is the address of the node for all calls while the client does not know the slots.
const unknown = "unknown"

// nodeLife is how long a node without calls remains in the metrics. A node that has left the
// cluster gets none.
const nodeLife = 10 * time.Minute

// of returns the node that has the key.
func (c *clusterNodes) of(ctx context.Context, key quota.Key) *node {
	if !c.loaded.Load() {
		if n := c.node(unknown); n.isDown() {
			return n // without waiting for the slots
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), c.store.timeout)
		defer cancel()
	}
	master, err := c.client.MasterForKey(ctx, c.store.key(key, ""))
	if err != nil {
		n, failure := c.node(unknown), &quota.StoreError{Cause: causeOf(ctx, err), Err: err}
		n.metrics.fail(failure)
		n.record(failure, key) //nolint:contextcheck // no caller waits for a probe
		return n
	}
	c.loaded.Store(true)
	return c.node(master.Options().Addr)
}

func (c *clusterNodes) node(address string) *node {
	if n, ok := c.nodes.Load(address); ok {
		return n.(*node) //nolint:forcetypeassert // only nodes are stored
	}
	n, _ := c.nodes.LoadOrStore(address, c.store.newNode(address, c.send, c.resend))
	return n.(*node) //nolint:forcetypeassert // only nodes are stored
}

// recent returns the nodes by address, and forgets those that had no calls for nodeLife.
func (c *clusterNodes) recent() map[string]*node {
	since := time.Now().Add(-nodeLife) //nolint:forbidigo // the age of calls
	recent := map[string]*node{}
	for key, value := range c.nodes.Range {
		address, n := key.(string), value.(*node) //nolint:forcetypeassert // only these are stored
		if n.isUnusedSince(since) {
			c.nodes.Delete(address)
			c.store.metrics.forget(address)
			continue
		}
		recent[address] = n
	}
	return recent
}

// send decides the calls of a batch in one round trip: one EVALSHA for the calls of each key,
// because a script may only use keys of one slot.
func (c *clusterNodes) send(ctx context.Context, batch []*pending) []outcome {
	groups := groupByKey(batch)
	if len(groups) == 1 {
		return c.store.send(ctx, batch)
	}
	outcomes := make([]outcome, len(batch))
	pipeline := c.client.Pipeline()
	replies := make([]*redis.Cmd, len(groups))
	for i, group := range groups {
		replies[i] = pipeline.Do(ctx, c.store.decideCommand(callsAt(batch, group)).args...)
	}
	_, _ = pipeline.Exec(ctx) // every command has its own error
	for i, group := range groups {
		values, err := replies[i].Slice()
		for j, o := range outcomesOf(ctx, callsAt(batch, group), values, err) {
			outcomes[group[j]] = o
		}
	}
	return outcomes
}

// resend decides each call by a command of its own, so that the client can look for the node that
// has the key by now.
func (c *clusterNodes) resend(ctx context.Context, batch []*pending) []outcome {
	outcomes := make([]outcome, len(batch))
	var wait sync.WaitGroup
	for i := range batch {
		wait.Go(func() { outcomes[i] = c.store.send(ctx, batch[i:i+1])[0] })
	}
	wait.Wait()
	return outcomes
}

// groupByKey returns the positions of the calls with the same key, in order of arrival.
func groupByKey(batch []*pending) [][]int {
	var groups [][]int
	first := make(map[quota.Key]int, len(batch))
	for i, p := range batch {
		key := p.call.Entries[0].Key
		group, found := first[key]
		if !found {
			group = len(groups)
			first[key] = group
			groups = append(groups, nil)
		}
		groups[group] = append(groups[group], i)
	}
	return groups
}

func callsAt(batch []*pending, positions []int) []*pending {
	group := make([]*pending, len(positions))
	for i, position := range positions {
		group[i] = batch[position]
	}
	return group
}
