// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults runs real weir processes on real Redis servers under continuous load, and breaks
// something. The clients record every call; a checker judges the history: what was admitted beyond
// the quota, and for how long failure modes decided. docs/reliability.md has the figures.
//
// Reading order: history_test.go (calls and what is wrong with them), checker_test.go (wrong
// histories), weir_test.go (weir processes), load_test.go (the clients), run_test.go (one fault
// under load), replication_test.go (what a failover lost) with replication_checker_test.go,
// single_test.go, failover_test.go, processes_test.go, operator_test.go and publish_test.go (the
// faults), page_test.go (docs/reliability.md), flood_test.go (new keys), streams_test.go (reservations),
// soak_test.go (random faults).
package faults
