// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// A hold must not keep the request alive that its ID came with.
func TestHoldsKeepNoRequests(t *testing.T) {
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	holds := newHoldSet()
	before := heap()
	for i := range 1000 {
		request := fmt.Sprintf("%08d", i) + strings.Repeat("x", 64<<10)
		holds.add(request[:8], 1, int64(i))
	}
	NewWithT(t).Expect(heap() - before).To(BeNumerically("<", 1<<20))
	runtime.KeepAlive(holds)
}
