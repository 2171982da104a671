// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestBreakerOpens(t *testing.T) {
	for name, tc := range map[string]struct {
		outcomes string // one round trip each: "." succeeds, "x" fails
		interval time.Duration
		opens    int // by the round trip with that number; 0 never
	}{
		"after five failures in a row":           {"..xxxxx", 50 * time.Millisecond, 7},
		"not if a success is among them":         {"xxxx.xxxx.", 50 * time.Millisecond, 0},
		"if half of twenty in a window fail":     {".x.x.x.x.x.x.x.x.x.x", time.Millisecond, 20},
		"not if fewer than half fail":            {"..x..x..x..x..x..x..x..x..x..x", time.Millisecond, 0},
		"not if half of few fail":                {".x.x.x.x.x.x.x.x.x.x.x.x.x.x.x", 20 * time.Millisecond, 0},
		"not by the failures of several windows": {".x.x.x.x.x........................x", 4 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b, now, opened := breaker{}, time.Unix(1_900_000_000, 0), 0
			for i, outcome := range tc.outcomes {
				if b.record(now, outcome == 'x') && opened == 0 {
					opened = i + 1
				}
				now = now.Add(tc.interval)
			}
			NewWithT(t).Expect(opened).To(Equal(tc.opens))
		})
	}
}

func TestBreakerStartsAnewAfterClosing(t *testing.T) {
	g := NewWithT(t)
	b, now := breaker{}, time.Unix(1_900_000_000, 0)
	for i := range maxFailures {
		g.Expect(b.record(now, true)).To(Equal(i == maxFailures-1), "it opens once")
	}
	g.Expect(b.record(now, true)).To(BeFalse(), "it is open already")
	b.close()
	g.Expect(b.isOpen).To(BeFalse())
	g.Expect(b.record(now, true)).To(BeFalse(), "one more failure does not open it")
}
