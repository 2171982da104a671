// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory decides limits in this process, with the replies that package redisstore gets
// from Redis. It is the store of an endpoint without Redis, and decides for policies with failureMode
// Local while Redis does not answer.
//
// Reading order:
//
//	store.go         Store: Evaluate, and the removal of expired callers
//	decision.go      one call on its way to its reply
//	hold.go          holds: estimates of reservations
//	charges.go       the IDs of charges
//	operator.go      reset, block and unblock one key
//	escalation.go    blocks that become longer
//	blocks.go        the lists of blocks
//	view.go          an entry of a call, and one limit of it; the interface of the algorithms
//	fixed_window.go    FixedWindow
//	token_bucket.go    TokenBucket
//	gcra.go            GCRA
//	deficit.go         what TokenBucket and GCRA have in common: how far a bucket is from full
//	sliding.go         SlidingLog and SlidingWindow
//	suppressed.go      Suppressed
//	log.go             the log of hits of SlidingLog, SlidingWindow and Suppressed
//	caller.go        one key of one policy, and its states
//	shard.go         a part of the callers
//	wheel.go         the order in which states expire
//	slab.go          memory for values without pointers
//	metrics.go       how much of the store is in use
//
// # How it differs from Redis
//
//   - A chain is decided at one instant: a call locks the shards of all its keys, in ascending
//     order, before it reads the clock. The keys of a caller in all policies share a shard.
//   - Nothing is rounded to a double.
//   - The clock never goes back.
//   - The number of callers is bounded, and so is the memory; see Options.Keys. A call also
//     removes some expired callers, so no scan is needed.
//
// The suite of package storetest compares its replies with the replies of reference.Model.
package memory
