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
		w := &Writer{supported: []format{3, 2}, entries: map[string]*entry{}}
		w.observed.epochs = [maxFormats]epoch{epoch(pick("o/1", "o/1", "o/2")), "o/1"}
		replicas := make([]Replica, random.IntN(4))
		for i := range replicas {
			r := &replicas[i]
			r.Epoch, r.Revision, r.format = pick("o/1", "o/1", "o/1", "o/2"), int64(4+random.IntN(4)), format(3-random.IntN(16)/7)
			if random.IntN(8) == 0 {
				r.skips = skips{count: 1, names: []string{pick("shop/a", "shop/b")}}
			}
		}
		w.observed.replicas, w.observed.fleet = replicas, fleetOf(replicas, w.supported)
		e := &entry{}
		for slot := range e.forms {
			e.forms[slot].revision = int64(random.IntN(6))
			e.forms[slot].inexpressible = random.IntN(8) == 0
		}
		all := w.replicasRunning("shop/a", e) == len(replicas)
		g.Expect(w.allRun("shop/a", e)).To(Equal(all), "%+v of %+v", replicas, e.forms)
		outcomes[all]++

		w.entries["shop/a"] = e
		tooOld := false
		for i := range replicas {
			for slot, f := range w.supported {
				tooOld = tooOld || replicas[i].format == f && e.forms[slot].inexpressible
			}
		}
		g.Expect(w.hasReplicaTooOld("shop/a")).To(Equal(tooOld))
	}
	g.Expect(outcomes[true]).To(BeNumerically(">", 1000))
	g.Expect(outcomes[false]).To(BeNumerically(">", 1000))
	g.Expect((&Writer{}).allRun("shop/a", nil)).To(BeFalse())
}
