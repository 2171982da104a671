// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostile attacks a real weir process on a real Redis, and measures what others see. Its tenants
// have the worst policies that Weir accepts, its clients send the worst requests to every frontend. `make
// hostile` runs it.
//
// For each attack, the others call an unrelated policy at a fixed rate: in rounds beside the attack, and in
// alternate rounds beside as many ordinary requests a second. Only ratios of their latencies are judged,
// so the speed of the machine does not matter. docs/security.md has the worst figures.
//
// Reading order: hostile_test.go (the attacks), judge_test.go (rounds, and what is harm), machine_test.go (the
// CPU time of other processes), weir_test.go (the weir process), policies_test.go (its policies),
// others_test.go (the calls of the others), attacker_test.go (the process that attacks), requests_test.go
// (the worst requests), peers_test.go (the worst connections).
package hostile
