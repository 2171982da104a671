// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
)

// What is committed is what was spent: nothing is spent from a sealed slice, and only the first seal counts.
func TestNothingIsSpentAfterTheSeal(t *testing.T) {
	g := NewWithT(t)
	for range 200 {
		const units = 10_000
		s := &slice{units: units}
		s.left.Store(units)
		var spent atomic.Int64
		var callers sync.WaitGroup
		begun := make(chan struct{}, 4)
		for range cap(begun) {
			callers.Go(func() {
				begun <- struct{}{}
				for range 2 * units { // more than all have
					if _, ok := s.spend(1); !ok {
						return
					}
					spent.Add(1)
				}
			})
		}
		<-begun
		counted, first := s.seal()
		callers.Wait()
		g.Expect(first).To(BeTrue())
		g.Expect(spent.Load()).To(Equal(counted))
		_, ok := s.spend(1)
		g.Expect(ok).To(BeFalse())
		g.Expect(s.giveBack(1)).To(BeFalse(), "the cost stays spent")
		_, first = s.seal()
		g.Expect(first).To(BeFalse())
	}
}
