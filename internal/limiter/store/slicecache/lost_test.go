// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// Slices cost less than a hundredth of a quota, while the traffic moves from one of four replicas to the next every 300 ms.
func TestLostQuota(t *testing.T) {
	const (
		most   = 20_000
		window = 20 * time.Second
		step   = time.Millisecond
	)
	for _, load := range []float64{0.95, 1.5, 5} {
		t.Run(fmt.Sprint(load), func(t *testing.T) {
			g, w := NewWithT(t), newWorld(4, Options{})
			policy := store.NewVariants(store.Settings{ID: "test/p", Slices: store.Slices{MaxPercent: 10, MaxAge: time.Second}},
				[]store.Limit{{Name: "l", Algorithm: store.FixedWindow, Quota: most, Threshold: most, Window: window}})[0]
			offered, admitted, fromSlices := 0, 0, 0
			for passed := time.Duration(0); passed < window; passed += step {
				replica := int(passed/(300*time.Millisecond)) % len(w.replicas)
				for float64(offered) < load*most*float64(passed+step)/float64(window) {
					ok, fromSlice := w.check(t, replica, policy, "a", 1)
					offered++
					if ok {
						admitted++
					}
					if fromSlice {
						fromSlices++
					}
				}
				w.idle(replica)
				if passed%sweepInterval == 0 {
					for i := range w.replicas {
						w.replicas[i].sweep()
						w.idle(i)
					}
				}
				w.pass(step)
			}
			t.Logf("%d of %d admitted, %d of them from slices", admitted, offered, fromSlices)
			g.Expect(admitted).To(BeNumerically(">=", min(offered, most)-most/100))
			g.Expect(admitted).To(BeNumerically("<=", most))
			g.Expect(fromSlices).To(BeNumerically(">", admitted/2))
		})
	}
}
