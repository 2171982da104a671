// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
)

// replicaSizes are the numbers of plans for which docs/performance.md lists what an edit, a decision and a plan cost.
var replicaSizes = []int{10, 1_000, 5_000, 20_000}

// BenchmarkEdit measures the time from the bytes of one edited plan until decisions use it.
func BenchmarkEdit(b *testing.B) {
	for _, n := range replicaSizes {
		b.Run(fmt.Sprintf("plans=%d", n), func(b *testing.B) {
			r := newLoadedReplica(b, n)
			r.heapAllocated() // collects what loading has left
			var took durations
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				fields := r.edited(b, i%n)
				took.measure(func() { r.apply(fields, false) })
			}
			took.report(b)
		})
	}
}

// BenchmarkDecide measures decisions of ten policies among all, also right after an edit of one of the ten.
func BenchmarkDecide(b *testing.B) {
	const used = 10
	for _, n := range replicaSizes {
		r := newLoadedReplica(b, n)
		var checks [used]limiter.Check
		for i := range checks {
			checks[i] = limiter.Check{Cost: 1, Attributes: plan.Attributes{Host: hostOf(i * n / used)}}
		}
		r.heapAllocated() // collects what loading has left
		for _, edits := range []bool{false, true} {
			b.Run(fmt.Sprintf("plans=%d/edits=%t", n, edits), func(b *testing.B) {
				var took durations
				for i := 0; b.Loop(); i++ {
					if edits {
						r.apply(r.edited(b, i*7%used*n/used), false)
					}
					took.measure(func() { r.decide(b, checks[i%used]) })
				}
				took.report(b)
			})
		}
	}
}

// durations are measured times. Their percentiles compare on a machine that other programs use, too; means do not.
type durations []time.Duration

func (d *durations) measure(do func()) {
	start := time.Now()
	do()
	*d = append(*d, time.Since(start))
}

// report reports percentiles, and not the mean, which includes what is not measured.
func (d *durations) report(b *testing.B) {
	b.Helper()
	slices.Sort(*d)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64((*d)[len(*d)/2]), "p50-ns")
	b.ReportMetric(float64((*d)[len(*d)*99/100]), "p99-ns")
}

// BenchmarkHeapOfPlans reports the live heap that a plan needs in a process that only decides: when it is loaded, and when
// every plan has decided on a real Redis.
func BenchmarkHeapOfPlans(b *testing.B) {
	for _, n := range replicaSizes[1:] {
		b.Run(fmt.Sprintf("plans=%d", n), func(b *testing.B) {
			for b.Loop() {
				backend := redisstore.NewStore(redisstore.Options{Client: newCluster(b).client, Prefix: "weir:", Timeout: 5 * time.Second})
				r := &loadedReplica{}
				before := r.heapAllocated()
				perPlan := func() float64 { return (r.heapAllocated() - before) / 1024 / float64(n) }
				r = newLoadedReplicaOn(b, n, backend)
				b.ReportMetric(perPlan(), "KiB/plan")
				for i := range n {
					r.decide(b, limiter.Check{Cost: 1, Attributes: plan.Attributes{Host: hostOf(i)}})
				}
				b.ReportMetric(perPlan(), "KiB/used-plan")
				runtime.KeepAlive(r)
			}
		})
	}
}

// loadedReplica is a replica that has loaded plans with two limits and a host of their own each.
type loadedReplica struct {
	watcher   *Watcher
	engine    *engine.Engine
	header    header
	threshold int64
}

func newLoadedReplica(tb testing.TB, n int) *loadedReplica {
	tb.Helper()
	return newLoadedReplicaOn(tb, n, twoLimitStore)
}

func newLoadedReplicaOn(tb testing.TB, n int, backend engine.Store) *loadedReplica {
	tb.Helper()
	fields := make(map[string]string, n)
	r := &loadedReplica{
		engine: engine.New(engine.Options{
			Store: backend, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		}),
		watcher: NewWatcher(nil, testPrefix, WatcherOptions{
			Installation: NewInstallation(testOwner, ""), Replica: "a", Logger: slog.New(slog.DiscardHandler),
		}),
	}
	r.watcher.applySnapshot = r.engine.Use
	for i := range n {
		p := hostPlan(i, 5)
		fields[p.ID()] = encodedText(tb, p)
	}
	r.apply(fields, true)
	return r
}

func hostOf(i int) string { return fmt.Sprintf("h%d.example.com", i) }

// hostPlan returns the i-th plan.
func hostPlan(i int, threshold int64) *plan.Plan {
	p := makePlan(fmt.Sprintf("p%d", i), threshold)
	p.Matches = []plan.Match{{Hosts: []string{hostOf(i)}}}
	hourly := p.Limits[0]
	hourly.Name, hourly.Threshold = "hourly", threshold+1
	p.Limits = append(p.Limits, hourly)
	return p
}

func encodedText(tb testing.TB, r plan.Record) string {
	tb.Helper()
	data, err := plan.Encode(r)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

// apply loads the fields as the Watcher does after it has read them.
func (r *loadedReplica) apply(fields map[string]string, all bool) {
	r.header.revision++
	next, _ := r.watcher.loaded.next(&r.header, fields, all)
	next.digest = formatDigest(next.sum)
	r.watcher.use(next, &r.header, prometheus.NewTimer(nil))
}

// edited returns the i-th plan with another threshold, encoded by ID.
func (r *loadedReplica) edited(tb testing.TB, i int) map[string]string {
	tb.Helper()
	r.threshold++
	p := hostPlan(i, 10+r.threshold)
	return map[string]string{p.ID(): encodedText(tb, p)}
}

func (r *loadedReplica) decide(tb testing.TB, check limiter.Check) {
	tb.Helper()
	if d, err := r.engine.Decide(tb.Context(), &check); err != nil || !d.Allowed {
		tb.Fatal(d, err)
	}
}

// heapAllocated returns the bytes of the live heap.
func (*loadedReplica) heapAllocated() float64 {
	runtime.GC()
	runtime.GC() // frees what had a finalizer
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// admittingStore admits every call.
type admittingStore struct {
	engine.Store

	reply store.Reply
}

var twoLimitStore = &admittingStore{reply: store.Reply{Entries: []store.EntryReply{{Limits: []store.LimitReply{{Admits: true}, {Admits: true}}}}}}

func (s *admittingStore) Evaluate(context.Context, *store.Call) (*store.Reply, error) {
	return &s.reply, nil
}
