// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package slicecache decides checks from slices. A slice is a hold of units of one policy and key that this replica takes
// from the store in advance, spends by itself, and commits. To every other replica its units are in use, so that
// admissions never exceed a quota.
//
// # Why a check never exceeds a quota
//
// A unit is admitted while the hold of its slice is in the store:
//
//   - The hold outlives the slice. A replica spends from a slice for MaxAge after it first sent the call that takes it;
//     the store keeps the hold for longer, counted from when it got the call. The clock is read after a unit was
//     taken from the slice, so that a thread that was paused in between admits nothing.
//   - A slice is replaced in three steps: take the next one, spend from it, commit the former one. In one call, a unit of
//     the former slice could be spent while the call that drops it is on its way.
//   - To spend from a slice and to seal it are changes of one word. What is committed was counted after the seal.
//   - A take and a commit are repeated with the same random ID, which no caller can name. The store does each once,
//     unless an early attempt arrives after the commit: it leaves a hold that no replica spends from.
//   - A hold whose commit does not arrive is spent as a whole.
//
// A unit is recorded when its slice is committed, which is not before it was admitted. So a limit counts it for
// longer, never for shorter.
//
// Reading order: cache.go (Cache), slice.go (one slice, and the slices of a key), keys.go (the keys that have slices), exchange.go
// (take, switch, commit), commits.go (commits in the background), demand.go (which keys take slices, and of what size), ending.go (slices that end before they are
// spent), clock.go, clock_linux.go and clock_other.go (the time since the machine started), metrics.go (Prometheus metrics).
package slicecache
