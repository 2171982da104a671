// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"testing"
	"time"
)

// compareHalfLoad compares the latency of one caller with the latency at half of the maximum
// throughput.
func compareHalfLoad(b *testing.B, s *section) {
	b.Helper()
	const callers = 64
	weir, _ := weirTargets(b, policyFolder(b, 0))
	w := manyAllowed()
	all := w.overGRPC(b, weir, callers)
	plain := noopTarget(b, plainNoop, noopPlain, nil)
	measured := &scenario{name: w.name, samples: make([][]*sample, 4), loads: []load{
		{name: "Weir, 64 callers, the maximum", target: weir, calls: all},
		{name: "Weir, 64 callers, half of it", target: weir, calls: all},
		{name: "no-op, 64 callers, the same rate", target: plain, calls: w.overGRPC(b, plain, callers)},
		{name: "Weir, one caller", target: weir, calls: w.overGRPC(b, weir, 1)},
	}}
	for range *rounds {
		for i := range measured.loads {
			m := measure(b, &measured.loads[i], *duration)
			measured.samples[i] = append(measured.samples[i], m)
			if i == 0 { // the maximum of this round, because the maximum of a busy machine changes
				half := m.perSecond() / 2
				measured.loads[1].perSecond, measured.loads[2].perSecond = half, half
			}
		}
	}
	s.add(measured)
	s.note("At half of the maximum, calls come at random times, and the latency of a call counts from the\n" +
		"time when it was due. The row of the no-op shows what the callers add: they share the cores with\n" +
		"Weir and Redis.")
}

// compareHotKey compares the latency of calls for 10,000 keys while other callers use one
// key.
func compareHotKey(b *testing.B, s *section) {
	b.Helper()
	const half = 32
	weir, _ := weirTargets(b, policyFolder(b, 0))
	loads := []load{
		{name: "10,000 keys", calls: manyAllowed().overGRPC(b, weir, half)},
		{name: "one allowed key", calls: oneAllowed().overGRPC(b, weir, half)},
	}
	denied := oneDenied()
	denied.exhaust(b, weir)
	loads = append(loads, load{name: "one denied key", calls: denied.overGRPC(b, weir, half)})
	measured := manyAllowed().overGRPC(b, weir, half)
	samples := make([][]*sample, len(loads))
	for i := range *rounds * len(loads) {
		at := alternate(i, len(loads))
		both := &load{target: weir, calls: append(measured[:half:half], loads[at].calls...)}
		start := time.Now()
		latencies := run(b, both, *duration)
		samples[at] = append(samples[at], newSample(time.Since(start), latencies[:half]...))
	}
	var rows [][]string
	for i, l := range loads {
		median := func(of func(*sample) float64) float64 { return medianOf(samples[i], of) }
		var p99s []float64
		for _, m := range samples[i] {
			p99s = append(p99s, latency(0.99)(m)/1e6)
		}
		rows = append(rows, []string{
			l.name, fmt.Sprintf("%.0f", median((*sample).perSecond)),
			inMillis(median(latency(0.5))), spread(p99s, "%.2f") + " ms", inMillis(median(latency(0.999))),
		})
	}
	s.table("32 callers over 10,000 keys, beside 32 other callers",
		[]string{"keys of the other callers", "calls/s", "p50", "p99", "p99.9"}, rows...)
}
