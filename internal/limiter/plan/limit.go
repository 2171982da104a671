// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strconv"
	"time"
)

// Algorithm determines how a limit counts.
type Algorithm string

// The algorithms a plan may hold.
const (
	FixedWindow   Algorithm = "FixedWindow"
	SlidingLog    Algorithm = "SlidingLog"
	SlidingWindow Algorithm = "SlidingWindow"
	TokenBucket   Algorithm = "TokenBucket"
	GCRA          Algorithm = "GCRA"
	Suppressed    Algorithm = "Suppressed"
	Concurrency   Algorithm = "Concurrency"
)

// SupportsAttempts reports whether the algorithm supports CountAttempts and
// ThresholdReached.
func (a Algorithm) SupportsAttempts() bool {
	return a == FixedWindow || a == SlidingLog || a == SlidingWindow
}

// Refills reports whether the algorithm refills units evenly, and so has a burst.
func (a Algorithm) Refills() bool { return a == TokenBucket || a == GCRA }

// Buckets reports whether the algorithm divides time into buckets.
func (a Algorithm) Buckets() bool { return a == SlidingWindow || a == Suppressed }

// MaxThreshold returns the largest threshold of a limit with the algorithm, in units.
func (a Algorithm) MaxThreshold() int64 {
	switch a {
	case FixedWindow:
		return MaxFixedWindowThreshold
	case SlidingLog:
		return MaxLogThreshold
	default:
		return MaxThreshold
	}
}

// MaxWindow returns the longest window of a limit with the algorithm.
func (a Algorithm) MaxWindow() time.Duration {
	if a == FixedWindow {
		return MaxFixedWindow
	}
	return MaxWindow
}

// Bounds of the other numbers of a limit.
const (
	minBucketWindowMillis = 2
	minHardLimitPercent   = 101
	maxHardLimitPercent   = 1000
	// Buckets per window.
	minBuckets, maxBuckets = 2, 1000
)

// Limit is one algorithm with its numbers.
type Limit struct {
	Name      string    `json:"name"`
	Algorithm Algorithm `json:"algorithm"`
	Threshold int64     `json:"threshold"`
	// Calendar divides time in place of a window, with FixedWindow; nil for a limit with a window.
	Calendar *Calendar `json:"calendar,omitempty"`
	// WindowMillis is the length of the window in milliseconds; 0 with a Calendar and with
	// Concurrency.
	WindowMillis int64 `json:"windowMillis"`
	// Burst is the number of units that are admitted in one instant, for algorithms
	// that refill.
	Burst int64 `json:"burst,omitempty"`
	// BucketMicros is the length of a bucket in microseconds, for algorithms with
	// buckets.
	BucketMicros int64 `json:"bucketMicros,omitempty"`
	// HardLimitPercent bounds the units that Suppressed admits per window, in percent of
	// the threshold.
	HardLimitPercent int64 `json:"hardLimitPercent,omitempty"`
	// WarnPercent is the share of the quota, in percent, from which on the limit is near; 0 is
	// never.
	WarnPercent int64 `json:"warnPercent,omitempty"`
	// BlockMillis is the length of the block after a denial in milliseconds; 0
	// disables it.
	BlockMillis int64 `json:"blockMillis,omitempty"`
	// BlocksMillis are the lengths of the first, second and further blocks in milliseconds, in
	// place of BlockMillis. EscalationMillis is how long after a block their number is remembered.
	BlocksMillis     []int64 `json:"blocksMillis,omitempty"`
	EscalationMillis int64   `json:"escalationMillis,omitempty"`
	// StateSuffix separates the state of the limit from the state of the same limit with
	// other numbers. It is set only
	//
	//   - for another rate of refill, since the units refilled since the last check
	//     depend on the rate,
	//   - for a requested SlidingLog with another window, see Requested.
	//
	// LimitsOf and Requested set it; it is not encoded.
	StateSuffix string `json:"-"`
}

// Quota returns the number of units that the limit admits per window or, with a burst, in
// one instant.
func (p *Plan) Quota(limit Limit) int64 {
	switch {
	case limit.Algorithm.Refills():
		return limit.Burst
	case p.DenyWhen == ThresholdReached:
		return limit.Threshold - 1
	}
	return limit.Threshold
}

// HardQuota returns the number of units that Suppressed never exceeds per window.
func (l Limit) HardQuota() int64 { return l.Threshold * l.HardLimitPercent / 100 }

// IsNear reports whether the used units of the quota are at least the share of WarnPercent.
func (l Limit) IsNear(used, quota int64) bool {
	return l.WarnPercent > 0 && used*100 >= quota*l.WarnPercent
}

// Window returns the length of the window; 0 with a Calendar and with Concurrency.
func (l Limit) Window() time.Duration { return time.Duration(l.WindowMillis) * time.Millisecond }

// LongestWindow returns the length of the window or, with a Calendar, a time that no period exceeds.
func (l Limit) LongestWindow() time.Duration {
	if l.Calendar != nil {
		return l.Calendar.Longest()
	}
	return l.Window()
}

// NominalWindow returns the length of the window or, with a Calendar, the usual one of a period.
func (l Limit) NominalWindow() time.Duration {
	if l.Calendar != nil {
		return l.Calendar.Nominal()
	}
	return l.Window()
}

// Bucket returns the length of a bucket.
func (l Limit) Bucket() time.Duration { return time.Duration(l.BucketMicros) * time.Microsecond }

