// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "time"

// Requested returns the limit with so many units per window, as a request may ask
// for. More units than the algorithm can count are as many as it can, and it
// always has at least one; a burst becomes the units, and buckets keep their share
// of the window.
func (l Limit) Requested(units int64, window time.Duration) Limit {
	l.Threshold = max(1, min(units, l.maxThreshold()))
	if l.Algorithm.Refills() {
		l.Burst = l.Threshold
	}
	l.BucketMicros = l.BucketMicros * window.Milliseconds() / l.WindowMillis
	l.WindowMillis = window.Milliseconds()
	return l
}
