// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestPausesWithin(t *testing.T) {
	g := NewWithT(t)
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	p := &Pauses{}
	p.add(at(10), at(12))
	for _, overlapping := range [][2]int{{9, 11}, {11, 13}, {10, 12}, {5, 20}} {
		g.Expect(p.Within(at(overlapping[0]), at(overlapping[1]))).To(BeTrue(), "%v", overlapping)
	}
	for _, apart := range [][2]int{{1, 10}, {12, 20}} {
		g.Expect(p.Within(at(apart[0]), at(apart[1]))).To(BeFalse(), "%v", apart)
	}
}

// A watcher sees the pauses of the machine: every millisecond is one that is longer than nothing.
func TestWatchPauses(t *testing.T) {
	g := NewWithT(t)
	p, began := WatchPauses(t, 0), time.Now()
	g.Eventually(func() bool { return p.Within(began, time.Now()) }).Should(BeTrue())
}