// LongestBlock returns the length of the longest block; 0 if the limit starts none.
func (l Limit) LongestBlock() time.Duration {
	longest := l.BlockMillis
	for _, millis := range l.BlocksMillis {
		longest = max(longest, millis)
	}
	return time.Duration(longest) * time.Millisecond
}

// Block returns the length of the block after a denial; 0 disables it, or it escalates.
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

// validateLimit checks the numbers of a limit, with or without an override.
func (p *Plan) validateLimit(fail func(string, ...any), at string, l Limit) {
	requireOneOf(fail, at+".algorithm", l.Algorithm, FixedWindow, SlidingLog, SlidingWindow, TokenBucket, GCRA, Suppressed, Concurrency)
	if l.Threshold < 1 || l.Threshold > l.Algorithm.MaxThreshold() || p.DenyWhen == ThresholdReached && l.Threshold < 2 {
		fail("%s.threshold %d is out of bounds", at, l.Threshold)
	}
	p.validateConcurrency(fail, at, l)
	l.validateWindow(fail, at)
	l.validateBlocks(fail, at)
	if !l.Algorithm.SupportsAttempts() && (p.Counting == CountAttempts || p.DenyWhen == ThresholdReached) {
		fail("%s.algorithm %q supports neither counting Attempts nor denyWhen ThresholdReached", at, l.Algorithm)
	}
	l.validateBurst(fail, at)
	l.validateBucket(fail, at)
	l.validateHardLimit(fail, at)
	requireWithin(fail, at+".warnPercent", l.WarnPercent, 0, 100)
}

func (l Limit) validateBlocks(fail func(string, ...any), at string) {
	if l.BlockMillis < 0 || l.BlockMillis > MaxWindow.Milliseconds() {
		fail("%s: a block of %d ms is out of bounds", at, l.BlockMillis)
	}
	n, last := len(l.BlocksMillis), int64(1)
	for i, millis := range l.BlocksMillis {
		if millis < last || millis > MaxWindow.Milliseconds() {
			fail("%s.blocksMillis[%d]: %d ms is out of bounds", at, i, millis)
		}
		last = max(last, millis)
	}
	if n > MaxBlockLengths || n > 0 && l.BlockMillis > 0 {
		fail("%s: %d lengths of blocks beside one of %d ms", at, n, l.BlockMillis)
	}
	l.validateEscalation(fail, at)
}

func (l Limit) validateEscalation(fail func(string, ...any), at string) {
	n := len(l.BlocksMillis)
	if n == 0 && l.EscalationMillis != 0 || n > 0 && (l.EscalationMillis < 1 || l.EscalationMillis > MaxWindow.Milliseconds()) {
		fail("%s: an escalation of %d ms with %d lengths of blocks is out of bounds", at, l.EscalationMillis, n)
	}
}

func (l Limit) validateWindow(fail func(string, ...any), at string) {
	switch {
	case l.Calendar != nil:
		l.validateCalendar(fail, at+".calendar")
	case l.Algorithm == Concurrency:
		if l.WindowMillis != 0 {
			fail("%s: a window of %d ms is not for Concurrency", at, l.WindowMillis)
		}
	case l.WindowMillis < 1 || l.WindowMillis > l.Algorithm.MaxWindow().Milliseconds():
		fail("%s: a window of %d ms is out of bounds", at, l.WindowMillis)
	}
}

// validateConcurrency checks what only Concurrency needs: reservations, and no blocks.
func (p *Plan) validateConcurrency(fail func(string, ...any), at string, l Limit) {
	if l.Algorithm != Concurrency {
		return
	}
	if !p.Reservations.Allowed() {
		fail("%s.algorithm Concurrency needs reservations", at)
	}
	if l.LongestBlock() > 0 {
		fail("%s.algorithm Concurrency starts no blocks", at)
	}
}

func (l Limit) validateBurst(fail func(string, ...any), at string) {
	smallest, largest := int64(0), int64(0)
	if l.Algorithm.Refills() {
		smallest, largest = 1, MaxThreshold
	}
	if l.Burst < smallest || l.Burst > largest {
		fail("%s.burst %d is out of bounds", at, l.Burst)
	} else if l.Threshold > 0 && l.Burst*min(l.WindowMillis, MaxWindow.Milliseconds())/l.Threshold > MaxRefill.Milliseconds() {
		fail("%s.burst %d takes more than a hundred years to refill", at, l.Burst)
	}
}

func (l Limit) validateBucket(fail func(string, ...any), at string) {
	if !l.Algorithm.Buckets() {
		if l.BucketMicros != 0 {
			fail("%s: a bucket of %d us is only for SlidingWindow and Suppressed", at, l.BucketMicros)
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
	requireWithin(fail, at+".hardLimitPercent", l.HardLimitPercent, smallest, largest)
}

// FormatMillis formats a length in milliseconds as policies have it, as in "1h30m".
func FormatMillis(millis int64) string {
	var text []byte
	for _, unit := range [...]struct {
		millis int64
		name   string
	}{{3_600_000, "h"}, {60_000, "m"}, {1_000, "s"}, {1, "ms"}} {
		if n := millis / unit.millis; n > 0 {
			text = append(strconv.AppendInt(text, n, 10), unit.name...)
			millis %= unit.millis
		}
	}
	return string(text)
}
