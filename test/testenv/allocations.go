// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import "testing"

// FewestAllocations returns the number of allocations of the run that needs the fewest. The race
// detector makes a sync.Pool drop some of its content, so not every run finds any.
func FewestAllocations(run func()) float64 {
	fewest := testing.AllocsPerRun(1, run)
	for range 100 {
		fewest = min(fewest, testing.AllocsPerRun(1, run))
	}
	return fewest
}
