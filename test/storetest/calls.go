// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// SlowLimit returns a limit that admits size units, and then no more for hours.
func SlowLimit(algorithm store.Algorithm, size int64) store.Limit {
	l := store.Limit{Name: "l", Algorithm: algorithm, Quota: size, Threshold: size, Window: 100 * time.Hour}
	switch algorithm {
	case store.FixedWindow, store.SlidingLog, store.Concurrency:
	case store.GCRA, store.TokenBucket:
		l.Threshold = 1
	case store.SlidingWindow:
		l.Bucket = time.Minute
	case store.Suppressed: // sheds nothing at a draw of 0, so the hard limit is its quota
		l.Bucket, l.HardQuota = time.Minute, size
	}
	return l
}

// WideLimit returns a limit with more units than a test spends. A unit of a bucket returns after a minute.
func WideLimit(algorithm store.Algorithm) store.Limit {
	l := SlowLimit(algorithm, 100_000_000)
	if l.Threshold == 1 {
		l.Window = time.Minute
	}
	return l
}

// Blocking returns the limit with blocks of an hour.
func Blocking(l store.Limit) store.Limit {
	l.Block = time.Hour
	return l
}

// SpendOne returns a call that spends one unit of the key.
func SpendOne(policy *store.Policy, key store.Key) *store.Call {
	return &store.Call{Entries: []store.Entry{{Policy: policy, Key: key, Cost: 1}}}
}

// PeekOf returns the call as one that spends nothing.
func PeekOf(call *store.Call) *store.Call {
	peek := &store.Call{Entries: slices.Clone(call.Entries)}
	for i := range peek.Entries {
		peek.Entries[i].Peek = true
	}
	return peek
}
