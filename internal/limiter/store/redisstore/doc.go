// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redisstore decides calls of package quota atomically in Redis. It contains the Lua scripts,
// the Go code that assembles and calls them, and the layout of the counter keys.
//
// A call takes one EVALSHA. Only a call with more than 64 limits, and in a Redis Cluster one with several
// keys, takes more round trips. The scripts can be tested with nothing but a Redis.
//
// Reading order:
//
//	store.go           Store: sends calls to Redis
//	layout.go          the layout of the keys in Redis
//	node.go              one Redis node: its queue, its batches in flight
//	batch.go             the calls that wait for a batch, and their outcomes
//	breaker.go           when to stop asking a node
//	metrics.go           the metrics of the nodes
//	cluster.go           the nodes of a Redis Cluster
//	run.go               the runs of a batch: calls with the same policies
//	prepared.go          the keys, flags and arguments of a policy
//	dated.go             the arguments of a policy with calendars
//	command.go           the command for a batch
//	lua.go               the Lua files of each algorithm
//	program.go           the assembly of the scripts
//	protocol.go          the numbers that Go and Lua share
//	reply.go             the decoding of replies
//	repair.go            the report of counters that another program has overwritten
//	cause.go             the causes of errors of Redis
//	spread.go          a call that needs several script calls: with many limits, or on several nodes of a Redis Cluster
//	group.go             its groups, one for each script call
//	refund.go            the refund after a lost race
//	state.go           reset, block and unblock one key
//	changes.go         announcements of such changes to all replicas
//	holds.go           the open holds of a key
//	blocks.go          the lists of blocks
//
// program.go assembles the script for a batch from these files. lua.go lists the files of each algorithm.
//
//	base.lua           what all scripts need
//	clock.lua          the time of Redis; part of the general path, unless the fast path needs it
//	log_search.lua, deficit_wait.lua, bucket.lua, arrival.lua
//	                   what the fast and the general path of an algorithm share
//	*_fast.lua         the algorithms for plain checks, and the holds of a key
//	fast.lua           decides most checks
//	batch.lua          the loop over the runs; contains the general path, for all other calls:
//	prelude.lua          cursors, values, and what an algorithm is
//	hold.lua             the holds of a key, if a policy takes reservations; contains
//	hold_summary.lua, hold_list.lua, hold_window.lua
//	                       what the store has of them
//	hold_settle.lua, hold_reserve.lua, hold_change.lua
//	                       what calls do with them
//	log.lua, deficit.lua the state of several algorithms
//	fixed_window.lua, sliding_log.lua, sliding_window.lua, token_bucket.lua, gcra.lua, suppressed.lua, concurrency.lua
//	                     the algorithms
//	listed.lua           the list of the states of requested limits
//	entry.lua            reads the entries
//	decide.lua           decides a run
//
// To read them, begin with batch.lua. In the script for a refund, refund.lua follows base.lua and the general path
// without decide.lua. reset.lua, open_holds.lua and blocks.lua are scripts of their own.
//
// # How a decision is made
//
// A batch of calls runs in one script, one call after the other. Successive calls with the same
// policies are a run: their limits are prepared once, and one MGET reads their values. If they
// also have the same keys, each value is read and written once for all of them. fast.lua decides
// most checks of one policy, with any algorithm but Suppressed and Concurrency. For any other call
// decide.lua has three phases:
//
//  1. Read the blocks, holds and limits of every entry, and spend the holds that have ended. An
//     entry is admitted if its key has no live block and every limit admits its cost.
//  2. Write. If every enforcing entry is admitted, each admitted entry spends or holds its cost. If one is
//     denied, only entries that count attempts and are not blocked spend, Suppressed adds to the units it
//     observed, and each denied entry starts its block.
//  3. Report the units that are spent or held now and, after a denial, when the same call is admitted.
//
// # Facts about Redis that the scripts rely on
//
//   - Redis replies with integers: it truncates a float and ends an array at a nil. All
//     times in replies are microseconds.
//   - A number passed to redis.call keeps 17 digits, so 16-digit microsecond times
//     survive. tostring and .. keep only 14 digits and are never used on numbers.
//   - A key whose PTTL is 0 still exists; it expires with the next millisecond. Times to
//     wait that depend on a TTL are therefore PTTL+1.
//   - Expiry uses one moment for a whole script, regardless of its run time.
package redisstore
