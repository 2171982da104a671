// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A value that is not the state of a counter is as if it were missing. Peeks and denied checks leave it,
// and the next spend overwrites it.
func TestOtherTextsInCountersAreRepaired(t *testing.T) {
	for _, s := range servers {
		b, client := newServerBackend(t, s)
		store := b.decider.(*Store) //nolint:forcetypeassert // it is one
		for _, a := range []Algorithm{FixedWindow, TokenBucket, GCRA} {
			for _, text := range []string{"", "burst", "x y", "1 z", " ", "-", "/f", "12x", "\x00"} {
				for name, second := range map[string]Entry{
					"check":   {Cost: 2},
					"charge":  {Cost: 2, Action: Charge},
					"reserve": {Cost: 2, Action: Reserve, ID: "id", TTL: time.Minute},
				} {
					t.Run(fmt.Sprintf("%s %s %q %s", s.name, a, text, name), func(t *testing.T) {
						g := NewWithT(t)
						b.clear(t)
						policy := reservingPolicy("repaired", slowLimit(a, 5))
						key := store.key("a", policy.states[0])
						g.Expect(client.Set(t.Context(), key, text, 0).Err()).To(Succeed())
						evaluate := func(e Entry) EntryReply {
							e.Policy, e.Key = policy, "a"
							return b.evaluate(t, &Call{Entries: []Entry{e}}).Entries[0]
						}
						g.Expect(evaluate(Entry{Cost: 1, Peek: true}).Limits[0].Used).To(BeZero())
						g.Expect(evaluate(Entry{Cost: 6}).Verdict).To(Equal(Denied))
						g.Expect(client.Get(t.Context(), key).Val()).To(Equal(text), "nothing is spent yet")
						r := evaluate(second)
						g.Expect(r.Verdict).To(Equal(Admitted))
						g.Expect(r.Limits[0].Used).To(Equal(int64(2)))
						g.Expect(evaluate(Entry{Cost: 3}).Verdict).To(Equal(Admitted))
						g.Expect(evaluate(Entry{Cost: 1}).Verdict).To(Equal(Denied))
						g.Expect(client.Get(t.Context(), key).Val()).NotTo(Equal(text))
						g.Expect(client.PTTL(t.Context(), key).Val()).To(BeNumerically(">", 0))
					})
				}
			}
		}
	}
}
