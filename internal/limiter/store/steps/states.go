// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// States are what a store keeps for the policy and the key of one entry. Times are microseconds.
type States interface {
	Limits
	Blocks
	Holds
}

// Limits are the states of limits, by their index in the policy. No method is called for a
// Concurrency limit, which has no state but the holds.
type Limits interface {
	// Used returns the units that are spent.
	Used(limit int) int64
	// UsedAfter returns the units that are spent after that time.
	UsedAfter(limit int, wait int64) int64
	// TimeToFit returns the time until the cost, which is at most the quota, fits; 0 if it fits now.
	TimeToFit(limit int, cost int64) int64
	// ResetAfter returns the time until Used is 0.
	ResetAfter(limit int) int64
	// AfterLast returns the time until Used is 0 if all holds are spent as the last one ends, at the
	// latest. wait is the result of ResetAfter.
	AfterLast(limit int, held, last, wait int64) int64
	// Judge decides whether a Suppressed limit admits the cost.
	Judge(limit int, draw uint32) (admits, shed bool, suppression float64)
	// Spend records the cost of the entry, which may exceed the quota in a commit or a charge. passes is
	// true if the entry and the check are admitted. Of limits that share a log, only the first spends.
	Spend(limit int, passes bool)
	// DebtCut returns the units of debt that the call has cut.
	DebtCut() int64
}

// Blocks are the block of the key, and the numbers of blocks that its limits have started.
type Blocks interface {
	// Block returns the live block, if there is one.
	Block() (left time.Duration, by string, live bool)
	// StartBlock starts a block, and returns the time until it ends.
	StartBlock(by string, length time.Duration) (left time.Duration)
	// EarlierBlocks returns the number of blocks that a limit with an escalation remembers.
	EarlierBlocks(limit int) int64
	// CountBlock counts a block of that length for a limit with an escalation.
	CountBlock(limit int, length time.Duration)
}

// Holds are the holds of the key, and the IDs of charges.
type Holds interface {
	// StoreHolds stores changed holds, which may be none.
	StoreHolds(h *HoldSet)
	// Keep keeps what settling needs of the limit as long as the last hold.
	Keep(limit int)
	// Remember remembers the ID of a charge, and returns false if it was remembered already.
	Remember(id string) bool
}

// Entry is one entry of a call, with its states.
type Entry struct {
	*store.Entry
	States

	// Holds are the holds of the key; nil without any.
	Holds *HoldSet
	// Now is the time of the call, in microseconds since 1970.
	Now int64
	// IsKnown is true if the key had a state that a limit uses, or a block, before the call.
	IsKnown bool

	isRepeated bool // an earlier call has taken the hold
}

func (e *Entry) limit(i int) *store.Limit { return &e.Policy.Limits()[i] }

// isStateless reports whether the limit has no state but the holds.
func (e *Entry) isStateless(i int) bool { return e.limit(i).Algorithm == store.Concurrency }

func (e *Entry) used(i int) int64 {
	if e.isStateless(i) {
		return 0
	}
	return e.Used(i)
}

func (e *Entry) timeToFit(i int, cost int64) time.Duration {
	if e.isStateless(i) {
		return 0
	}
	return Duration(e.TimeToFit(i, cost))
}

// longestTime is the longest time in replies, in microseconds: as in Redis.
const longestTime = 5e15

// Duration returns a time of a reply.
func Duration(micros int64) time.Duration {
	return time.Duration(min(micros, longestTime)) * time.Microsecond
}
