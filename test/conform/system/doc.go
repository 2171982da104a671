// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package system runs rate limiters as programs: it writes their configuration, starts, stops and restarts
// them and their stores, moves their clocks, and calls them over the protocols that they serve.
//
// To add a limiter, implement System in a file of its own and list it in All.
//
// Read the files in this order:
//
//	system.go        System: what a limiter has to do
//	environment.go   Environment: folders, addresses and processes
//	process.go       Process: a program that can be restarted
//	parent_linux.go  processes on Linux; parent_other.go elsewhere
//	store.go         Redis
//	sentinel.go      Redis with sentinels
//	clock.go         clocks that differ
//	protocol.go      Envoy's rate limit protocol
//	cluster.go       instances that were started one after the other
//	weir.go          Weir
//	ratelimit.go     envoyproxy/ratelimit
//	limitador.go     Limitador
//	gubernator.go    gubernator
package system
