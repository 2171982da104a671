// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package denialcache

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
)

// While Redis does not answer, the callers that it denied stay denied.
func TestCachedDenialsHoldWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	c := newCached(t)
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1)})
	c.deny(storetest.SpendOne(policy, "a"), true)
	c.server.Stop()
	for range 3 {
		g.Expect(c.evaluate(storetest.SpendOne(policy, "a")).FromCache).To(BeTrue())
		c.clock.Advance(minRecheckAge)
	}
	peek := storetest.SpendOne(policy, "a")
	peek.Entries[0].Peek = true
	g.Expect(c.evaluate(peek).Entries[0].Verdict).To(Equal(store.Denied), "a peek reports it, too")
	for _, uncached := range []*store.Call{storetest.SpendOne(policy, "a"), storetest.PeekOf(storetest.SpendOne(policy, "a"))} {
		uncached.Uncached = true
		_, err := c.Evaluate(t.Context(), uncached)
		g.Expect(err).To(HaveOccurred(), "unless the call must not be answered from memory")
	}
	for _, other := range []*store.Call{storetest.SpendOne(policy, "b"), storetest.PeekOf(storetest.SpendOne(policy, "b"))} {
		_, err := c.Evaluate(t.Context(), other)
		g.Expect(err).To(HaveOccurred(), "other callers are not decided")
	}
}

// While Redis does not answer, a block denies checks of any cost until it ends.
func TestCachedBlocksHoldForEveryCost(t *testing.T) {
	g := NewWithT(t)
	c := newCached(t)
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.Blocking(storetest.SlowLimit(store.SlidingLog, 5))})
	spend := func(cost int64) (*store.Reply, error) {
		return c.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: cost}}})
	}
	blocked, err := spend(6)
	g.Expect(err).NotTo(HaveOccurred())
	c.server.Stop()
	for _, cost := range []int64{1, 3, 6, 9} {
		reply, err := spend(cost)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(reply.FromCache).To(BeTrue())
		g.Expect(reply.Entries[0].Verdict).To(Equal(store.Blocked))
	}
	c.clock.Advance(blocked.Entries[0].BlockLeft)
	_, err = spend(1)
	g.Expect(err).To(HaveOccurred(), "after the block")
}

// While Redis does not answer, what denied one chain denies every chain with the same policy and key:
// a block at any cost, a limit at the same cost.
func TestCachedDenialsHoldInEveryChain(t *testing.T) {
	c := newCached(t)
	wide := store.NewPolicy("test/wide", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1_000_000)})
	counts := store.NewPolicy("test/counts", true, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1_000_000)})
	other := store.NewPolicy("test/other", false, false, []store.Limit{storetest.SlowLimit(store.GCRA, 100)})
	limit := store.NewPolicy("test/limit", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1)})
	block := store.NewPolicy("test/block", false, false, []store.Limit{storetest.Blocking(storetest.SlowLimit(store.FixedWindow, 1))})
	shadow := store.NewPolicy("test/shadow", false, true, []store.Limit{storetest.Blocking(storetest.SlowLimit(store.FixedWindow, 1))})
	chain := func(cost int64, policies ...*store.Policy) *store.Call {
		call := &store.Call{}
		for _, p := range policies {
			call.Entries = append(call.Entries, store.Entry{Policy: p, Key: "a", Cost: cost})
		}
		return call
	}
	for range 3 {
		for _, policy := range []*store.Policy{limit, block, shadow} {
			c.evaluate(chain(1, wide, policy))
			c.evaluate(chain(1, counts, policy))
		}
	}
	c.server.Stop()
	for name, tc := range map[string]struct {
		call    *store.Call
		verdict store.Verdict // of the first entry
	}{
		"a limit":                   {chain(1, limit, other), store.Denied},
		"a limit, alone":            {chain(1, limit), store.Denied},
		"a block":                   {chain(1, block, other, wide), store.Blocked},
		"a block, at another cost":  {chain(50, block, other), store.Blocked},
		"a block, seen by a peek":   {storetest.PeekOf(chain(1, block, other)), store.Blocked},
		"a block, beside a limit":   {chain(1, block, limit, other), store.Blocked},
		"a block, beside one shown": {chain(1, block, shadow), store.Blocked},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c.t = t
			reply := c.evaluate(tc.call)
			g.Expect(reply.FromCache).To(BeTrue())
			g.Expect(reply.Entries[0].Verdict).To(Equal(tc.verdict))
			for i, e := range tc.call.Entries {
				isKnown := e.Policy == limit || e.Policy == block
				g.Expect(reply.Entries[i].Unknown).To(Equal(!isKnown))
			}
		})
	}
	c.drop("a") // a reset, or an unblock
	for _, call := range []*store.Call{chain(1, shadow, other), chain(1, wide, other), chain(1, block, other)} {
		_, err := c.Evaluate(t.Context(), call)
		NewWithT(t).Expect(err).To(HaveOccurred(), "nothing denies the call")
	}
}
