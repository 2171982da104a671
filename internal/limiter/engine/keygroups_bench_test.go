// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/quota"
	"github.com/weir-dev/weir/internal/testenv"
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
	store := &admittingStore{reply: quota.Reply{Entries: []quota.EntryReply{{Limits: []quota.LimitReply{{Admits: true, Used: 1}}}}}}
	return engine.New(engine.Options{Store: store, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
}

// BenchmarkDecideBesideData compares decisions of keys in a group of 200,000 keys, and of keys with one of 1,000 exceptions,
// with decisions of the same policy alone, in turn. It reports the medians of the ratios: of the CPU time of this process,
// with Redis and with a store that takes no time.
func BenchmarkDecideBesideData(b *testing.B) {
	exceptions := make([]plan.Record, 0, 1001)
	for i := range 1000 {
		e := exceptionFor(fmt.Sprintf("raise-%d", i), checkedTenant(i), burstOf(1000))
		e.Namespace, e.Policy, e.UntilMillis = "a", "x", time.Now().Add(time.Hour).UnixMilli()
		exceptions = append(exceptions, e)
	}
	snapshots := []*plan.Snapshot{
		plan.NewSnapshotOf(1, []plan.Record{tiered()}),
		plan.NewSnapshotOf(1, append(tenantGroups(b), tiered())),
		plan.NewSnapshotOf(1, append(exceptions, tiered())),
	}
	for store, newEngine := range map[string]func() *engine.Engine{
		"Redis": func() *engine.Engine { return newOnRedis(b).Engine }, "no time": newAdmitting,
	} {
		b.Run(store, func(b *testing.B) {
			engines := make([]*engine.Engine, len(snapshots))
			for i := range engines {
				engines[i] = newEngine()
				engines[i].Use(snapshots[i])
			}
			var beside [2][]float64
			for b.Loop() {
				alone := cpuOfDecisions(b, engines[0])
				for i := range beside {
					beside[i] = append(beside[i], float64(cpuOfDecisions(b, engines[i+1]))/float64(alone))
				}
			}
			for i, name := range []string{"keys", "exceptions"} {
				slices.Sort(beside[i])
				b.ReportMetric(beside[i][len(beside[i])/2], name+"-ratio")
			}
		})
	}
}

// checkedTenant returns one of the keys that BenchmarkDecideBesideData checks.
func checkedTenant(i int) string { return tenantKey(i * 190) }

// cpuOfDecisions returns the CPU time of this process for decisions of 1,000 keys, twice each.
func cpuOfDecisions(b *testing.B, e *engine.Engine) time.Duration {
	b.Helper()
	before := testenv.CPUTime(b, os.Getpid())
	for i := range 2000 {
		if d, err := e.Decide(b.Context(), clientCheck(checkedTenant(i%1000))); err != nil || d.Reason == limiter.ReasonStoreUnavailable {
			b.Fatal(d, err)
		}
	}
	return testenv.CPUTime(b, os.Getpid()) - before
}

// BenchmarkUseChangedKey replaces one key of 200,000.
func BenchmarkUseChangedKey(b *testing.B) {
	records := append(tenantGroups(b), tiered())
	e := newAdmitting()
	e.Use(plan.NewSnapshotOf(1, records))
	b.ReportAllocs()
	revision := int64(1)
	for b.Loop() {
		revision++
		changed := *records[7].(*plan.KeyGroup)
		keys := slices.Collect(changed.Keys.All())
		keys[len(keys)-1] = fmt.Sprintf("tenant-%013d-%d", 7*800+799, revision)
		changed.Keys = plan.NewKeyList(keys...)
		records[7] = &changed
		e.Use(plan.NewSnapshotOf(revision, records))
	}
}

// BenchmarkUseAllKeys loads 200,000 keys into an engine without any.
func BenchmarkUseAllKeys(b *testing.B) {
	snapshot := plan.NewSnapshotOf(1, append(tenantGroups(b), tiered()))
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
			e.Use(plan.NewSnapshotOf(int64(i), records[:i+1]))
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
	e.Use(plan.NewSnapshotOf(1, append(tenantGroups(t), tiered())))
	used := heapInUse() - before
	t.Logf("200,000 keys in 250 objects: %.1f MiB", float64(used)/(1<<20))
	g.Expect(used).To(BeNumerically("<", 10<<20))
	runtime.KeepAlive(e)
}
