// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bench compares Weir with services that do nothing, and with other rate limiters,
// on the same machine in the same run. `make bench-compare` runs it.
//
// Reading order of its files, all of which are tests:
//
//	compare_test.go   the benchmarks: scenarios, and rounds that pair the targets
//	target_test.go    the processes under load, and the CPU time they use
//	noop_test.go      services that answer without deciding
//	load_test.go      closed-loop callers over gRPC and HTTP
//	report_test.go    tables and the plot
package bench
