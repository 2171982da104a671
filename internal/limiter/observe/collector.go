// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"hash/maphash"
	"log/slog"
	"math/bits"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/store"
)

const (
	// bufferedDenials and bufferedBlocks are the sizes of the buffers.
	bufferedDenials = 2048
	bufferedBlocks  = 1024
	// drainPeriod is the longest that a denial stays in the buffer.
	drainPeriod = 500 * time.Millisecond
	// sharePeriod is the time between two rounds of the calls of Redis: started blocks, and the part of
	// this replica.
	sharePeriod = time.Second
)

// BlockStore lists started blocks. redisstore.Store does in Redis, memory.Store in this process.
type BlockStore interface {
	AddBlocks(ctx context.Context, policy string, blocks []store.Block) error
	RemoveBlock(ctx context.Context, policy string, key store.Key) error
	CountBlocks(ctx context.Context, policies []string) ([]int, error)
	Blocks(ctx context.Context, policy string, most int) (live []store.Block, more bool, err error)
	FindBlock(ctx context.Context, policy, hash string) (store.Key, error)
}

// Options configure a Collector.
type Options struct {
	// Blocks lists the started blocks. Required.
	Blocks BlockStore
	// Redis shares the parts of the replicas; nil is a process without others. Prefix is the prefix of
	// every key.
	Redis  redis.UniversalClient
	Prefix string
	// Replica is the name of this replica.
	Replica string
	// Live returns the names of the live replicas as far as they are known, and their number. Nil is
	// this replica alone.
	Live func(context.Context) (names []string, count int)
	// Now is the clock. Nil is time.Now.
	Now func() time.Time
	// Logger is required.
	Logger *slog.Logger
	// Registerer receives the metric of what is dropped. Required.
	Registerer prometheus.Registerer
}

// Collector collects denials and started blocks. Deny and Block are called by decisions; Start does
// everything else. It is safe for concurrent use.
type Collector struct {
	o       Options
	seed    maphash.Seed
	hot     hot
	denials *buffer
	blocks  *buffer
	wake    chan struct{}
	drops   drops
	// each visits the counters of decisions; nil before Watch.
	each     func(visit func(policy string, n limiter.DecisionCounts))
	exchange *exchange // nil without Redis
	began    time.Time

	mu        sync.Mutex // guards the fields below; decisions never take it
	summaries *summaries
	rates     *rates
	pending   map[string][]pendingBlock // by policy; pendings is their number
	pendings  int

	failed bool // the last call of Redis failed; used by Start only
}

// New returns a Collector that is not started.
func New(o Options) *Collector {
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default of the injected clock
	}
	if o.Live == nil {
		o.Live = func(context.Context) ([]string, int) { return []string{o.Replica}, 1 }
	}
	c := &Collector{o: o, seed: maphash.MakeSeed(), wake: make(chan struct{}, 1), began: o.Now()}
	o.Registerer.MustRegister(&c.drops)
	c.denials, c.blocks = newBuffer(bufferedDenials, c.wake), newBuffer(bufferedBlocks, c.wake)
	c.summaries, c.rates = newSummaries(o.Now()), newRates()
	c.pending = map[string][]pendingBlock{}
	if o.Redis != nil {
		c.exchange = newExchange(o.Redis, o.Prefix, o.Replica)
	}
	return c
}

// Watch sets the function that visits the counters of decisions. It must be called before Start.
func (c *Collector) Watch(each func(visit func(policy string, n limiter.DecisionCounts))) {
	c.each = each
}

// Deny records a denial of the key by the policy. It does not keep the key.
func (c *Collector) Deny(policy string, key store.Key) {
	hash := c.hash(policy, key)
	if !c.hot.add(hash) && !c.denials.add(policy, key, hash, time.Time{}) {
		c.drops.buffer.Add(1)
	}
}

// Block records that a block of the key began, which ends at the time. It does not keep the key.
func (c *Collector) Block(policy string, key store.Key, end time.Time) {
	if !c.blocks.add(policy, key, 0, end) {
		c.drops.buffer.Add(1)
	}
}

// hash returns a hash of the policy and the key, with a random seed.
func (c *Collector) hash(policy string, key store.Key) uint64 {
	return maphash.String(c.seed, string(key)) ^ bits.RotateLeft64(maphash.String(c.seed, policy), 1)
}

// Start processes what was recorded, until ctx ends. It returns nil.
func (c *Collector) Start(ctx context.Context) error {
	drain, share := time.NewTicker(drainPeriod), time.NewTicker(sharePeriod)
	defer drain.Stop()
	defer share.Stop()
	c.sample() // so that the first sample has a beginning
	for {
		select {
		case <-ctx.Done():
			// Blocks that began last are listed in spite of the end.
			c.drain()
			c.share(context.WithoutCancel(ctx))
			c.leave(context.WithoutCancel(ctx))
			return nil
		case <-c.wake:
			c.takeAll()
		case <-drain.C:
			c.drain()
		case <-share.C:
			c.sample()
			c.share(ctx)
		}
	}
}

// sample samples the counters of decisions.
func (c *Collector) sample() {
	if c.each == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rates.sample(c.o.Now(), c.each)
}

// drain empties the buffers and the counters.
func (c *Collector) drain() {
	c.takeAll()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hot.flush(func(o *hotOwner, count int64) {
		c.count(o.policy, &keyText{text: []byte(o.key), length: o.length, hash: o.hash}, count)
	})
	c.summaries.rotate(c.o.Now())
}

// takeAll empties the buffers.
func (c *Collector) takeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.denials.take(c.countDenial) {
	}
	for c.blocks.take(c.addPending) {
	}
}

// countDenial counts the denial, and gives its key a counter of its own. The caller holds the lock.
func (c *Collector) countDenial(e *event) {
	text := e.text()
	kept := c.count(e.policy, &keyText{text: text, length: len(text), hash: e.hash}, 1)
	if kept != nil {
		c.hot.own(hotOwner{policy: e.policy, key: kept.key, length: kept.length, hash: e.hash})
	}
}

// count counts denials of the key. The caller holds the lock.
func (c *Collector) count(policy string, k *keyText, n int64) *counted {
	kept := c.summaries.add(policy, k, n)
	if kept == nil {
		c.drops.policies.Add(n)
	}
	return kept
}
