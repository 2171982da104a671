// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gatewayapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// defaultInterval is the time between two looks at which kinds the API server has.
	defaultInterval = 15 * time.Second
	// settleTime is how long changes are collected before the next Snapshot.
	settleTime = 500 * time.Millisecond
)

// Options configure a Cache.
type Options struct {
	// Config locates the API server. HTTPClient is the one of the watches; nil is a new one.
	Config     *rest.Config
	HTTPClient *http.Client
	// Namespaces are those that are read; none for all.
	Namespaces []string
	// Services are the Services of Weir.
	Services []types.NamespacedName
	// Interval is the time between two looks at which kinds the API server has. Zero is 15 s.
	Interval time.Duration
	// Logger is required.
	Logger *slog.Logger
}

// Cache has the objects of the API server, from the first call of Want on. It is safe for concurrent use.
type Cache struct {
	o       Options
	wanted  chan struct{}
	want    sync.Once
	dirty   chan struct{} // an object or a kind has changed
	changed chan struct{} // see Changed

	mu       sync.Mutex
	kinds    map[kind]*informer
	snapshot *Snapshot
}

// New returns a Cache that is not started.
func New(o Options) *Cache {
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	c := &Cache{
		o: o, wanted: make(chan struct{}), dirty: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		kinds: map[kind]*informer{}, snapshot: &Snapshot{},
	}
	for _, k := range allKinds {
		c.kinds[k] = &informer{kind: k, objects: map[types.NamespacedName]client.Object{}}
	}
	return c
}

// Want makes Start read the objects. Only the first call has an effect.
func (c *Cache) Want() { c.want.Do(func() { close(c.wanted) }) }

// Changed receives a value, coalesced, after Snapshot may have changed.
func (c *Cache) Changed() <-chan struct{} { return c.changed }

// Snapshot returns all objects. Before Want, and until the objects are read, its kinds are pending.
func (c *Cache) Snapshot() *Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.snapshot
}

// Start waits for Want, then reads the objects until ctx ends.
func (c *Cache) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.wanted:
	}
	scheme := newScheme()
	objects, err := c.newCache(scheme)
	if err != nil {
		return err
	}
	reader, err := client.New(c.o.Config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { _ = objects.Start(ctx) })
	look := time.NewTicker(c.o.Interval)
	defer look.Stop()
	for {
		for _, k := range allKinds {
			c.look(ctx, k, objects, reader)
		}
		if !c.follow(ctx, look.C) {
			return nil
		}
	}
}

// follow replaces the snapshot after changes, until the next look. It returns false if ctx ends.
func (c *Cache) follow(ctx context.Context, look <-chan time.Time) bool {
	dirty := c.dirty
	var settled <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case <-dirty:
			dirty = nil // collect the others until settled
			settled = time.After(settleTime)
		case <-settled:
			dirty = c.dirty
			c.replace()
		case <-look:
			if dirty == nil {
				c.replace()
			}
			return true
		}
	}
}

// newCache returns the cache of controller-runtime, without informers.
func (c *Cache) newCache(scheme *runtime.Scheme) (cache.Cache, error) {
	o := cache.Options{
		Scheme: scheme, HTTPClient: c.o.HTTPClient, DefaultTransform: strip, ReaderFailOnMissingInformer: true,
	}
	if len(c.o.Namespaces) > 0 {
		o.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range c.o.Namespaces {
			o.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return cache.New(c.o.Config, o)
}

// replace builds the next Snapshot.
func (c *Cache) replace() {
	next := newSnapshot(c.o.Services)
	c.mu.Lock()
	for k, i := range c.kinds {
		next.kinds[k] = i.availability()
		for _, object := range i.objects {
			next.add(object)
		}
	}
	c.mu.Unlock()
	next.index()
	c.mu.Lock()
	c.snapshot = next
	c.mu.Unlock()
	notify(c.changed)
}

// notify sends to a channel of capacity one unless it is full.
func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
