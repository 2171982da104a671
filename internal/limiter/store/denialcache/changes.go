// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package denialcache

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// ForwardChanges also reports the changes of other replicas to d. It must be called before Start.
func (c *Cache) ForwardChanges(d Dropper) { c.forwarded = append(c.forwarded, d) }

// Start drops the denials of keys that other replicas change, and renews old denials, until ctx ends. Without it, and
// while Redis is unreachable, such a denial is dropped when it asks Redis again, see Cache.
func (c *Cache) Start(ctx context.Context) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() { c.renewAll(ctx) })
	c.store.WatchChanges(ctx, func(key store.Key) {
		c.drop(key)
		for _, d := range c.forwarded {
			d.Drop(key)
		}
	}, func() {
		c.allChanges.Add(1)
		for _, d := range c.forwarded {
			d.DropAll()
		}
	})
	return nil
}

// drop drops the denials of the key. A reply to a call sent before is not cached.
func (c *Cache) drop(key store.Key) {
	c.changesOf(maphash.String(c.seed, string(key))).Add(1)
}

// announce drops the denials of the key in all replicas.
func (c *Cache) announce(ctx context.Context, key store.Key) {
	c.drop(key)
	c.store.AnnounceChange(ctx, key)
}

// Reset is Store.Reset for all replicas.
func (c *Cache) Reset(ctx context.Context, policy *store.Policy, key store.Key) (bool, error) {
	defer c.announce(ctx, key)
	return c.store.Reset(ctx, policy, key)
}

// Block is Store.Block for all replicas.
func (c *Cache) Block(ctx context.Context, policy *store.Policy, key store.Key, length time.Duration) error {
	defer c.announce(ctx, key)
	return c.store.Block(ctx, policy, key, length)
}

// Unblock is Store.Unblock for all replicas.
func (c *Cache) Unblock(ctx context.Context, policy *store.Policy, key store.Key) (bool, error) {
	defer c.announce(ctx, key)
	return c.store.Unblock(ctx, policy, key)
}
