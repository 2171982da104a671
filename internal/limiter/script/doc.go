// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package script decides: it holds the Lua scripts that run inside Redis, the
// Go that assembles and calls them, the layout of the counter keys, and a
// model in plain Go that decides exactly as the scripts do.
//
// One Call is one atomic decision about one or several (policy, key) pairs
// and costs one EVALSHA, however many limits take part. Only in a Redis Cluster,
// where keys may lie on several nodes, does a call with several keys take more
// (spread.go). The package knows neither plans nor requests: it is given typed
// numbers and returns typed numbers, so the scripts can be tested with nothing
// but a Redis.
//
// An algorithm is one Lua and one Go file; those that keep logs of hits share
// log.lua, those that refill share deficit.lua. The Go file holds what scripts
// are given for a limit, and the reference model.
//
// # How a decision is made
//
// The script that runs is assembled from prelude.lua, the algorithms in play,
// entry.lua and decide.lua. It goes through three phases:
//
//  1. Read. Every entry's block and limits are read; nothing is written. An
//     entry is admitted when no block is live and every limit fits its cost.
//  2. Spend. When every enforcing entry is admitted, each admitted entry
//     spends. When one is denied, only entries that count attempts and are
//     not blocked themselves spend, and Suppressed notes what it observed. An
//     entry that denies starts its block.
//  3. Report. What is held now and, if somebody was denied, how long each
//     limit needs until the same call fits.
//
// # Facts about Redis the scripts rely on
//
//   - Redis answers integers: a float in a reply is cut, a nil ends it. All
//     times in replies are microseconds.
//   - A number passed to redis.call is written with 17 digits, so 16-digit
//     microsecond times survive; tostring and .. keep only 14 digits and are
//     never used on numbers.
//   - A key whose PTTL is 0 is still there; it goes with the next
//     millisecond. Waits that depend on a TTL are therefore PTTL+1.
//   - A script sees one moment for expiry, however long it runs.
package script
