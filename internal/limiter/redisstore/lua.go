// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"slices"
	"strconv"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// binding binds an algorithm to its Lua files and their arguments.
type binding struct {
	code quota.Algorithm
	// general, lean and shared are the Lua files for the general code, for lean.lua, and for both. lean is empty
	// if lean.lua decides no checks by the algorithm.
	general, lean, shared []string
	// arguments returns the arguments of a limit after quota, window and block.
	arguments func(*quota.Limit) []int64
}

// bindings are in the order in which scripts are assembled. The index is the bit of an algorithm
// in a bit set.
var bindings = [...]binding{
	{
		code:      quota.FixedWindow,
		general:   []string{"fixed_window.lua"},
		lean:      []string{"fixed_window_lean.lua"},
		arguments: func(l *quota.Limit) []int64 { return []int64{l.Ceiling(), exactTTL(l.LongestWindow())} },
	},
	{
		code:    quota.SlidingLog,
		general: []string{"log.lua", "sliding_log.lua"},
		lean:    []string{"log_lean.lua", "sliding_log_lean.lua"},
		shared:  []string{"log_search.lua"},
	},
	{
		code:      quota.SlidingWindow,
		general:   []string{"log.lua", "sliding_window.lua"},
		lean:      []string{"log_lean.lua", "sliding_window_lean.lua"},
		shared:    []string{"log_search.lua"},
		arguments: func(l *quota.Limit) []int64 { return []int64{l.Bucket.Microseconds(), l.Ceiling()} },
	},
	{
		code:      quota.TokenBucket,
		general:   []string{"deficit.lua", "token_bucket.lua"},
		lean:      []string{"deficit_lean.lua", "token_bucket_lean.lua"},
		shared:    []string{"bucket.lua"},
		arguments: refillArguments,
	},
	{
		code:      quota.GCRA,
		general:   []string{"deficit.lua", "gcra.lua"},
		lean:      []string{"deficit_lean.lua", "gcra_lean.lua"},
		shared:    []string{"arrival.lua"},
		arguments: refillArguments,
	},
	{
		code:      quota.Suppressed,
		general:   []string{"log.lua", "suppressed.lua"},
		shared:    []string{"log_search.lua"},
		arguments: func(l *quota.Limit) []int64 { return []int64{l.Bucket.Microseconds(), l.HardQuota} },
	},
	{code: quota.Concurrency, general: []string{"concurrency.lua"}},
}

func refillArguments(l *quota.Limit) []int64 { return []int64{l.Threshold, l.Ceiling()} }

func indexOf(a quota.Algorithm) int {
	i := slices.IndexFunc(bindings[:], func(b binding) bool { return b.code == a })
	if i < 0 {
		panic("redisstore: unknown algorithm " + strconv.Quote(string(a)))
	}
	return i
}

func bindingOf(a quota.Algorithm) *binding { return &bindings[indexOf(a)] }

var suppressedBit = bitOf(quota.Suppressed)

func bitOf(a quota.Algorithm) uint { return 1 << indexOf(a) }
