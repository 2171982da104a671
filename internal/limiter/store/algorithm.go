// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"
)

// Algorithm is how a limit counts. Its value is its code in the names of states. docs/algorithms.md has
// the promises.
type Algorithm string

const (
	// FixedWindow admits at most Quota units per window. The window starts with the first
	// unit and later units never extend it, so up to twice the quota may be admitted around
	// the end of a window. The state is one counter with an end.
	FixedWindow Algorithm = "fw"
	// SlidingLog admits at most Quota units in any interval of length Window, exact to the
	// microsecond. The state is one log of hits per policy and key, which all SlidingLog
	// limits share. Only a requested limit with another window has a StateSuffix and a log of
	// its own; a check requests at most one.
	SlidingLog Algorithm = "sl"
	// SlidingWindow admits at most Quota units in any interval of length Window, counted in
	// buckets: hits within one Bucket of time are stored as one, which counts as long as the
	// latest of them. So it may deny for less than a Bucket longer than SlidingLog does, and
	// never admits more.
	SlidingWindow Algorithm = "sw"
	// TokenBucket admits while its bucket of Quota tokens holds the cost. Threshold tokens
	// per Window are refilled continuously. The state is the deficit of the bucket and its
	// time.
	TokenBucket Algorithm = "tb"
	// GCRA admits units evenly spaced at Threshold per Window, and up to Quota units in one
	// instant: the Generic Cell Rate Algorithm of ITU-T I.371 with a cost. The state is the
	// theoretical arrival time.
	GCRA Algorithm = "gc"
	// Suppressed admits everything below Quota and sheds the share 1 - Quota/observed above
	// it at random. observed is the cost of all checks of the last Window, including this
	// one. Admissions stay near Quota at any load, and never exceed HardQuota in any interval
	// of length Window.
	Suppressed Algorithm = "su"
	// Concurrency admits at most Quota held units at a time. A Check is judged and
	// holds nothing, so the limit counts only what comes through Reserve. There is no queue: while
	// small costs keep coming, a large one may never be admitted. Window is 0.
	Concurrency Algorithm = "co"
)

// LargestCount is where a FixedWindow saturates if it does not count attempts: the counter stays
// an integer of a double.
const LargestCount = 1 << 52

// kind describes an algorithm.
type kind struct {
	code Algorithm
	name string // in the API
	// attempts is true if the algorithm can count denied checks.
	attempts bool
	// refills is true if the state is a deficit, which the rate of a limit reduces.
	refills bool
	// ceiling returns how far the state of the limit can grow; limits that share a
	// state share the largest ceiling. Nil if the algorithm needs no ceiling.
	ceiling func(*Limit) int64
}

func thresholdOf(l *Limit) int64 { return l.Threshold }

func quotaOf(l *Limit) int64 { return l.Quota }

var kinds = [...]kind{
	{code: FixedWindow, name: "FixedWindow", attempts: true, ceiling: thresholdOf},
	{code: SlidingLog, name: "SlidingLog", attempts: true},
	{code: SlidingWindow, name: "SlidingWindow", attempts: true, ceiling: thresholdOf},
	{code: TokenBucket, name: "TokenBucket", refills: true, ceiling: quotaOf},
	{code: GCRA, name: "GCRA", refills: true, ceiling: (*Limit).timeOfQuota},
	{code: Suppressed, name: "Suppressed"},
	{code: Concurrency, name: "Concurrency"},
}

// Algorithms returns all algorithms.
func Algorithms() []Algorithm {
	all := make([]Algorithm, len(kinds))
	for i := range kinds {
		all[i] = kinds[i].code
	}
	return all
}

// AlgorithmNamed returns the algorithm with that name in the API, such as "FixedWindow"; ""
// if there is no such algorithm.
func AlgorithmNamed(name string) Algorithm {
	for i := range kinds {
		if kinds[i].name == name {
			return kinds[i].code
		}
	}
	return ""
}

func (a Algorithm) kind() *kind {
	i := slices.IndexFunc(kinds[:], func(k kind) bool { return k.code == a })
	if i < 0 {
		panic("quota: unknown algorithm " + strconv.Quote(string(a)))
	}
	return &kinds[i]
}

// CanCountAttempts reports whether policies that count attempts may have such limits.
func (a Algorithm) CanCountAttempts() bool { return a.kind().attempts }

// Refills reports whether the state is a deficit, which the rate of a limit reduces.
func (a Algorithm) Refills() bool { return a.kind().refills }

// timeOfQuota returns the microseconds in which the quota is refilled, rounded down.
func (l *Limit) timeOfQuota() int64 {
	whole, _ := l.microsToRefill(l.Quota)
	return whole
}

// refillTime returns the time in which the units are refilled, rounded up to microseconds.
func (l *Limit) refillTime(units int64) time.Duration {
	whole, rest := l.microsToRefill(units)
	if rest > 0 {
		whole++
	}
	return time.Duration(min(whole, math.MaxInt64/1000)) * time.Microsecond
}

// microsToRefill returns units*Window/Threshold in microseconds, at most math.MaxInt64, and the rest of the
// division.
func (l *Limit) microsToRefill(units int64) (whole, rest int64) {
	//nolint:gosec // positive numbers
	high, low := bits.Mul64(uint64(units), uint64(l.Window.Microseconds()))
	threshold := uint64(l.Threshold) //nolint:gosec // at least 1
	if high >= threshold {
		return math.MaxInt64, 0
	}
	quotient, remainder := bits.Div64(high, low, threshold)
	if quotient > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(quotient), int64(remainder) //nolint:gosec // at most math.MaxInt64
}
