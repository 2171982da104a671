// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"slices"
	"strconv"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// binding binds an algorithm, or the holds of keys, to its Lua files and their arguments.
type binding struct {
	code store.Algorithm // empty for holds
	// general, fast and shared are the Lua files for the general path, for fast.lua, and for both. fast is empty
	// if fast.lua decides no checks by the algorithm.
	general, fast, shared []string
	// arguments returns the arguments of a limit after quota, window and block.
	arguments func(*store.Limit) []int64
}

// bindings are in the order in which scripts are assembled. The index is the bit of a binding in a bit set.
var bindings = [...]binding{
	{
		code:      store.FixedWindow,
		general:   []string{"fixed_window.lua"},
		fast:      []string{"fixed_window_fast.lua"},
		arguments: func(l *store.Limit) []int64 { return []int64{l.Ceiling(), exactTTL(l.LongestWindow())} },
	},
	{
		code:    store.SlidingLog,
		general: []string{"log.lua", "sliding_log.lua"},
		fast:    []string{"log_fast.lua", "sliding_log_fast.lua"},
		shared:  []string{"clock.lua", "log_search.lua"},
	},
	{
		code:      store.SlidingWindow,
		general:   []string{"log.lua", "sliding_window.lua"},
		fast:      []string{"log_fast.lua", "sliding_window_fast.lua"},
		shared:    []string{"clock.lua", "log_search.lua"},
		arguments: func(l *store.Limit) []int64 { return []int64{l.Bucket.Microseconds(), l.Ceiling()} },
	},
	{
		code:      store.TokenBucket,
		general:   []string{"deficit.lua", "token_bucket.lua"},
		fast:      []string{"token_bucket_fast.lua"},
		shared:    []string{"clock.lua", "deficit_wait.lua", "bucket.lua"},
		arguments: refillArguments,
	},
	{
		code:      store.GCRA,
		general:   []string{"deficit.lua", "gcra.lua"},
		fast:      []string{"gcra_fast.lua"},
		shared:    []string{"clock.lua", "deficit_wait.lua", "arrival.lua"},
		arguments: refillArguments,
	},
	{
		code:      store.Suppressed,
		general:   []string{"log.lua", "suppressed.lua"},
		shared:    []string{"clock.lua", "log_search.lua"},
		arguments: func(l *store.Limit) []int64 { return []int64{l.Bucket.Microseconds(), l.HardQuota} },
	},
	{code: store.Concurrency, general: []string{"concurrency.lua"}},
	{fast: []string{"hold_fast.lua"}, shared: []string{"clock.lua"}},
}

func refillArguments(l *store.Limit) []int64 { return []int64{l.Threshold, l.Ceiling()} }

func indexOf(a store.Algorithm) int {
	i := slices.IndexFunc(bindings[:], func(b binding) bool { return b.code == a })
	if i < 0 {
		panic("redisstore: unknown algorithm " + strconv.Quote(string(a)))
	}
	return i
}

func bindingOf(a store.Algorithm) *binding { return &bindings[indexOf(a)] }

var suppressedBit, holdsBit = bitOf(store.Suppressed), bitOf("")

func bitOf(a store.Algorithm) uint { return 1 << indexOf(a) }
