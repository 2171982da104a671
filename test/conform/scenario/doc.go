// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenario is what the suite does to a rate limiter: it starts the limiter, sends calls, breaks things
// meanwhile, and judges the recorded calls.
//
// To add a scenario, write a function in the file where it belongs and list it in All.
//
// Reading order: scenario.go (the list and the results), run.go (what scenarios do), then the scenarios: exact.go (quotas under
// parallel calls), spending.go (costs, several limits, keys), times.go (announced times, edits, clocks), faults.go.
package scenario
