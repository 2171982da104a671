// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/store"
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

// unknown is the name of a node whose address is not known. In a cluster it is the node for all calls while the
// client does not know the slots.
const unknown = "unknown"

// nodeLife is how long a node without calls remains in the metrics. A node that has left the
// cluster gets none.
const nodeLife = 10 * time.Minute

// of returns the node that has the key.
func (c *clusterNodes) of(ctx context.Context, key store.Key) *node {
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
		n, failure := c.node(unknown), &store.Error{Cause: causeOf(ctx, err), Err: err}
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
// because a script may only use keys of one slot. A node that lacks a script rejects its calls, which resend
// decides.
func (c *clusterNodes) send(ctx context.Context, batch []*pending) []outcome {
	byKey := positionsByKey(batch)
	if len(byKey) == 1 {
		return c.store.send(ctx, batch)
	}
	outcomes := make([]outcome, len(batch))
	pipeline := c.client.Pipeline()
	replies := make([]*redis.Cmd, len(byKey))
	for i, positions := range byKey {
		replies[i] = pipeline.Do(ctx, c.store.decideCommand(callsAt(batch, positions)).args...)
	}
	_, _ = pipeline.Exec(ctx) // every command has its own error
	for i, positions := range byKey {
		values, err := replies[i].Slice()
		for j, o := range outcomesOf(ctx, callsAt(batch, positions), values, err) {
			outcomes[positions[j]] = o
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

// positionsByKey returns for each key the positions of its calls in the batch, in order of arrival.
func positionsByKey(batch []*pending) [][]int {
	var byKey [][]int
	places := make(map[store.Key]int, len(batch)) // of the keys in byKey
	for i, p := range batch {
		key := p.call.Entries[0].Key
		place, found := places[key]
		if !found {
			place = len(byKey)
			places[key] = place
			byKey = append(byKey, nil)
		}
		byKey[place] = append(byKey[place], i)
	}
	return byKey
}

func callsAt(batch []*pending, positions []int) []*pending {
	calls := make([]*pending, len(positions))
	for i, position := range positions {
		calls[i] = batch[position]
	}
	return calls
}
