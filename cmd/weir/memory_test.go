// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	runtimemetrics "runtime/metrics"
	"testing"

	. "github.com/onsi/gomega"
)

// The heap may grow to five times a small live heap, and to twice a large one, so that a million
// keys in memory stay below 400 MiB.
func TestCollectionsArePacedByTheLiveHeap(t *testing.T) {
	g := NewWithT(t)
	percent := func() uint64 {
		runtime.GC()
		sample := []runtimemetrics.Sample{{Name: "/gc/gogc:percent"}}
		runtimemetrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	paceCollections()
	g.Eventually(percent).Should(Equal(uint64(smallHeapPercent)))
	keys := make([]byte, 2*largeHeap)
	g.Eventually(percent).Should(Equal(uint64(largeHeapPercent)))
	runtime.KeepAlive(keys)
	g.Eventually(percent).Should(Equal(uint64(smallHeapPercent)))
}
