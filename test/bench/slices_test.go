// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// loadOf returns a load of the workload on the target.
func (w *workload) loadOf(tb testing.TB, name string, t *target, callers int) load {
	tb.Helper()
	w.exhaust(tb, t)
	return load{name: name, target: t, calls: w.overGRPC(tb, t, callers)}
}

// compareSlices compares checks of a policy with slices with the same checks without, and with denials from memory.
func compareSlices(b *testing.B, s *section) {
	b.Helper()
	weir, _ := weirTargets(b, policyFolder(b, 0))
	plain := noopTarget(b, plainNoop, noopPlain, nil)
	one, many := keysOf("one key", "sliced", 1), keysOf("10,000 keys", "sliced", 10_000)
	for _, callers := range []int{1, 64} {
		pair := &scenario{name: one.name, callers: callers, loads: []load{
			oneAllowed().loadOf(b, plain.name, plain, callers),
			one.loadOf(b, "Weir, allowed, with slices", weir, callers),
			oneAllowed().loadOf(b, "Weir, allowed", weir, callers),
			oneDenied().loadOf(b, "Weir, denied", weir, callers),
		}}
		pair.pair(b, *rounds, *duration)
		s.add(pair)
	}
	cold := &scenario{name: many.name + ", each cold", callers: 64, loads: []load{
		manyAllowed().loadOf(b, "Weir, allowed", weir, 64), many.loadOf(b, "Weir, allowed, with slices", weir, 64),
	}}
	cold.pair(b, *rounds, *duration)
	s.add(cold)
}

// zipfKeys are 10,000 keys, whose n-th one gets n^-1.1 as many checks as the first.
func zipfKeys(entry string) *workload {
	const keys = 10_000
	w := keysOf(fmt.Sprintf("%d keys", keys), entry, keys)
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, keys-1)
	w.order = make([]int, 1_000_000)
	for i := range w.order {
		w.order[i] = int(zipf.Uint64())
	}
	return w
}

// longestSlices is the maxAge of the policy sliced-for-long.
const longestSlices = 10 * time.Second

// compareZipf compares limiters under a Zipf distribution of keys, after the time in which keys show to be hot.
func compareZipf(b *testing.B, s *section) {
	b.Helper()
	const callers = 64
	weir, _ := weirTargets(b, policyFolder(b, 0))
	plain := noopTarget(b, plainNoop, noopPlain, nil)
	pair := &scenario{name: "10,000 keys, Zipf 1.1, allowed", callers: callers, loads: []load{
		zipfKeys("allowed").loadOf(b, plain.name, plain, callers),
		zipfKeys("sliced").loadOf(b, "Weir, with slices of 1 s", weir, callers),
		zipfKeys("sliced-for-long").loadOf(b, "Weir, with slices of 10 s", weir, callers),
		zipfKeys("allowed").loadOf(b, "Weir", weir, callers),
	}}
	for _, peer := range peers(b) {
		pair.loads = append(pair.loads, zipfKeys("allowed").loadOf(b, peer.name, peer, callers))
	}
	for i := range pair.loads {
		pair.loads[i].warmUp = longestSlices
	}
	pair.pair(b, *rounds, *duration)
	s.add(pair)
}
