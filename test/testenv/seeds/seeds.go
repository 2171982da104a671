// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package seeds numbers the random operations of tests: many, or few with -short.
//
//	seeds.go              the seeds
//	race.go, norace.go    whether the race detector runs
package seeds

import (
	"iter"
	"os"
	"strconv"
	"testing"
)

// firstSeedEnv names the environment variable with the first seed, by default 0.
const firstSeedEnv = "WEIR_TEST_FIRST_SEED"

// InMemory returns the seeds of random operations in memory: n, or a tenth of them with -short.
func InMemory(n int) iter.Seq[uint64] { return seeds(n, 1, 10) }

// OnServer returns the seeds of random operations that call a server: n, or three eighths of them with -short.
func OnServer(n int) iter.Seq[uint64] { return seeds(n, 3, 8) }

// raceTimes is by how many times fewer seeds are with -short and the race detector. It takes five to fifteen times the
// time, and finds nothing more in what a single goroutine does.
const raceTimes = 3

// seeds returns n seeds, or with -short part/of of them, rounded up. They begin with the one in the environment.
func seeds(n, part, of int) iter.Seq[uint64] {
	if testing.Short() {
		if Race {
			of *= raceTimes
		}
		n = (n*part + of - 1) / of
	}
	first, err := uint64(0), error(nil)
	if text := os.Getenv(firstSeedEnv); text != "" {
		first, err = strconv.ParseUint(text, 10, 64)
	}
	return func(yield func(uint64) bool) {
		if err != nil {
			panic(firstSeedEnv + ": " + err.Error())
		}
		for i := range uint64(n) {
			if !yield(first + i) {
				return
			}
		}
	}
}
