// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package denialcache

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
)

// one is a policy that admits one call.
var one = store.NewPolicy("test/one", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1)})

// denyMany denies a number of keys, and lets their denials answer once.
func (c *cached) denyMany(keys int) {
	for i := range keys {
		c.deny(storetest.SpendOne(one, keyOf(i)), true)
	}
}

func keyOf(i int) store.Key { return store.Key(strconv.Itoa(i)) }

// asks returns how many of the keys ask Redis in a call.
func (c *cached) asks(keys int) (n int) {
	for i := range keys {
		if !c.evaluate(storetest.SpendOne(one, keyOf(i))).FromCache {
			n++
		}
	}
	return n
}

// No caller of a denial that answers at least every renewal waits for Redis.
func TestDenialsAreRenewed(t *testing.T) {
	g := NewWithT(t)
	c := newCached(t)
	const keys = 300
	c.denyMany(keys)
	c.rechecks.age.Store(&recheckAge{maxRecheckAge, c.now()}) // as if there were many
	renewed := map[time.Duration]int{}
	for age := renewPeriod; age <= maxRenewAge; age += renewPeriod {
		c.clock.Advance(renewPeriod)
		due := c.due(c.shards[:], c.now())
		renewed[age] = len(due)
		c.renew(t.Context(), due)
	}
	for age, n := range renewed {
		if age < minRenewAge {
			g.Expect(n).To(BeZero(), "at %v", age)
		}
		g.Expect(n).To(BeNumerically("<", keys/3), "at %v: spread over the time", age)
	}
	c.clock.Advance(maxRecheckAge - maxRenewAge)
	c.rechecks.age.Store(&recheckAge{maxRecheckAge, c.now()})
	g.Expect(c.asks(keys)).To(BeZero())
	c.clock.Advance(maxRecheckAge)
	g.Expect(c.asks(keys)).To(Equal(keys), "after maxRecheckAge without a renewal")
}

// A denial that no caller meets asks nothing.
func TestUnusedDenialsAreNotRenewed(t *testing.T) {
	g := NewWithT(t)
	c := newCached(t)
	c.denyMany(3)
	c.clock.Advance(maxRenewAge)
	first := c.due(c.shards[:], c.now())
	g.Expect(first).To(HaveLen(3))
	c.renew(t.Context(), first)
	c.clock.Advance(maxRenewAge)
	g.Expect(c.due(c.shards[:], c.now())).To(BeEmpty())
}

// A renewal drops the denial of a key that was reset, and spends nothing of its quota.
func TestRenewalsFindWhatWasLifted(t *testing.T) {
	g := NewWithT(t)
	c := newCached(t)
	c.denyMany(1)
	_, err := c.store.Reset(t.Context(), one, keyOf(0)) // the message is lost
	g.Expect(err).NotTo(HaveOccurred())
	c.clock.Advance(maxRenewAge)
	c.renew(t.Context(), c.due(c.shards[:], c.now()))
	reply := c.evaluate(storetest.SpendOne(one, keyOf(0)))
	g.Expect(reply.Entries[0].Verdict).To(Equal(store.Admitted))
	g.Expect(reply.Entries[0].Limits[0].Used).To(BeEquivalentTo(1))
}

// countingStore counts the calls that it forwards.
type countingStore struct {
	Store

	calls atomic.Int64
}

func (s *countingStore) Evaluate(ctx context.Context, call *store.Call) (*store.Reply, error) {
	s.calls.Add(1)
	return s.Store.Evaluate(ctx, call)
}

// Without Redis the first error ends the renewals, and the denials hold.
func TestRenewalsWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	c := newCached(t)
	const keys = 3 * maxRenewals
	c.denyMany(keys)
	c.server.Stop()
	c.clock.Advance(maxRenewAge)
	failing := &countingStore{Store: c.store}
	c.store = failing
	due := c.due(c.shards[:], c.now())
	g.Expect(due).To(HaveLen(keys))
	c.renew(t.Context(), due)
	g.Expect(failing.calls.Load()).To(BeNumerically("<", keys), "calls of %d", keys)
	g.Expect(c.due(c.shards[:], c.now())).To(HaveLen(keys), "all try again")
	g.Expect(c.asks(keys)).To(BeZero())
}

// Start renews until its context ends.
func TestStartRenews(t *testing.T) {
	g := NewWithT(t)
	c := newCached(t)
	c.denyMany(3)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- c.Start(ctx) }()
	g.Eventually(c.allChanges.Load).ShouldNot(BeZero(), "subscribed")
	c.denyMany(3)
	c.clock.Advance(maxRenewAge)
	g.Eventually(func() int { return len(c.due(c.shards[:], c.now())) }).Should(BeZero())
	stop()
	g.Eventually(stopped).Should(Receive(BeNil()))
}

// A check that has asked Redis meanwhile is newer than a renewal.
func TestRenewalsKeepNewerDenials(t *testing.T) {
	g := NewWithT(t)
	c := newCached(t)
	call := storetest.SpendOne(one, "a")
	c.deny(call, true)
	id, changes := c.identify(call)
	old := c.shard(id).denials[id]
	newer := c.newDenial(call, old.reply, changes, c.now())
	c.shard(id).update(id, newer, call)
	g.Expect(c.renewOne(t.Context(), id, old)).To(Succeed())
	g.Expect(c.shard(id).denials[id]).To(BeIdenticalTo(newer))
}
