// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
	"time"
)

// Verdict is what a policy decides for one key.
type Verdict int

// The verdicts.
const (
	// Admitted means that every limit admits the cost and no block is live. Units are spent only
	// if no enforcing entry of the call denies.
	Admitted Verdict = iota
	// Denied means that a limit does not admit the cost.
	Denied
	// Blocked means that a block was live before the call.
	Blocked
	// BlockStarted means that a limit does not admit the cost and the call started a block.
	BlockStarted
)

// String returns the verdict in one word.
func (v Verdict) String() string {
	return [...]string{Admitted: "admitted", Denied: "denied", Blocked: "blocked", BlockStarted: "block_started"}[v]
}

// Reply is the answer to a Call, entry by entry. It is valid until the call is cleared or evaluated
// again.
type Reply struct {
	Entries []EntryReply
	// FromCache is true if a denialcache.Cache answered without Redis.
	FromCache bool
	// FromSlice is true if a slicecache.Cache answered without Redis. The units in use are then from the last
	// exchange of slices, without what this replica has not spent.
	FromSlice bool
	// Unanswered is true if the Cache answered because Redis did not. The call may still be in flight, and
	// must not be used again.
	Unanswered bool
}

// IsFromStore reports whether the store decided, not what this process remembers or has in slices.
func (r *Reply) IsFromStore() bool { return !r.FromCache && !r.FromSlice }

// EntryReply is the answer to one entry.
type EntryReply struct {
	Verdict Verdict
	// Unknown is true if nothing is known of the entry, in a reply that is Unanswered.
	Unknown bool
	// Began is true if the key had no state in the policy before the call, and has now.
	Began bool
	// Overflow is true if the key was not known, and OnlyKnown was set or the store had no room
	// for it: the answer is the one of Policy.Overflow for the key that all such keys share.
	Overflow bool
	// RequestIgnored is true if the requested limit of the policy could not have a state: the
	// answer is the one of the variant without it, see Policy.NewRequested.
	RequestIgnored bool
	// BlockLeft is the time until the block ends, if Blocked or BlockStarted.
	BlockLeft time.Duration
	// BlockedBy names the limit that started the block.
	BlockedBy string
	// Hold is what the entry did with a hold or a charge, and Estimate the units of the hold that
	// it found, or of the slice that it took.
	Hold     HoldOutcome
	Estimate int64
	// Held and Open are the units and the number of the holds of the key after the call.
	Held, Open int64
	// Settled is the number of ended holds whose units the call has spent.
	Settled int64
	// DebtCut is the number of units above the quota that were cut, because working them off
	// would take longer than MaxDebt.
	DebtCut int64
	Limits  []LimitReply
}

// Allows reports whether the limit with the index admits the cost, and no block is live.
func (r *EntryReply) Allows(limit int) bool { return r.Limits[limit].Admits && r.Verdict != Blocked }

// OnlyHoldsDeny reports whether the denied entry would be admitted without the open holds.
func (r *EntryReply) OnlyHoldsDeny() bool {
	return r.Verdict == Denied && !slices.ContainsFunc(r.Limits, func(l LimitReply) bool {
		return !l.Admits && !l.WaitsForHolds
	})
}

// MaxDebt is the longest time for which a TokenBucket or a GCRA works off units above its quota.
const MaxDebt = 720 * time.Hour

// HoldsWait is the RetryAfter of a limit that only holds deny: a commit can make room at any time.
const HoldsWait = time.Second

// Never is the RetryAfter of a cost above the quota.
const Never time.Duration = -1

// LimitReply is the answer of one limit.
type LimitReply struct {
	// Admits is true if the limit alone, without blocks, admits the cost.
	Admits bool
	// Shed is true if Suppressed shed the check at random, below its hard limit.
	Shed bool
	// Suppression is the share of checks that a Suppressed limit sheds, 0..1.
	Suppression float64
	// WaitsForHolds is true if the limit admits the cost as soon as enough holds are
	// committed or end. RetryAfter is then HoldsWait.
	WaitsForHolds bool
	// Used is the number of units that are spent or held after the call.
	Used int64
	// RetryAfter is the time until the limit admits the same cost and no block is live,
	// if no other caller uses the key. It is 0 if neither the entry nor the check is
	// denied, and Never if the cost exceeds the quota.
	RetryAfter time.Duration
	// UsedAfterWaiting is the number of units that are spent or held after RetryAfter.
	UsedAfterWaiting int64
	// ResetAfter is the time until no units are spent or held, without further checks.
	ResetAfter time.Duration
}

// SaturateAt caps the reported attempts at the threshold of the limit, if the policy counts attempts. The
// state may hold more, for a variant with a larger threshold.
func (r *LimitReply) SaturateAt(p *Policy, l *Limit) {
	if p.settings.Attempts {
		r.Used = min(r.Used, l.Threshold)
		r.UsedAfterWaiting = min(r.UsedAfterWaiting, l.Threshold)
	}
}

// Clone returns a copy of the reply with memory of its own.
func (r *Reply) Clone() *Reply {
	copied := &Reply{Entries: slices.Clone(r.Entries)}
	for i := range copied.Entries {
		copied.Entries[i].Limits = slices.Clone(r.Entries[i].Limits)
	}
	return copied
}
