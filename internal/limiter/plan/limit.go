// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"
)

// Algorithm names how a limit counts.
type Algorithm string

// The algorithms a plan may hold.
const (
	FixedWindow   Algorithm = "FixedWindow"
	SlidingLog    Algorithm = "SlidingLog"
	SlidingWindow Algorithm = "SlidingWindow"
	TokenBucket   Algorithm = "TokenBucket"
	GCRA          Algorithm = "GCRA"
	Suppressed    Algorithm = "Suppressed"
)

// Counts reports whether the algorithm counts units up to the threshold, so
// that refused checks can be counted and the threshold itself refused.
func (a Algorithm) Counts() bool { return a == FixedWindow || a == SlidingLog || a == SlidingWindow }

// Refills reports whether the algorithm gives units back evenly, and so takes
// a burst.
func (a Algorithm) Refills() bool { return a == TokenBucket || a == GCRA }

// Buckets reports whether the algorithm keeps time in buckets.
func (a Algorithm) Buckets() bool { return a == SlidingWindow || a == Suppressed }

// Bounds of what a limit has beside threshold and window.
const (
	minBucketWindowMillis = 2
	minHardLimitPercent   = 101
	maxHardLimitPercent   = 1000
	// A window is at least so many buckets, and at most so many.
	minBuckets, maxBuckets = 2, 1000
)

// Limit is one algorithm with its numbers.
type Limit struct {
	Name      string    `json:"name"`
	Algorithm Algorithm `json:"algorithm"`
	Threshold int64     `json:"threshold"`
	// WindowMillis is the length of the window in milliseconds.
	WindowMillis int64 `json:"windowMillis"`
	// Burst is the units that may pass in one instant; of algorithms that refill.
	Burst int64 `json:"burst,omitempty"`
	// BucketMicros is how finely time is kept, in microseconds; of algorithms
	// that keep it in buckets.
	BucketMicros int64 `json:"bucketMicros,omitempty"`
	// HardLimitPercent bounds what Suppressed ever admits per window, in percent
	// of the threshold.
	HardLimitPercent int64 `json:"hardLimitPercent,omitempty"`
	// BlockMillis is the penalty after a refusal in milliseconds; 0 is none.
	BlockMillis int64 `json:"blockMillis,omitempty"`
	// State names the state that counts, where it is not the one that all callers'
	// numbers share: an override that gives a limit another rate of refill has one
	// of its own, since what came back since the last time depends on the rate.
	// LimitsOf sets it; a plan does not hold it.
	State string `json:"-"`
}

// Quota is the number of units that limit admits, per window or, where it has
// a burst, in one instant.
func (p *Plan) Quota(limit Limit) int64 {
	switch {
	case limit.Algorithm.Refills():
		return limit.Burst
	case p.DenyWhen == ThresholdReached:
		return limit.Threshold - 1
	}
	return limit.Threshold
}

// HardQuota is the number of units that Suppressed never exceeds per window.
func (l Limit) HardQuota() int64 { return l.Threshold * l.HardLimitPercent / 100 }

// Window returns the length of the window.
func (l Limit) Window() time.Duration { return time.Duration(l.WindowMillis) * time.Millisecond }

// Bucket returns the length of a bucket.
func (l Limit) Bucket() time.Duration { return time.Duration(l.BucketMicros) * time.Microsecond }

// Block returns the length of the block a refusal starts; 0 is none.
func (l Limit) Block() time.Duration { return time.Duration(l.BlockMillis) * time.Millisecond }

func (p *Plan) validateLimits(fail func(string, ...any)) {
	if len(p.Limits) == 0 || len(p.Limits) > MaxLimits {
		fail("%d limits, want 1..%d", len(p.Limits), MaxLimits)
	}
	seen := map[string]bool{}
	for i, l := range p.Limits {
		at := fmt.Sprintf("limits[%d]", i)
		if !isName(l.Name) || seen[l.Name] {
			fail("%s.name %q must be a lower-case DNS name used once", at, l.Name)
		}
		seen[l.Name] = true
		p.validateLimit(fail, at, l)
	}
}

// validateLimit checks the numbers of a limit, which may be those it has under
// an override.
func (p *Plan) validateLimit(fail func(string, ...any), at string, l Limit) {
	oneOf(fail, at+".algorithm", l.Algorithm, FixedWindow, SlidingLog, SlidingWindow, TokenBucket, GCRA, Suppressed)
	if l.Threshold < 1 || l.Threshold > l.maxThreshold() || p.DenyWhen == ThresholdReached && l.Threshold < 2 {
		fail("%s.threshold %d is out of bounds", at, l.Threshold)
	}
	if l.WindowMillis < 1 || l.WindowMillis > MaxWindow.Milliseconds() {
		fail("%s: a window of %d ms is out of bounds", at, l.WindowMillis)
	}
	if l.BlockMillis < 0 || l.BlockMillis > MaxWindow.Milliseconds() {
		fail("%s: a block of %d ms is out of bounds", at, l.BlockMillis)
	}
	if !l.Algorithm.Counts() && (p.Counting == CountAttempts || p.DenyWhen == ThresholdReached) {
		fail("%s.algorithm %q neither counts attempts nor refuses at the threshold", at, l.Algorithm)
	}
	l.validateBurst(fail, at)
	l.validateBucket(fail, at)
	l.validateHardLimit(fail, at)
}

func (l Limit) validateBurst(fail func(string, ...any), at string) {
	smallest, largest := int64(0), int64(0)
	if l.Algorithm.Refills() {
		smallest, largest = 1, MaxThreshold
	}
	if l.Burst < smallest || l.Burst > largest {
		fail("%s.burst %d is out of bounds", at, l.Burst)
	} else if l.Threshold > 0 && l.Burst*min(l.WindowMillis, MaxWindow.Milliseconds())/l.Threshold > MaxRefill.Milliseconds() {
		fail("%s.burst %d takes more than a hundred years to come back", at, l.Burst)
	}
}

func (l Limit) validateBucket(fail func(string, ...any), at string) {
	if !l.Algorithm.Buckets() {
		if l.BucketMicros != 0 {
			fail("%s: a bucket of %d us needs another algorithm", at, l.BucketMicros)
		}
		return
	}
	window := l.WindowMillis * 1000
	if l.WindowMillis < minBucketWindowMillis || l.BucketMicros > window/minBuckets || l.BucketMicros < window/maxBuckets {
		fail("%s: a bucket of %d us is out of bounds for a window of %d ms", at, l.BucketMicros, l.WindowMillis)
	}
}

func (l Limit) validateHardLimit(fail func(string, ...any), at string) {
	smallest, largest := int64(0), int64(0)
	if l.Algorithm == Suppressed {
		smallest, largest = minHardLimitPercent, maxHardLimitPercent
	}
	if l.HardLimitPercent < smallest || l.HardLimitPercent > largest {
		fail("%s.hardLimitPercent %d is out of bounds", at, l.HardLimitPercent)
	}
}

func (l Limit) maxThreshold() int64 {
	if l.Algorithm == SlidingLog {
		return MaxLogThreshold
	}
	return MaxThreshold
}
