// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package seeds

// Race is false without the race detector.
const Race = false
