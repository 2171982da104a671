// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// memoryRatio is the share of the memory limit of the cgroup that the Go runtime may use.
	memoryRatio = 0.9
	// gcPercent lets the heap grow to five times the live data before a collection. Live data
	// is a few megabytes of plans, while every decision allocates, so the default of 100 would
	// spend a fifth of the CPU on collections.
	gcPercent = 400
)

// tuneMemory sets the memory limit and the pace of the garbage collector. The environment
// variables GOMEMLIMIT and GOGC take precedence.
func tuneMemory(logger *slog.Logger) {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
	if _, err := memlimit.Set(memlimit.WithRatio(memoryRatio)); err != nil {
		logger.Warn("Failed to set the memory limit of the Go runtime", "error", err)
	}
}
