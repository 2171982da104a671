// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math/bits"
	"time"
)

// requestedState is added to the name of a state that only requested limits use. No
// override can have that name.
const requestedState = "+requested"

// Requested returns the limit with so many units per window, as a request may ask
// for. More units than the algorithm can count are as many as it can, and it
// always has at least one; a burst becomes the units, and buckets keep their share
// of the window. A limit that refills has another state then, for the reason that
// Limit.State gives, and so has a log with another window, which the policy's own
// checks would cut to theirs.
func (l Limit) Requested(units int64, window time.Duration) Limit {
	l.Threshold = max(1, min(units, l.maxThreshold()))
	switch {
	case l.Algorithm.Refills():
		l.Burst = l.Threshold
		l.State += requestedState
	case l.Algorithm == SlidingLog && window != l.Window():
		l.State += requestedState
	}
	l.BucketMicros = scale(l.BucketMicros, window.Milliseconds(), l.WindowMillis)
	l.WindowMillis = window.Milliseconds()
	return l
}

// scale returns n*by/of for a part n of a whole that is at most of*1000. The product
// of a long bucket and a long window is more than an int64 holds.
func scale(n, by, of int64) int64 {
	high, low := bits.Mul64(uint64(n), uint64(by))   //nolint:gosec // none is negative
	quotient, _ := bits.Div64(high, low, uint64(of)) //nolint:gosec // at most by*1000
	return int64(quotient)                           //nolint:gosec // see above
}
