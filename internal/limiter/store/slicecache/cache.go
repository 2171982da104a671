// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// Options configure a Cache. Store is required.
type Options struct {
	Store store.Store
	// Keys is the largest number of keys that have slices at a time; 0 is DefaultKeys.
	Keys int
	// Exchanges is the largest number of takes a second, each with the commit of the former slice; 0 is
	// DefaultExchanges.
	Exchanges int
	// Now is the time since the machine started, which must advance while the machine is suspended; nil is the clock
	// of this machine. Tests replace it.
	Now func() time.Duration
	// Registerer registers the metrics; nil does not export them.
	Registerer prometheus.Registerer
}

// The defaults of Options.
const (
	DefaultKeys      = 10_000
	DefaultExchanges = 2000
)

// Cache is a store that decides checks from slices. Of a chain it decides either all entries or none.
//
//   - A check is decided from slices if every policy of it takes slices, and every key has one with room for the cost.
//   - Any other check goes to the store. The slices of its keys on this replica are committed first, so that
//     their units do not deny it.
//   - Peeks go to the store, as do commits, charges, checks that are denied already, and checks with a requested
//     limit.
//
// Without Start, slices that are not replaced are spent as a whole when their holds end.
type Cache struct {
	store store.Store
	// evaluate is Store.Evaluate for calls that outlive the checks that cause them.
	evaluate  func(*store.Call) (*store.Reply, error)
	now       func() time.Duration
	keys      keys
	demand    demand
	exchanges *rate.Limiter
	metrics   *metrics
	inFlight  inFlight
	commits   commits
	// closeTimeout is the constant, except in tests.
	closeTimeout time.Duration
	isClosed     atomic.Bool
}

// New returns a cache without slices in front of the store.
func New(o Options) *Cache {
	c := &Cache{store: o.Store, now: o.Now, demand: newDemand(), closeTimeout: closeTimeout}
	c.evaluate = func(call *store.Call) (*store.Reply, error) {
		return o.Store.Evaluate(context.Background(), call) //nolint:forbidigo // see above
	}
	if c.now == nil {
		c.now = sinceStart
	}
	exchanges := cmp.Or(o.Exchanges, DefaultExchanges)
	c.keys.init(cmp.Or(o.Keys, DefaultKeys))
	c.exchanges = rate.NewLimiter(rate.Limit(exchanges), exchanges)
	c.metrics = newMetrics(c, o.Registerer)
	return c
}

// Evaluate decides the call from slices or with the store. It returns what Store.Evaluate returns, with FromSlice
// set in a reply from slices.
func (c *Cache) Evaluate(ctx context.Context, call *store.Call) (*store.Reply, error) {
	some, all := sliced(call)
	if !some {
		return c.store.Evaluate(ctx, call)
	}
	if all {
		if reply := c.spend(call); reply != nil {
			return reply, nil
		}
	}
	if !all || !c.isTaking(call) { // else all keys may have slices in a moment
		c.returnSlices(ctx, call)
	}
	reply, err := c.store.Evaluate(ctx, call)
	if err == nil && !reply.Unanswered {
		c.metrics.countDenials(call, reply)
		if all {
			c.takeIfHot(call, reply)
		}
	}
	return reply, err
}

// sliced reports whether the call may spend from some keys with slices, and whether slices may decide all of it.
func sliced(call *store.Call) (some, all bool) {
	if call.Denied || !call.IsDeniable() {
		return false, false
	}
	all = len(call.Entries) <= mostEntries
	for i := range call.Entries {
		e := &call.Entries[i]
		takes := e.Policy.TakesSlices() && !e.Peek
		some = some || takes
		all = all && takes && e.Action == store.Check && e.Policy.Fallback() == nil
	}
	return some, all && some
}

// mostEntries is the largest number of entries that slices decide.
const mostEntries = 16

// spend decides the call from slices. It returns nil if it cannot, and has then spent nothing.
func (c *Cache) spend(call *store.Call) *store.Reply {
	var spent [mostEntries]struct {
		key   *hotKey
		slice *slice
		left  int64
	}
	n := 0
	for i := range call.Entries {
		e := &call.Entries[i]
		k := c.keys.find(e)
		if k == nil {
			break
		}
		s := k.current.Load()
		if !s.isFor(e) {
			break
		}
		left, ok := s.spend(e.Cost)
		if !ok {
			break
		}
		spent[i].key, spent[i].slice, spent[i].left = k, s, left
		n++
	}
	now := c.now() // after the units were taken, see the package
	isAdmitted := n == len(call.Entries)
	for i := range n {
		isAdmitted = isAdmitted && now < spent[i].slice.ends
	}
	if !isAdmitted {
		for i := range n {
			if cost := call.Entries[i].Cost; !spent[i].slice.giveBack(cost) {
				c.metrics.units.WithLabelValues(outcomeLost).Add(float64(cost))
			}
		}
		return nil
	}
	reply := call.NewReply()
	reply.FromSlice = true
	for i := range n {
		s := spent[i].slice
		s.reply(&reply.Entries[i], spent[i].left, now)
		if s.isDue(spent[i].left, now) {
			c.takeNext(spent[i].key, s, spent[i].left, now)
		}
	}
	return reply
}

// isTaking reports whether a slice of a key of the call is being taken.
func (c *Cache) isTaking(call *store.Call) bool {
	for i := range call.Entries {
		if k := c.keys.find(&call.Entries[i]); k != nil && k.isTaking.Load() {
			return true
		}
	}
	return false
}

// returnSlices commits the slices of the keys of a call that slices do not decide.
func (c *Cache) returnSlices(ctx context.Context, call *store.Call) {
	for i := range call.Entries {
		e := &call.Entries[i]
		if !e.Policy.TakesSlices() || e.Peek {
			continue
		}
		k := c.keys.find(e)
		if k == nil {
			continue
		}
		if s := k.current.Load(); s != nil && s.left.Load() > 0 {
			k.pause(s.policy, c.now())
			c.end(k, s, func(commit *store.Call) (*store.Reply, error) { return c.store.Evaluate(ctx, commit) })
		}
	}
}

// Reset is Store.Reset. Slices of the key on this replica end with it.
func (c *Cache) Reset(ctx context.Context, policy *store.Policy, key store.Key) (bool, error) {
	c.Drop(key)
	defer c.Drop(key)
	return c.store.Reset(ctx, policy, key)
}

// Block is Store.Block. Slices of the key on this replica end with it.
func (c *Cache) Block(ctx context.Context, policy *store.Policy, key store.Key, length time.Duration) error {
	c.Drop(key)
	defer c.Drop(key)
	return c.store.Block(ctx, policy, key, length)
}

// Unblock is Store.Unblock.
func (c *Cache) Unblock(ctx context.Context, policy *store.Policy, key store.Key) (bool, error) {
	return c.store.Unblock(ctx, policy, key)
}
