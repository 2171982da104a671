// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe collects which keys are denied and blocked and how much each policy decides, and
// shares it between replicas while it is being read.
//
// Reading order:
//
//	collector.go  Collector: from a denial to the summaries, and the loop
//	hot.go          counters of the keys that are denied most often
//	buffer.go       the buffer of denials and started blocks
//	summary.go      the most frequent keys of one policy (Space-Saving)
//	summaries.go    the summaries of all policies, within bounded memory
//	rates.go        samples of the counters of decisions
//	blocks.go     the lists of started blocks: write, read, unblock
//	part.go       what one replica observed, as it is shared
//	merge.go      from the parts of all replicas to one answer
//	exchange.go   parts in Redis, and Activity: the answer to a reader
//	handover.go   the part that a replica leaves when it ends, and since when the parts count
//	metrics.go
//
// # Cost
//
// A denial increments one counter, or is copied into a buffer: it takes no lock and, unless its key is
// long, no memory. Whatever does not fit is dropped and counted. One goroutine does the rest. See
// docs/decisions for the reasons.
package observe
