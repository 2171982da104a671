// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
)

// While one replica has a plan with slices and the other one its former plan without them, both admit the quota.
func TestAddingSlicesKeepsTheQuota(t *testing.T) {
	stores(t, func(t *testing.T, open func() store.Store) {
		t.Helper()
		for _, algorithm := range slicedAlgorithms {
			t.Run(string(algorithm), func(t *testing.T) {
				g := NewWithT(t)
				const most = 1000
				limit := storetest.SlowLimit(algorithm, most)
				with, without := newPolicy(string(algorithm), time.Minute, limit), store.NewPolicy("test/"+string(algorithm), false, false, []store.Limit{limit})
				replicas := [2]*Cache{New(Options{Store: open()}), New(Options{Store: open()})}
				stop := start(t, replicas[0])
				start(t, replicas[1])
				admitted, sliced := 0, 0
				check := func(c *Cache, p *store.Policy) bool {
					reply, err := c.Evaluate(t.Context(), storetest.SpendOne(p, "a"))
					g.Expect(err).NotTo(HaveOccurred())
					if reply.FromSlice {
						sliced++
					}
					if reply.Entries[0].Verdict != store.Admitted {
						return false
					}
					admitted++
					return true
				}
				g.Eventually(func() int {
					check(replicas[0], with)
					return sliced
				}).Should(BeNumerically(">", 0))
				for check(replicas[1], without) { // what the slices do not hold
				}
				for check(replicas[0], with) { // the slices
				}
				g.Expect(admitted).To(BeNumerically("<=", most))
				stop()
				g.Eventually(func() int {
					check(replicas[1], without)
					return admitted
				}).Should(Equal(most))
				g.Expect(check(replicas[1], without)).To(BeFalse())
			})
		}
	})
}
