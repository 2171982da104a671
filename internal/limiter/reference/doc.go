// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reference is a naive model of the algorithms: it keeps every hit, and calculates with integers
// of any size. Tests compare the other stores with it; no program imports it.
//
// Reading order: model.go (Model), states.go (its states), hold.go (holds), escalation.go (blocks that
// become longer), log.go (the log of hits, shared by the sliding algorithms), deficit.go (the deficit of
// a bucket, shared by the algorithms that refill), fixed_window.go, sliding_log.go, sliding_window.go,
// token_bucket.go, gcra.go, suppressed.go, concurrency.go (an algorithm each).
package reference
