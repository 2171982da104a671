// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/quota"
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

func BenchmarkDecideByGroup(b *testing.B) {
	for name, records := range map[string][]plan.Record{
		"without": {tiered()},
		"with":    append(tenantGroups(b), tiered()),
	} {
		b.Run(name, func(b *testing.B) {
			e := newAdmitting()
			e.Use(plan.NewSnapshotOf(1, records))
			checks := make([]*limiter.Check, 1024)
			for i := range checks {
				checks[i] = clientCheck(tenantKey(i * 190))
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if d, err := e.Decide(b.Context(), checks[i%len(checks)]); err != nil || !d.Allowed {
					b.Fatal(d, err)
				}
				i++
			}
		})
	}
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

func heapInUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// 200,000 keys take less memory in the decision half than docs/performance.md documents for a process.
func TestMemoryOfKeyGroups(t *testing.T) {
	g := NewWithT(t)
	before := heapInUse()
	e := newAdmitting()
	e.Use(plan.NewSnapshotOf(1, append(tenantGroups(t), tiered())))
	used := heapInUse() - before
	t.Logf("200,000 keys in 250 objects: %.1f MiB", float64(used)/(1<<20))
	g.Expect(used).To(BeNumerically("<", 24<<20))
	runtime.KeepAlive(e)
}
