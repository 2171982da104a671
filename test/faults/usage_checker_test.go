// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// The checker of a soak finds what grows, and does not mind single samples.
func TestCheckerOfUsage(t *testing.T) {
	origin := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		samples int
		edit    func(i int, s *sample)
		err     string
	}{
		"flat":                      {40, func(int, *sample) {}, ""},
		"two goroutines a minute":   {40, func(i int, s *sample) { s.routines += float64(i / 10) }, ""},
		"a goroutine each sample":   {40, func(i int, s *sample) { s.routines += float64(i) }, "20.00 more goroutines"},
		"a connection each sample":  {40, func(i int, s *sample) { s.connections += float64(i) }, "20.00 more connections to Redis"},
		"1 MiB a minute":            {40, func(i int, s *sample) { s.heap += float64(i) * mebibyte / 20 }, "1.00 more MiB of heap a minute"},
		"half a MiB a minute":       {40, func(i int, s *sample) { s.heap += float64(i) * mebibyte / 40 }, ""},
		"a peak at the end":         {40, func(i int, s *sample) { s.routines += float64(i / 37 * 500) }, ""},
		"too few samples to judge":  {19, func(i int, s *sample) { s.routines += float64(i * 100) }, ""},
		"as few samples as allowed": {20, func(i int, s *sample) { s.routines += float64(i * 100) }, "1000.00 more goroutines"},
	} {
		t.Run(name, func(t *testing.T) {
			u := &usage{}
			for i := range tc.samples {
				s := sample{time: origin.Add(time.Duration(i) * 3 * time.Second), heap: 20 * mebibyte, routines: 80, connections: 30}
				tc.edit(i, &s)
				u.samples = append(u.samples, s)
			}
			risen, enough := u.growth()
			g := NewWithT(t)
			g.Expect(enough).To(Equal(tc.samples >= 2*enoughSamples))
			if tc.err == "" {
				g.Expect(risen.flat()).To(Succeed())
			} else {
				g.Expect(risen.flat()).To(MatchError(ContainSubstring(tc.err)))
			}
		})
	}
}
