// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reference is a naive model of the algorithms: it keeps every hit, and calculates with integers
// of any size. Tests compare the other stores with it; no program imports it.
//
// Reading order: model.go (Model), entry.go (an entry of a call, for package steps), states.go (the states of
// keys), hold.go (holds), log.go (the log of hits, shared by the sliding algorithms), deficit.go (the deficit of a
// bucket, shared by the algorithms that refill), fixed_window.go, sliding_log.go, sliding_window.go,
// token_bucket.go, gcra.go, suppressed.go (an algorithm each).
package reference
