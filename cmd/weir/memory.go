// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// memoryRatio is the share of the memory limit of the cgroup that the Go runtime may use.
	memoryRatio = 0.9
	// smallHeapPercent lets a small heap grow to five times the live data before a collection.
	// Live data is usually a few megabytes of plans, while every decision allocates, so the
	// default of 100 would spend a fifth of the CPU on collections.
	smallHeapPercent = 400
	// largeHeap is the live data in bytes above which the heap only doubles: plans of thousands of
	// policies, or the counters of failureMode Local, of which a million keys are 140 MiB.
	largeHeap        = 64 << 20
	largeHeapPercent = 100
)

// tuneMemory sets the memory limit and the pace of the garbage collector. The environment
// variables GOMEMLIMIT and GOGC take precedence.
func tuneMemory(logger *slog.Logger) {
	if _, set := os.LookupEnv("GOGC"); !set {
		paceCollections()
	}
	if _, err := memlimit.Set(memlimit.WithRatio(memoryRatio)); err != nil {
		logger.Warn("Failed to set the memory limit of the Go runtime", "error", err)
	}
}

// paceCollections sets the pace of the garbage collector by the live data, now and after each
// collection.
func paceCollections() {
	percent := collectionPercent(liveBytes())
	debug.SetGCPercent(percent)
	afterCollection(func() {
		if next := collectionPercent(liveBytes()); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
	})
}

func collectionPercent(live uint64) int {
	if live > largeHeap {
		return largeHeapPercent
	}
	return smallHeapPercent
}

// liveBytes returns the live data of the last collection.
func liveBytes() uint64 {
	sample := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtimemetrics.Read(sample)
	return sample[0].Value.Uint64()
}

// afterCollection calls f after each collection, one call at a time.
func afterCollection(f func()) {
	sentinel := &[64]byte{} // unreachable from here on
	runtime.AddCleanup(sentinel, func(f func()) {
		f()
		afterCollection(f)
	}, f)
}
