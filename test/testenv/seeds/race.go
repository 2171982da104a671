// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package seeds

// Race is true if the race detector runs.
const Race = true
