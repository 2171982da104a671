// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package persistent_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/persistent"
)

// Random changes have the effect that they have on a Go map, and leave all earlier maps as they were.
func TestMapIsAGoMapThatNeverChanges(t *testing.T) {
	for seed := range uint64(20) {
		g, r := NewWithT(t), rand.New(rand.NewPCG(seed, 1))
		var m persistent.Map[string, int]
		want := map[string]int{}
		type version struct {
			is   persistent.Map[string, int]
			want map[string]int
		}
		var versions []version
		for step := range 2000 {
			// Rounds in which most steps add, or most remove.
			if key := "k" + strconv.Itoa(r.IntN(400)); r.IntN(5) > step/500%2*3 {
				m, want[key] = m.With(key, step), step
			} else {
				m = m.Without(key)
				delete(want, key)
			}
			if step%100 == 0 {
				versions = append(versions, version{m, maps.Clone(want)})
			}
		}
		for _, v := range versions {
			g.Expect(maps.Collect(v.is.All())).To(Equal(v.want))
			g.Expect(v.is.Len()).To(Equal(len(v.want)))
			for i := range 400 {
				key := "k" + strconv.Itoa(i)
				_, has := v.want[key]
				g.Expect(v.is.Get(key)).To(Equal(v.want[key]))
				g.Expect(v.is.Has(key)).To(Equal(has))
			}
		}
		for i := range versions {
			before, after := versions[r.IntN(len(versions))], versions[i]
			g.Expect(maps.Collect(persistent.Changes(before.is, after.is))).To(Equal(changes(before.want, after.want)))
		}
	}
}

// changes compares two Go maps.
func changes(before, after map[string]int) map[string]persistent.Change[int] {
	all := map[string]persistent.Change[int]{}
	for key, value := range before {
		if is, has := after[key]; !has || is != value {
			all[key] = persistent.Change[int]{Before: value, After: is}
		}
	}
	for key, value := range after {
		if _, had := before[key]; !had {
			all[key] = persistent.Change[int]{After: value}
		}
	}
	return all
}

func TestEmptyMap(t *testing.T) {
	g := NewWithT(t)
	var empty persistent.Map[string, int]
	g.Expect(empty.Len()).To(Equal(0))
	g.Expect(empty.Get("a")).To(Equal(0))
	g.Expect(empty.Has("a")).To(BeFalse())
	g.Expect(empty.Without("a")).To(Equal(empty))
	g.Expect(empty.With("a", 1).Without("a")).To(Equal(empty))
	for range empty.All() {
		t.Error("no entries")
	}
}

// A loop may end early, in every iterator.
func TestIteratorsStop(t *testing.T) {
	g := NewWithT(t)
	var m, other persistent.Map[int, int]
	for i := range 1000 {
		m, other = m.With(i, i), other.With(i, -1-i)
	}
	visited := 0
	for range m.All() {
		if visited++; visited == 10 {
			break
		}
	}
	for range persistent.Changes(m, other) {
		if visited++; visited == 20 {
			break
		}
	}
	g.Expect(visited).To(Equal(20))
}

// The work for one change does not grow with the map.
func TestChangesCostTheSameForEverySize(t *testing.T) {
	allocations := func(n int) float64 {
		var m persistent.Map[int, int]
		for i := range n {
			m = m.With(i, i)
		}
		key := 0
		return testing.AllocsPerRun(1000, func() {
			m = m.With(key%n, -key)
			key++
		})
	}
	NewWithT(t).Expect(allocations(100_000)).To(BeNumerically("<", 3*allocations(1000)))
}

func BenchmarkMap(b *testing.B) {
	for _, n := range []int{10, 1000, 20_000} {
		var m persistent.Map[string, int]
		keys := make([]string, n)
		for i := range n {
			keys[i] = fmt.Sprintf("team-%d/policy", i)
			m = m.With(keys[i], i)
		}
		b.Run(fmt.Sprintf("Get/%d", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if m.Get(keys[i*7%n]) != i*7%n {
					b.Fatal()
				}
			}
		})
		b.Run(fmt.Sprintf("With/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m.With(keys[i*7%n], i)
			}
		})
	}
}
