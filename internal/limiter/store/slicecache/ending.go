// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"context"
	"sync"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

const (
	// sweepInterval is how often slices are looked for that have ended. A hold outlives its slice by more.
	sweepInterval = 20 * time.Millisecond
	// closeTimeout bounds how long a replica that stops waits for its commits.
	closeTimeout = 2 * time.Second
)

// Start commits slices at their ends until ctx ends. It then commits all slices and takes none any more: the cache passes
// every call to the store.
func (c *Cache) Start(ctx context.Context) error {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			c.close()
			return nil
		case <-ticker.C:
			c.sweep()
		}
	}
}

func (c *Cache) close() {
	c.isClosed.Store(true)
	c.DropAll()
	select {
	case <-c.inFlight.idle():
	case <-time.After(c.closeTimeout):
	}
}

// inFlight counts the exchanges in the background. Unlike in a sync.WaitGroup, they may begin while another goroutine
// waits for the others.
type inFlight struct {
	mu      sync.Mutex
	number  int
	waiting []chan struct{}
}

// Go runs an exchange.
func (f *inFlight) Go(exchange func()) {
	f.begin()
	go func() {
		defer f.end()
		exchange()
	}()
}

func (f *inFlight) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number++
}

func (f *inFlight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.number--; f.number > 0 {
		return
	}
	for _, idle := range f.waiting {
		close(idle)
	}
	f.waiting = nil
}

// idle returns a channel that is closed as soon as no exchange runs.
func (f *inFlight) idle() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	idle := make(chan struct{})
	if f.number == 0 {
		close(idle)
	} else {
		f.waiting = append(f.waiting, idle)
	}
	return idle
}

// sweep commits the slices that have ended, and forgets keys that have none.
func (c *Cache) sweep() {
	now := c.now()
	c.keys.all(func(in *keyShard, k *hotKey) {
		s := k.current.Load()
		switch {
		case s != nil && now >= s.ends:
			c.endLater(k, s)
		case s == nil && int64(now) >= k.pausedUntil.Load() && k.isIdle():
			c.keys.remove(in, k)
		}
	})
}

// isIdle reports whether the key has no slice, and takes none any more. An exchange may just have ended: then the key has a
// slice.
func (k *hotKey) isIdle() bool {
	if !k.isTaking.CompareAndSwap(false, true) {
		return false
	}
	if k.current.Load() == nil {
		return true
	}
	k.isTaking.Store(false)
	return false
}

// endLater ends the slice at once, and commits it in the background.
func (c *Cache) endLater(k *hotKey, s *slice) {
	k.current.CompareAndSwap(s, nil)
	if spent, first := s.seal(); first {
		c.commit(s, spent)
	}
}

// evict ends the slice of a key that is forgotten.
func (c *Cache) evict(k *hotKey) {
	if s := k.current.Load(); s != nil {
		c.endLater(k, s)
	}
}

// drop ends the slice of the key, and the one that is being taken.
func (c *Cache) drop(k *hotKey) {
	k.drops.Add(1)
	c.evict(k)
}

// Drop ends the slices of the key in all policies, after its state was changed by an operator.
func (c *Cache) Drop(key store.Key) {
	c.keys.shard(key).all(func(_ *keyShard, k *hotKey) {
		if k.id.key == key {
			c.drop(k)
		}
	})
}

// DropAll ends all slices.
func (c *Cache) DropAll() {
	c.keys.all(func(_ *keyShard, k *hotKey) { c.drop(k) })
}

// Retain ends the slices of all policies but the current ones: an edit begins with what the slices have not spent.
func (c *Cache) Retain(isCurrent func(*store.Policy) bool) {
	c.keys.all(func(_ *keyShard, k *hotKey) {
		if s := k.current.Load(); s != nil && !isCurrent(s.policy) {
			c.endLater(k, s)
		}
	})
}
