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
	// smallHeapPercent lets a small heap grow to four times the live data before a collection. Live data is
	// usually a few megabytes of plans, while every decision allocates: a check costs 4 % more CPU with 200
	// and 15 % more with the default of 100, while more than 300 gains nothing and takes more memory.
	smallHeapPercent = 300
	// largeHeap is by how many bytes a heap may grow before it only doubles: with plans of thousands of
	// policies, or the counters of failureMode Local, of which a million keys are 140 MiB.
	largeHeap        = 64 << 20
	largeHeapPercent = 100
	// scannedPercent is how much the heap may grow, relative to the live data that a collection must scan for pointers.
	// The rest, such as 200,000 keys of groups, makes collections hardly longer, and needs no room of its own.
	scannedPercent = 550
	// percentStep keeps the percentage from changing after each collection, because a change stops all goroutines.
	percentStep = 50
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
	percent := collectionPercent(liveData())
	debug.SetGCPercent(percent)
	afterCollection(func() {
		if next := collectionPercent(liveData()); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
	})
}

// collectionPercent returns how much the heap may grow beyond the live data, of which the collector scans a part.
func collectionPercent(live, scanned uint64) int {
	if live == 0 { // no collection yet
		return smallHeapPercent
	}
	percent := min(scannedPercent*scanned/live, 100*largeHeap/live)
	percent -= percent % percentStep
	return int(min(max(percent, largeHeapPercent), smallHeapPercent))
}

// liveData returns the bytes of the live data of the last collection, and how many of the heap can have pointers.
func liveData() (live, scanned uint64) {
	samples := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
	runtimemetrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}

// afterCollection calls f after each collection, one call at a time.
func afterCollection(f func()) {
	sentinel := &[64]byte{} // unreachable from here on
	runtime.AddCleanup(sentinel, func(f func()) {
		f()
		afterCollection(f)
	}, f)
}
