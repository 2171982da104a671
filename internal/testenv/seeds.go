// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"iter"
	"os"
	"strconv"
	"testing"
)

// firstSeedEnv names the environment variable with the first seed, by default 0.
const firstSeedEnv = "WEIR_TEST_FIRST_SEED"

// Seeds returns the seeds of random operations in memory: n, or a tenth of them with -short.
func Seeds(n int) iter.Seq[uint64] { return seeds(n, 1, 10) }

// ServerSeeds returns the seeds of random operations that ask a server: n, or three eighths of them with -short.
func ServerSeeds(n int) iter.Seq[uint64] { return seeds(n, 3, 8) }

// seeds returns n seeds, or with -short part/of of them, rounded up. They begin with the one in the environment.
func seeds(n, part, of int) iter.Seq[uint64] {
	if testing.Short() {
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
