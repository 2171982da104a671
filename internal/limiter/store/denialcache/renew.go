// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package denialcache

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/internal/limiter/store"
)

const (
	// A denial that has answered since it last asked Redis asks again at an age between minRenewAge and maxRenewAge,
	// which its key decides, so that denials of one moment do not ask at one moment. No caller waits for it.
	minRenewAge = 18 * time.Second
	maxRenewAge = 27 * time.Second
	// All shards are searched each renewPeriod, a part of them each renewPeriod/renewParts.
	renewPeriod = time.Second
	renewParts  = 8
	// maxRenewals is how many denials ask at once. The store sends them together.
	maxRenewals = 32
)

// renewAll keeps the denials that answer younger than maxRecheckAge until ctx ends.
func (c *Cache) renewAll(ctx context.Context) {
	ticker := time.NewTicker(renewPeriod / renewParts)
	defer ticker.Stop()
	const size = denialShards / renewParts
	for part := 0; ; part = (part + 1) % renewParts {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.renew(ctx, c.due(c.shards[part*size:(part+1)*size], c.now()))
		}
	}
}

// due returns the denials of the shards that must be renewed, by their place in the shard.
func (c *Cache) due(shards []denialShard, now time.Time) map[uint64]*denial {
	due := map[uint64]*denial{}
	for i := range shards {
		s := &shards[i]
		s.mu.Lock()
		for id, d := range s.denials {
			if d.answered && now.Sub(d.checked) >= renewAge(id) && now.Before(d.until) {
				due[id] = d
			}
		}
		s.mu.Unlock()
	}
	return due
}

// renewAge returns the age at which the denial at the place asks Redis again.
func renewAge(id uint64) time.Duration {
	const steps = 1 << 10
	return minRenewAge + (maxRenewAge-minRenewAge)*time.Duration(id/denialShards%steps)/steps
}

// renew asks Redis about the denials, and stops at the first error: the others ask later.
func (c *Cache) renew(ctx context.Context, denials map[uint64]*denial) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxRenewals)
	for id, d := range denials {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return c.renewOne(ctx, id, d) })
	}
	_ = group.Wait() // a caller notices that Redis does not answer
}

// renewOne asks by a peek: a check would spend for no caller.
func (c *Cache) renewOne(ctx context.Context, id uint64, d *denial) error {
	peek := peekOf(d.call)
	_, changes := c.identify(peek)
	sent := c.now()
	c.rechecks.spend(sent)
	reply, err := c.store.Evaluate(ctx, peek)
	if err != nil {
		return err
	}
	c.shard(id).replace(id, d, c.newDenial(d.call, reply, changes, sent))
	return nil
}

// peekOf returns a copy of the call that spends nothing.
func peekOf(call *store.Call) *store.Call {
	peek := call.Clone()
	for i := range peek.Entries {
		peek.Entries[i].Peek = true
	}
	return peek
}

// replace replaces the denial by the new one, which is nil if the call is not denied any more, unless a check has done
// so meanwhile.
func (s *denialShard) replace(id uint64, old, renewed *denial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.denials[id] != old:
	case renewed == nil:
		delete(s.denials, id)
	default:
		s.denials[id] = renewed
	}
}
