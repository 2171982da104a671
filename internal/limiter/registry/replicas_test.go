// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"math/rand/v2"
	"testing"

	. "github.com/onsi/gomega"
)

// Random replicas, summed up, run an entry exactly if each of them does.
func TestAFleetRunsWhatEachOfItsReplicasRuns(t *testing.T) {
	t.Parallel()
	g, random := NewWithT(t), rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	outcomes := map[bool]int{}
	for range 20_000 {
		w := &Writer{}
		w.observed.epoch = epoch(pick("o/1", "o/1", "o/2"))
		replicas := make([]Replica, 1+random.IntN(3))
		for i := range replicas {
			r := &replicas[i]
			r.Epoch, r.Revision = pick("o/1", "o/1", "o/1", "o/2"), int64(4+random.IntN(4))
			if random.IntN(8) == 0 {
				r.skips = skips{count: 1, names: []string{pick("shop/a", "shop/b")}}
			}
		}
		w.observed.replicas, w.observed.fleet = replicas, fleetOf(replicas)
		e := &entry{revision: int64(random.IntN(6))}
		all := w.replicasRunning("shop/a", e) == len(replicas)
		g.Expect(w.allRun("shop/a", e)).To(Equal(all), "%+v of %+v", replicas, e)
		outcomes[all]++
	}
	g.Expect(outcomes[true]).To(BeNumerically(">", 1000))
	g.Expect(outcomes[false]).To(BeNumerically(">", 1000))
	g.Expect((&Writer{}).allRun("shop/a", nil)).To(BeFalse())
}
