// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// SlowLimit returns a limit that admits size units, and then no more for hours.
func SlowLimit(algorithm quota.Algorithm, size int64) quota.Limit {
	l := quota.Limit{Name: "l", Algorithm: algorithm, Quota: size, Threshold: size, Window: 100 * time.Hour}
	switch algorithm {
	case quota.FixedWindow, quota.SlidingLog, quota.Concurrency:
	case quota.GCRA, quota.TokenBucket:
		l.Threshold = 1
	case quota.SlidingWindow:
		l.Bucket = time.Minute
	case quota.Suppressed: // sheds nothing at a draw of 0, so the hard limit is its quota
		l.Bucket, l.HardQuota = time.Minute, size
	}
	return l
}

// WideLimit returns a limit with more units than a test spends. A unit of a bucket returns after a minute.
func WideLimit(algorithm quota.Algorithm) quota.Limit {
	l := SlowLimit(algorithm, 100_000_000)
	if l.Threshold == 1 {
		l.Window = time.Minute
	}
	return l
}

// Blocking returns the limit with blocks of an hour.
func Blocking(l quota.Limit) quota.Limit {
	l.Block = time.Hour
	return l
}

// SpendOne returns a call that spends one unit of the key.
func SpendOne(policy *quota.Policy, key quota.Key) *quota.Call {
	return &quota.Call{Entries: []quota.Entry{{Policy: policy, Key: key, Cost: 1}}}
}

// PeekOf returns the call as one that spends nothing.
func PeekOf(call *quota.Call) *quota.Call {
	peek := &quota.Call{Entries: slices.Clone(call.Entries)}
	for i := range peek.Entries {
		peek.Entries[i].Peek = true
	}
	return peek
}
