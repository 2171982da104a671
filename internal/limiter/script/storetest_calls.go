// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"slices"
	"time"
)

// SlowLimit returns a limit that admits size units, and then no more for hours.
func SlowLimit(algorithm Algorithm, size int64) Limit {
	l := Limit{Name: "l", Algorithm: algorithm, Quota: size, Threshold: size, Window: 100 * time.Hour}
	switch algorithm {
	case FixedWindow, SlidingLog, Concurrency:
	case GCRA, TokenBucket:
		l.Threshold = 1
	case SlidingWindow:
		l.Bucket = time.Minute
	case Suppressed: // sheds nothing at a draw of 0, so the hard limit is its quota
		l.Bucket, l.HardQuota = time.Minute, size
	}
	return l
}

// Blocking returns the limit with blocks of an hour.
func Blocking(l Limit) Limit {
	l.Block = time.Hour
	return l
}

// SpendOne returns a call that spends one unit of the key.
func SpendOne(policy *Policy, key Key) *Call {
	return &Call{Entries: []Entry{{Policy: policy, Key: key, Cost: 1}}}
}

// PeekOf returns the call as one that spends nothing.
func PeekOf(call *Call) *Call {
	peek := &Call{Entries: slices.Clone(call.Entries)}
	for i := range peek.Entries {
		peek.Entries[i].Peek = true
	}
	return peek
}
