// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// tenantKey returns one of 200,000 keys of 20 characters.
func tenantKey(i int) string { return fmt.Sprintf("tenant-%013d", i) }

// tenantGroups returns records with 200,000 keys in 250 objects, decoded as a replica decodes them.
func tenantGroups(tb testing.TB) []plan.Record {
	tb.Helper()
	records := make([]plan.Record, 250)
	for i := range records {
		keys := make([]string, 800)
		for j := range keys {
			keys[j] = tenantKey(i*800 + j)
		}
		data, err := plan.Encode(keyGroup(fmt.Sprintf("gold-%03d", i), "gold", keys...))
		if err != nil {
			tb.Fatal(err)
		}
		if records[i], err = plan.Decode(data); err != nil {
			tb.Fatal(err)
		}
	}
	return records
}

func newAdmitting() *engine.Engine {
	backend := &admittingStore{reply: store.Reply{Entries: []store.EntryReply{{Limits: []store.LimitReply{{Admits: true, Used: 1}}}}}}
	return engine.New(engine.Options{Store: backend, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
}

const (
	// roundsBesideData is how often BenchmarkDecideBesideData measures each engine; decisionsInRound is for how many keys.
	roundsBesideData, decisionsInRound = 301, 100
	// checkedTenants is how many keys it checks.
	checkedTenants = 1000
	// unreached is more than it spends: a denial would cost another time than an allowed request.
	unreached = 100_000
)

// checkedTenant returns one of the keys that BenchmarkDecideBesideData checks.
func checkedTenant(i int) string { return tenantKey(i % checkedTenants * 190) }

// BenchmarkDecideBesideData compares decisions of keys in a group of 200,000 keys, and of keys with one of 1,000 exceptions,
// with decisions of the same policy alone: the CPU time of this process, with Redis and with a store that takes no time. It
// reports the medians of the ratios of roundsBesideData rounds, in each of which the engines take turns, and the
// allocations of a decision. An iteration takes all rounds, so that -benchtime does not change the ratios.
//
// Not measured, since it happens once for each change of an exception: its first decision, which prepares its numbers.
func BenchmarkDecideBesideData(b *testing.B) {
	exceptions := make([]plan.Record, 0, checkedTenants+1)
	for i := range checkedTenants {
		e := exceptionFor(fmt.Sprintf("raise-%d", i), checkedTenant(i), burstOf(unreached))
		e.Namespace, e.Policy, e.UntilMillis = "a", "x", time.Now().Add(time.Hour).UnixMilli()
		exceptions = append(exceptions, e)
	}
	policy := tiered(func(p *plan.Plan) { p.Limits[0].Threshold, p.Overrides[0].Limits[0].Threshold = unreached, unreached })
	beside := []struct {
		name     string
		snapshot *index.Snapshot
	}{
		{"alone", index.NewSnapshotOf(1, []plan.Record{policy})},
		{"keys", index.NewSnapshotOf(1, append(tenantGroups(b), policy))},
		{"exceptions", index.NewSnapshotOf(1, append(exceptions, policy))},
	}
	for backend, newEngine := range map[string]func() *engine.Engine{
		"Redis": func() *engine.Engine { return newOnRedis(b).Engine }, "no time": newAdmitting,
	} {
		b.Run(backend, func(b *testing.B) {
			engines := make([]*engine.Engine, len(beside))
			for i := range engines {
				engines[i] = newEngine()
				engines[i].Use(beside[i].snapshot)
				decideTenants(b, engines[i], 0, checkedTenants)
			}
			for b.Loop() {
				ratios := cpuRatios(b, engines)
				for i, of := range beside {
					decisions := func() { decideTenants(b, engines[i], 0, decisionsInRound) }
					b.ReportMetric(testing.AllocsPerRun(1, decisions)/decisionsInRound, of.name+"-allocs")
					if i > 0 {
						b.ReportMetric(ratios[i], of.name+"-ratio")
					}
				}
			}
		})
	}
}

// cpuRatios returns the median ratio of the CPU time of decisions of each engine to decisions of the first one. Garbage is collected
// only between rounds: a collection takes longer than the round in which it begins.
func cpuRatios(b *testing.B, engines []*engine.Engine) []float64 {
	b.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	ratios, took := make([][]float64, len(engines)), make([]time.Duration, len(engines))
	for round := range roundsBesideData {
		if round%30 == 0 {
			runtime.GC()
		}
		for turn := range engines {
			i := (round + turn) % len(engines)
			before := ownCPUTime(b)
			decideTenants(b, engines[i], round*decisionsInRound, decisionsInRound)
			took[i] = ownCPUTime(b) - before
		}
		for i := range engines {
			ratios[i] = append(ratios[i], float64(took[i])/float64(took[0]))
		}
	}
	medians := make([]float64, len(engines))
	for i := range ratios {
		slices.Sort(ratios[i])
		medians[i] = ratios[i][roundsBesideData/2]
	}
	return medians
}

// decideTenants decides n of the checked keys, one after the other.
func decideTenants(b *testing.B, e *engine.Engine, first, n int) {
	b.Helper()
	for i := range n {
		if d, err := e.Decide(b.Context(), clientCheck(checkedTenant(first+i))); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
}

// ownCPUTime returns the CPU time of this process so far. testenv.CPUTime reads a file for each thread, which takes as long as
// a round without a store.
func ownCPUTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkUseChangedKey replaces one key of 200,000.
func BenchmarkUseChangedKey(b *testing.B) {
	records := append(tenantGroups(b), tiered())
	e := newAdmitting()
	e.Use(index.NewSnapshotOf(1, records))
	b.ReportAllocs()
	revision := int64(1)
	for b.Loop() {
		revision++
		changed := *records[7].(*plan.KeyGroup)
		keys := slices.Collect(changed.Keys.All())
		keys[len(keys)-1] = fmt.Sprintf("tenant-%013d-%d", 7*800+799, revision)
		changed.Keys = plan.NewKeyList(keys...)
		records[7] = &changed
		e.Use(index.NewSnapshotOf(revision, records))
	}
}

// BenchmarkUseAllKeys loads 200,000 keys into an engine without any.
func BenchmarkUseAllKeys(b *testing.B) {
	snapshot := index.NewSnapshotOf(1, append(tenantGroups(b), tiered()))
	b.ReportAllocs()
	for b.Loop() {
		newAdmitting().Use(snapshot)
	}
}

// BenchmarkUseKeysByObject loads 200,000 keys object by object, as during an import.
func BenchmarkUseKeysByObject(b *testing.B) {
	records := append([]plan.Record{tiered()}, tenantGroups(b)...)
	b.ReportAllocs()
	for b.Loop() {
		e := newAdmitting()
		for i := range records {
			e.Use(index.NewSnapshotOf(int64(i), records[:i+1]))
		}
	}
}

func heapInUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// 200,000 keys take a small part, in the decision half, of the memory that docs/performance.md documents for a process.
func TestMemoryOfKeyGroups(t *testing.T) {
	g := NewWithT(t)
	before := heapInUse()
	e := newAdmitting()
	e.Use(index.NewSnapshotOf(1, append(tenantGroups(t), tiered())))
	used := heapInUse() - before
	t.Logf("200,000 keys in 250 objects: %.1f MiB", float64(used)/(1<<20))
	g.Expect(used).To(BeNumerically("<", 10<<20))
	runtime.KeepAlive(e)
}
