// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"slices"
	"strconv"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// lua is how the scripts decide limits of an algorithm.
type lua struct {
	code quota.Algorithm
	// file is the Lua file of the algorithm, library one that it shares with others.
	file, library string
	// lean is true if lean.lua decides checks; see leanFile.
	lean bool
	// arguments returns the arguments of a limit after quota, window and block.
	arguments func(*quota.Limit) []int64
}

const (
	logLibrary     = "log.lua"
	deficitLibrary = "deficit.lua"
)

// luas are the algorithms in the order in which scripts are assembled. The index is the bit of an algorithm
// in a bit set.
var luas = [...]lua{
	{
		code: quota.FixedWindow, file: "fixed_window.lua", lean: true,
		arguments: func(l *quota.Limit) []int64 { return []int64{l.Ceiling(), exactTTL(l.LongestWindow())} },
	},
	{code: quota.SlidingLog, file: "sliding_log.lua", library: logLibrary, lean: true},
	{
		code: quota.SlidingWindow, file: "sliding_window.lua", library: logLibrary, lean: true,
		arguments: func(l *quota.Limit) []int64 { return []int64{l.Bucket.Microseconds(), l.Ceiling()} },
	},
	{code: quota.TokenBucket, file: "token_bucket.lua", library: deficitLibrary, lean: true, arguments: refillArguments},
	{code: quota.GCRA, file: "gcra.lua", library: deficitLibrary, lean: true, arguments: refillArguments},
	{
		code: quota.Suppressed, file: "suppressed.lua", library: logLibrary,
		arguments: func(l *quota.Limit) []int64 { return []int64{l.Bucket.Microseconds(), l.HardQuota} },
	},
	{code: quota.Concurrency, file: "concurrency.lua"},
}

func refillArguments(l *quota.Limit) []int64 { return []int64{l.Threshold, l.Ceiling()} }

func indexOf(a quota.Algorithm) int {
	i := slices.IndexFunc(luas[:], func(of lua) bool { return of.code == a })
	if i < 0 {
		panic("redisstore: unknown algorithm " + strconv.Quote(string(a)))
	}
	return i
}

func luaOf(a quota.Algorithm) *lua { return &luas[indexOf(a)] }

var suppressedBit = bitOf(quota.Suppressed)

func bitOf(a quota.Algorithm) uint { return 1 << indexOf(a) }
