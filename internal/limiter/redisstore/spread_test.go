// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/quota"
	"github.com/weir-dev/weir/internal/limiter/storetest"
)

// A dry run of all keys and then a charge give the same replies as one step, without
// concurrent calls: with edits, overrides, blocks, and a clock that is set back.
func TestSpreadAgreesWithModel(t *testing.T) {
	model := newModelBackend()
	spread, _ := newServerBackend(t, servers[0])
	spread.decider.(*Store).spreads = true //nolint:forcetypeassert // it is one
	choices := [][]quota.Algorithm{allAlgorithms}
	for _, a := range allAlgorithms {
		choices = append(choices, []quota.Algorithm{a})
	}
	for _, choice := range choices {
		t.Run(fmt.Sprint(choice), func(t *testing.T) {
			for seed := range uint64(8) {
				compareBackends(t, 1000+seed, 200, choice, model, spread)
			}
		})
	}
}

// refundTest spends from one policy and refunds single calls.
type refundTest struct {
	*backend
	store  *Store
	policy *quota.Policy
}

func newRefundTest(t *testing.T, a quota.Algorithm) *refundTest {
	t.Helper()
	b, _ := newServerBackend(t, servers[0])
	l := storetest.SlowLimit(a, 100)
	if refills(a) {
		l.Threshold, l.Window = 100, time.Second
	}
	return &refundTest{
		backend: b,
		store:   b.decider.(*Store), //nolint:forcetypeassert // it is one
		policy:  quota.NewPolicy("test/refund", false, false, []quota.Limit{l}),
	}
}

func refills(a quota.Algorithm) bool { return a == quota.TokenBucket || a == quota.GCRA }

func (r *refundTest) spend(t *testing.T, cost int64) *group {
	t.Helper()
	g := &group{call: quota.Call{Entries: []quota.Entry{{Policy: r.policy, Key: "a", Cost: cost}}}}
	var err error
	if g.decided, err = r.store.evaluate(t.Context(), &g.call, mode{receipts: true}, time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return g
}

func (r *refundTest) refund(t *testing.T, g *group) {
	t.Helper()
	if _, err := r.store.run(t.Context(), r.store.refundCommand(g)); err != nil {
		t.Fatal(err)
	}
}

func (r *refundTest) used(t *testing.T) int64 {
	t.Helper()
	peek := &quota.Call{Entries: []quota.Entry{{Policy: r.policy, Key: "a", Peek: true}}}
	return r.evaluate(t, peek).Entries[0].Limits[0].Used
}

func TestRefundReturnsTheCost(t *testing.T) {
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			r := newRefundTest(t, a)
			r.spend(t, 20)
			r.refund(t, r.spend(t, 30))
			NewWithT(t).Expect(r.used(t)).To(Equal(int64(20)))
		})
	}
}

// A refund after a reset takes nothing from later units. The algorithms that refill cannot
// distinguish single units.
func TestRefundAfterResetReturnsNothing(t *testing.T) {
	for _, a := range algorithms {
		if refills(a) {
			continue
		}
		t.Run(string(a), func(t *testing.T) {
			r := newRefundTest(t, a)
			refunded := r.spend(t, 30)
			r.clear(t)                                      // as a reset does
			r.clock.Set(r.clock.Now().Add(2 * time.Minute)) // another bucket
			r.spend(t, 50)
			r.refund(t, refunded)
			NewWithT(t).Expect(r.used(t)).To(Equal(int64(50)))
		})
	}
}

func TestRefundExcludesRefilledUnits(t *testing.T) {
	for _, a := range []quota.Algorithm{quota.TokenBucket, quota.GCRA} {
		t.Run(string(a), func(t *testing.T) {
			r := newRefundTest(t, a)
			refunded := r.spend(t, 30)
			r.clock.Set(r.clock.Now().Add(300 * time.Millisecond))
			r.spend(t, 100)
			r.refund(t, refunded)
			NewWithT(t).Expect(r.used(t)).To(Equal(int64(100)), "all 30 units had been refilled")
		})
	}
}
