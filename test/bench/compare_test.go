// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	rounds   = flag.Int("rounds", 6, "paired rounds per scenario")
	duration = flag.Duration("duration", 2*time.Second, "length of one measurement")
	selected = flag.String("sections", "", "names of the sections to measure, separated by spaces (default: all)")
	report   = flag.String("report", "", "folder of performance.md and performance.svg to update (default: print only)")
)

// part is one part of the comparison, with a section of the report.
type part struct {
	name    string // in -sections
	title   string // on the page
	measure func(*testing.B, *section)
}

// parts are in the order of the report.
var parts = []part{
	{"gRPC", grpcTitle, compareGRPC},
	{"HTTP", "HTTP", compareHTTP},
	{"Envoy", envoyTitle, compareEnvoy},
	{"Policies", "Number of policies", comparePolicies},
	{"Observe", "What --observe costs", compareObserve},
	{"HalfLoad", "Latency at half of the maximum throughput", compareHalfLoad},
	{"HotKey", "One hot key", compareHotKey},
	{"Slices", "Slices", compareSlices},
	{"Zipf", "Keys of different heat", compareZipf},
	{"Cluster", "Redis Cluster", compareCluster},
	{"Scripts", "The engine and redis-benchmark", compareScripts},
	{"Edits", "Edit to enforced, without Kubernetes", compareEdits},
	{"HungRedis", "Redis hangs for five seconds", compareHungRedis},
	{"Million", "What 1,000,000 decisions a second cost", compareMillion},
}

// BenchmarkCompare measures the parts and publishes each section when it is complete.
func BenchmarkCompare(b *testing.B) {
	names := strings.Fields(*selected)
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			b.Fatalf("-sections: no section %q", name)
		}
	}
	for _, p := range parts {
		if len(names) > 0 && !slices.Contains(names, p.name) {
			continue
		}
		b.Run(p.name, func(b *testing.B) {
			for b.Loop() {
				s := &section{title: p.title}
				p.measure(b, s)
				s.publish(b, *report)
			}
		})
	}
}

// load is calls to a target.
type load struct {
	name   string // in the first column of the table
	target *target
	calls  []call // of each caller

	// perSecond is the rate of all callers together; 0 lets each call again at once.
	perSecond float64
	// warmUp is how long the load runs before it is measured, at least a tenth of the measurement.
	warmUp time.Duration
}

// scenario is one table: loads that are measured in turn.
type scenario struct {
	name    string
	callers int // 0 if the loads have different numbers
	loads   []load
	samples [][]*sample // of each load, by round
}

// pair measures all loads in turn, round by round, in alternating order, so that noise of
// the machine meets all of them.
func (s *scenario) pair(tb testing.TB, rounds int, duration time.Duration) {
	tb.Helper()
	s.samples = make([][]*sample, len(s.loads))
	for i := range rounds * len(s.loads) {
		at := alternate(i, len(s.loads))
		s.samples[at] = append(s.samples[at], measure(tb, &s.loads[at], duration))
	}
}

// alternate returns the place, among n, of the i-th measurement: every second round runs
// backwards.
func alternate(i, n int) int {
	if (i/n)%2 == 1 {
		return n - 1 - i%n
	}
	return i % n
}
