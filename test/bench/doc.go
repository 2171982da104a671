// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bench compares Weir with services that do nothing, and with other rate limiters,
// on the same machine in the same run. `make bench-compare` runs it; `make bench-check` fails
// if Weir has become slower than docs/performance.md documents, or takes more instructions than before.
//
// Reading order of its files, all of which are tests:
//
//	compare_test.go       the parts of the comparison, and scenarios, whose rounds pair loads
//	target_test.go        the processes under load, and the CPU time they use
//	noop_test.go          services that answer without deciding
//	peers_test.go         other rate limiters
//	client_test.go        callers over gRPC and HTTP
//	load_test.go          closed-loop and paced loads
//	protocol_test.go      parts: gRPC, HTTP, number of policies
//	envoy_test.go         part: what limiters add to requests through Envoy
//	pace_test.go          parts: latency at half load, one hot key
//	slices_test.go        parts: slices, keys of different heat
//	redis_test.go         parts: Redis Cluster, a hung Redis
//	scripts_test.go       part: the engine and redis-benchmark
//	edit_test.go          part: from an edit to its enforcement
//	million_test.go       part: the cost of 1,000,000 decisions a second
//	check_test.go         BenchmarkCheck
//	instructions_test.go  BenchmarkInstructions
//	report_test.go        tables
//	plot_test.go          the plot
//	page_test.go          docs/performance.md
package bench
