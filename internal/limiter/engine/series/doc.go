// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package series has the metrics that count for each policy, or for each Namespace: counters.go lists them, series.go creates and
// deletes their series. It knows plans, and nothing of checks and decisions.
package series
