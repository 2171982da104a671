// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math/bits"
	"strconv"
	"time"
)

// requestedSuffix ends the StateSuffix of requested limits. The name of an override cannot
// contain it.
const requestedSuffix = "+requested"

// Requested returns the limit with the units and the window that an Envoy descriptor
// requests in its `limit` field.
//
//   - The units are capped at the largest threshold of the algorithm, and at least 1.
//   - A calendar whose periods usually have the length of the window stays; another one is replaced.
//   - They replace the burst, if any. A bucket keeps its share of the window.
//   - A limit that refills gets a separate state for each number of units, for the reason
//     given at Limit.StateSuffix. A SlidingLog with another window gets one for the window,
//     since checks of the policy itself would drop hits that it needs.
func (l Limit) Requested(units int64, window time.Duration) Limit {
	l.Threshold = max(1, min(units, l.Algorithm.MaxThreshold()))
	if l.Calendar != nil && l.NominalWindow() == window {
		return l
	}
	switch {
	case l.Algorithm.Refills():
		l.Burst = l.Threshold
		l.StateSuffix += requestedSuffix + strconv.FormatInt(l.Threshold, 10)
	case l.Algorithm == SlidingLog && window != l.Window():
		l.StateSuffix += requestedSuffix
	}
	l.BucketMicros = scale(l.BucketMicros, window.Milliseconds(), l.NominalWindow().Milliseconds())
	l.Calendar, l.WindowMillis = nil, window.Milliseconds()
	return l
}

// scale returns n*by/of for a part n of a whole that is at most of*1000. The product
// of a long bucket and a long window is more than an int64 holds.
func scale(n, by, of int64) int64 {
	high, low := bits.Mul64(uint64(n), uint64(by))   //nolint:gosec // none is negative
	quotient, _ := bits.Div64(high, low, uint64(of)) //nolint:gosec // at most by*1000
	return int64(quotient)                           //nolint:gosec // see above
}
