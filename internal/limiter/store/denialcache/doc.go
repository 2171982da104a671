// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package denialcache remembers denials of a store, so that callers that are denied again and again
// are answered in this process.
//
// Reading order: cache.go (Cache), denial.go (one denial and how long it is certain), rechecks.go (when a call asks
// Redis again), renew.go (questions for which no caller waits), changes.go (dropping denials when a replica changes a
// key), entries.go (the entries of denied chains, for other chains).
package denialcache
