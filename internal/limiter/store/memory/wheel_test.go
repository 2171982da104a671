// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math/rand/v2"
	"testing"

	. "github.com/onsi/gomega"
)

// Callers are taken when they are due, neither before nor after, at any distance.
func TestWheelTakesCallersWhenTheyAreDue(t *testing.T) {
	for seed := range uint64(200) {
		g := NewWithT(t)
		r := rand.New(rand.NewPCG(seed, 1))
		var callers slab[caller]
		w, due, now := wheel{}, map[uint32]int64{}, r.Int64N(1<<41)
		add := func(i uint32, at int64) {
			due[i] = at
			w.add(&callers, i, at)
		}
		for range 300 {
			switch c := callers.add(); {
			case r.IntN(3) > 0:
				add(c, now+1+r.Int64N(1<<r.IntN(43)))
			case len(due) > 0: // take another one out
				callers.remove(c)
				for other := range due {
					w.remove(&callers, other)
					delete(due, other)
					callers.remove(other)
					break
				}
			default:
				callers.remove(c)
			}
			now += r.Int64N(1 << r.IntN(42))
			for c := w.take(&callers, now); c != 0; c = w.take(&callers, now) {
				if due[c] > now {
					w.add(&callers, c, due[c])
					continue
				}
				delete(due, c)
				callers.remove(c)
			}
			for _, at := range due {
				g.Expect(at).To(BeNumerically(">", now))
			}
		}
	}
}

// A caller moves down at most once a level before it is due.
func TestWheelMovesCallersOncePerLevel(t *testing.T) {
	g := NewWithT(t)
	var callers slab[caller]
	w, c := wheel{}, callers.add()
	const due = int64(1)<<42 + 12_345
	w.add(&callers, c, due)
	moves := 0
	for {
		_, now, _ := w.next()
		g.Expect(w.take(&callers, now)).To(Equal(c))
		if now == due {
			break
		}
		moves++
		w.add(&callers, c, due)
	}
	g.Expect(moves).To(BeNumerically("<", wheelLevels))
}
