// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenario has what the suite does to a rate limiter: it starts the limiter, sends calls, breaks something
// meanwhile, and judges the recorded calls.
//
// To add a scenario, write a function in the file where it belongs and list it in All.
//
// Read the files in this order:
//
//	scenario.go  All, and the results
//	run.go       the calls of one scenario
//	exact.go     quotas under parallel calls
//	spending.go  costs, several limits, keys
//	times.go     announced times, edits, clocks
//	faults.go    faults under load
package scenario
