// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	runtimemetrics "runtime/metrics"
	"testing"

	. "github.com/onsi/gomega"
)

// The heap may grow further beyond a small live heap than beyond a large one, to twice of which it may grow, so that a
// million keys in memory stay below 400 MiB. TestCollectionPercent has the numbers.
func TestCollectionsArePacedByTheLiveHeap(t *testing.T) {
	g := NewWithT(t)
	percent := func() uint64 {
		runtime.GC()
		sample := []runtimemetrics.Sample{{Name: "/gc/gogc:percent"}}
		runtimemetrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	paceCollections()
	g.Eventually(percent).Should(BeNumerically(">", uint64(largeHeapPercent)), "the tests beside this one have live data, too")
	keys := make([]byte, 2*largeHeap)
	g.Eventually(percent).Should(Equal(uint64(largeHeapPercent)))
	runtime.KeepAlive(keys)
	g.Eventually(percent).Should(BeNumerically(">", uint64(largeHeapPercent)), "the tests beside this one have live data, too")
}

// The pace depends on the data that a collection scans: data without pointers, such as the keys of groups, gets no room.
func TestCollectionPercent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		live, scanned uint64
		want          int
	}{
		"before the first collection": {0, 4 << 20, 300},
		"some policies":               {8 << 20, 6 << 20, 300},
		"keys beside them":            {30 << 20, 10 << 20, 150},
		"a heap that is nearly large": {40 << 20, 30 << 20, 150},
		"keys alone":                  {60 << 20, 1 << 20, 100},
		"a large heap":                {200 << 20, 150 << 20, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(collectionPercent(tc.live, tc.scanned)).To(Equal(tc.want))
		})
	}
}
