// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// maxPending bounds the started blocks that wait to be written to the lists. Further ones are dropped.
const maxPending = 10_000

// pendingBlock is a block that is not in the lists yet.
type pendingBlock struct {
	key store.Key
	end time.Time
}

// addPending remembers the started block until the next round. The caller holds the lock.
func (c *Collector) addPending(e *event) {
	if c.pendings >= maxPending {
		c.drops.buffer.Add(1)
		return
	}
	c.pending[e.policy] = append(c.pending[e.policy], pendingBlock{key: store.Key(e.text()), end: e.end})
	c.pendings++
}

// takePending returns the started blocks that are not in the lists yet, by policy.
func (c *Collector) takePending() map[string][]pendingBlock {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.pending
	c.pending, c.pendings = map[string][]pendingBlock{}, 0
	return taken
}

// writeBlocks adds the started blocks to the lists. Those that cannot be written are dropped.
func (c *Collector) writeBlocks(ctx context.Context) error {
	var failure error
	for policy, blocks := range c.takePending() {
		if failure == nil {
			failure = c.listBlocks(ctx, policy, blocks)
		}
		if failure != nil {
			c.drops.redis.Add(int64(len(blocks)))
		}
	}
	return failure
}

func (c *Collector) listBlocks(ctx context.Context, policy string, blocks []pendingBlock) error {
	now := c.o.Now()
	listed := make([]store.Block, 0, len(blocks))
	for _, b := range blocks {
		if left := b.end.Sub(now); left > 0 {
			listed = append(listed, store.Block{Key: b.key, Left: left})
		}
	}
	return c.o.Blocks.AddBlocks(ctx, policy, listed)
}

// AddBlock adds a block to the list of the policy at once.
func (c *Collector) AddBlock(ctx context.Context, policy string, key store.Key, left time.Duration) error {
	return c.o.Blocks.AddBlocks(ctx, policy, []store.Block{{Key: key, Left: left}})
}

// RemoveBlock removes a lifted block from the list of the policy.
func (c *Collector) RemoveBlock(ctx context.Context, policy string, key store.Key) error {
	return c.o.Blocks.RemoveBlock(ctx, policy, key)
}

// BlockedKeys returns up to most live blocks in the list of the policy.
func (c *Collector) BlockedKeys(ctx context.Context, policy string, most int) ([]store.Block, error) {
	live, _, err := c.o.Blocks.Blocks(ctx, policy, most)
	return live, err
}

// HaveBlocks returns the policies whose lists are not empty.
func (c *Collector) HaveBlocks(ctx context.Context, policies []string) ([]string, error) {
	counts, err := c.o.Blocks.CountBlocks(ctx, policies)
	if err != nil {
		return nil, err
	}
	var found []string
	for i, n := range counts {
		if n > 0 {
			found = append(found, policies[i])
		}
	}
	return found, nil
}

// Blocks returns up to most live blocks of the policies, those that end last first.
func (c *Collector) Blocks(ctx context.Context, policies []string, most int) (*limiter.BlockList, error) {
	policies, err := c.HaveBlocks(ctx, policies)
	if err != nil {
		return nil, err
	}
	list := &limiter.BlockList{}
	for _, policy := range policies {
		live, more, err := c.o.Blocks.Blocks(ctx, policy, most)
		if err != nil {
			return nil, err
		}
		list.Truncated = list.Truncated || more
		for _, b := range live {
			list.Blocks = append(list.Blocks, limiter.BlockedKey{
				Policy: policy, Key: listedKey(b.Key), By: b.By, Left: b.Left,
			})
		}
		truncate(list, most)
	}
	return list, nil
}

// truncate keeps the blocks that end last, up to most, so that the list of many policies stays small.
func truncate(list *limiter.BlockList, most int) {
	slices.SortStableFunc(list.Blocks, func(a, b limiter.BlockedKey) int { return cmp.Compare(b.Left, a.Left) })
	if len(list.Blocks) > most {
		clear(list.Blocks[most:])
		list.Blocks, list.Truncated = list.Blocks[:most], true
	}
}

// listedKey returns the key as in lists.
func listedKey(key store.Key) limiter.ListedKey {
	return limiter.ListedKey{Parts: key.Parts(), Hash: key.Hash()}
}

// Resolve returns the key of the policy that is listed with the hash: blocked, or denied often on any
// replica.
func (c *Collector) Resolve(ctx context.Context, policy, hash string) (store.Key, error) {
	if key := c.resolveDenied(policy, hash); key != "" {
		return key, nil
	}
	if key, err := c.o.Blocks.FindBlock(ctx, policy, hash); key != "" || err != nil {
		return key, err
	}
	return c.resolveShared(ctx, policy, hash)
}

// resolveDenied finds the hash among the keys that were denied on this replica.
func (c *Collector) resolveDenied(policy, hash string) store.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.summaries.policies[policy]
	if p == nil {
		return ""
	}
	for i := range p {
		for j := range p[i].keys {
			if k := &p[i].keys[j]; !k.cut() && k.key.Hash() == hash {
				return k.key
			}
		}
	}
	return ""
}

// resolveShared finds the hash among the keys that other replicas share, or that ended ones left.
func (c *Collector) resolveShared(ctx context.Context, policy, hash string) (store.Key, error) {
	if c.exchange == nil {
		return "", nil
	}
	left := c.left(ctx)
	parts, err := c.awaitParts(ctx, limiter.Scope{Policy: policy}, left)
	if err != nil {
		return "", err
	}
	for _, part := range slices.Concat(parts, left) {
		for i := range part.Policies {
			for _, k := range part.Policies[i].Keys {
				if part.Policies[i].Policy == policy && k.Length == len(k.Key) && store.Key(k.Key).Hash() == hash {
					return store.Key(k.Key), nil
				}
			}
		}
	}
	return "", nil
}
