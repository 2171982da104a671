// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// Asking all keys first and charging then decides as one step does, for a caller
// alone: with edits, overrides, blocks, and a clock that steps back.
func TestSpreadAgreesWithModel(t *testing.T) {
	model := newModelBackend()
	spread, _ := newServerBackend(t, servers[0])
	spread.decider.(*Store).spread = true //nolint:forcetypeassert // it is one
	choices := [][]Algorithm{algorithms}
	for _, a := range algorithms {
		choices = append(choices, []Algorithm{a})
	}
	for _, choice := range choices {
		t.Run(fmt.Sprint(choice), func(t *testing.T) {
			for seed := range uint64(8) {
				compareBackends(t, 1000+seed, 200, choice, model, spread)
			}
		})
	}
}

// What is given back is what is still held of it: not what has been refilled
// since, and nothing of what came after a reset.
func TestRefund(t *testing.T) {
	b, _ := newServerBackend(t, servers[0])
	store := b.decider.(*Store) //nolint:forcetypeassert // it is one
	for _, a := range algorithms {
		l := slowLimit(a, 100)
		if a == TokenBucket || a == GCRA {
			l.Threshold, l.Window = 100, time.Second
		}
		policy := NewPolicy("test/back", false, false, []Limit{l})
		spend := func(t *testing.T, cost int64) *group {
			t.Helper()
			g := &group{call: Call{Entries: []Entry{{Policy: policy, Key: "a", Cost: cost}}}}
			var err error
			if g.reply, err = store.evaluate(t.Context(), &g.call, true); err != nil {
				t.Fatal(err)
			}
			return g
		}
		refund := func(t *testing.T, g *group) {
			t.Helper()
			if _, err := store.run(t.Context(), refundScripts, store.refundCommand(g)); err != nil {
				t.Fatal(err)
			}
		}
		used := func(t *testing.T) int64 {
			t.Helper()
			peek := &Call{Entries: []Entry{{Policy: policy, Key: "a", Peek: true}}}
			return b.evaluate(t, peek).Entries[0].Limits[0].Used
		}
		t.Run(string(a), func(t *testing.T) {
			g := NewWithT(t)
			b.clear(t)
			spend(t, 20)
			given := spend(t, 30)
			refund(t, given)
			g.Expect(used(t)).To(Equal(int64(20)))

			b.clear(t)
			given = spend(t, 30)
			b.clear(t)                                      // as a reset does
			b.clock.Set(b.clock.Now().Add(2 * time.Minute)) // another bucket
			spend(t, 50)
			if a != TokenBucket && a != GCRA { // a bucket knows no single units
				refund(t, given)
				g.Expect(used(t)).To(Equal(int64(50)), "after a reset")
			}

			if a == TokenBucket || a == GCRA {
				b.clear(t)
				given = spend(t, 30)
				b.clock.Set(b.clock.Now().Add(300 * time.Millisecond))
				spend(t, 100)
				refund(t, given)
				g.Expect(used(t)).To(Equal(int64(100)), "all of it was refilled by itself")
			}
		})
	}
}
