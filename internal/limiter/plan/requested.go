// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "time"

// requestedState is added to the name of a state that only requested limits use. No
// override can have that name.
const requestedState = "+requested"

// Requested returns the limit with so many units per window, as a request may ask
// for. More units than the algorithm can count are as many as it can, and it
// always has at least one; a burst becomes the units, and buckets keep their share
// of the window. A limit that refills has another state then, for the reason that
// Limit.State gives.
func (l Limit) Requested(units int64, window time.Duration) Limit {
	l.Threshold = max(1, min(units, l.maxThreshold()))
	if l.Algorithm.Refills() {
		l.Burst = l.Threshold
		l.State += requestedState
	}
	l.BucketMicros = l.BucketMicros * window.Milliseconds() / l.WindowMillis
	l.WindowMillis = window.Milliseconds()
	return l
}
