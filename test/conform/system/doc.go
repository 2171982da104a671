// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package system runs rate limiters as programs: it writes their configuration, starts, stops and restarts
// them and their stores, moves their clocks, and asks them over the protocols they serve.
//
// To add a limiter, implement System in a file of its own and list it in All.
//
// Reading order: system.go (what a limiter has to do), environment.go (folders, addresses and processes),
// process.go, store.go (Redis), sentinel.go, clock.go, protocol.go (Envoy's rate limit protocol), then one file
// per limiter: weir.go, ratelimit.go, limitador.go, gubernator.go with gubernator_protocol.go.
package system
