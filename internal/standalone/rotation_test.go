// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// A caller who rotates keys neither lifts the limits of others nor slows them down, whether there
// is room for the keys or not.
func TestRotatingKeysLiftsNoLimit(t *testing.T) {
	const rotated, batch = 200_000, 1000
	for name, localKeys := range map[string]int{"with room": 1_000_000, "without room": 50_000} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			e := newInMemory(t, localKeys, policyText("a", 3))
			decide := func(key string) *limiter.Decision {
				d, err := e.Decide(t.Context(), &limiter.Check{Policies: []string{"shop/a"}, Key: []string{key}, Cost: 1})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(d.Degraded).To(BeEmpty())
				return d
			}
			decide("alice")
			var batches []time.Duration
			allowed := 0
			for i := range rotated / batch {
				start := time.Now()
				for j := range batch {
					if decide(fmt.Sprint("rotated-", i*batch+j)).Allowed {
						allowed++
					}
				}
				batches = append(batches, time.Since(start))
			}
			first, last := slices.Min(batches[:5]), slices.Min(batches[len(batches)-50:])
			g.Expect(last).To(BeNumerically("<", 5*first))
			if localKeys < rotated {
				g.Expect(allowed).To(Equal(localKeys-1+3), "the keys that had room, and one shared budget")
			} else {
				g.Expect(allowed).To(Equal(rotated))
			}
			for i := range 4 {
				g.Expect(decide("alice").Allowed).To(Equal(i < 2), "the limit holds, and the first check is not forgotten")
			}
		})
	}
}

// Resetting, blocking and unblocking a key report what they found.
func TestStateOfKeysInMemory(t *testing.T) {
	g := NewWithT(t)
	e := newInMemory(t, 10, policyText("a", 3))
	_, err := e.Decide(t.Context(), &limiter.Check{Policies: []string{"shop/a"}, Key: []string{"alice"}, Cost: 1})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(e.Block(t.Context(), "shop/a", limiter.KeyName{Parts: []string{"alice"}}, time.Minute)).To(Succeed())
	state, err := e.Inspect(t.Context(), "shop/a", limiter.KeyName{Parts: []string{"alice"}}, plan.Attributes{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(state.Blocked).To(BeTrue())
	g.Expect(state.Limits[0].Used).To(Equal(int64(1)))
	for _, want := range []bool{true, false} {
		g.Expect(e.Unblock(t.Context(), "shop/a", limiter.KeyName{Parts: []string{"alice"}})).To(Equal(want))
	}
	for _, want := range []bool{true, false} {
		g.Expect(e.Reset(t.Context(), "shop/a", limiter.KeyName{Parts: []string{"alice"}})).To(Equal(want))
	}
}

// newInMemory returns an endpoint without Redis that does not listen.
func newInMemory(t *testing.T, localKeys int, policy string) *Server {
	t.Helper()
	dir := t.TempDir()
	NewWithT(t).Expect(os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(policy), 0o600)).To(Succeed())
	options := quiet()
	options.LocalKeys = localKeys
	e, err := New(t.Context(), Options{Policies: []string{dir}, Options: options})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return e
}
