// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"slices"
	"strconv"
	"time"
)

// Limit is one limit of a policy.
type Limit struct {
	// Name is unique within the policy and part of the state's identity.
	Name      string
	Algorithm Algorithm
	// Quota is the units that pass, at least 1: per window, or in one instant
	// with TokenBucket and GCRA.
	Quota int64
	// Threshold is where counted attempts saturate, at least Quota; with
	// TokenBucket and GCRA the units that come back per window.
	Threshold int64
	// HardQuota bounds what Suppressed ever admits per window, at least Quota.
	HardQuota int64
	// Window is whole milliseconds, at least one.
	Window time.Duration
	// Bucket is how finely SlidingWindow and Suppressed keep time, whole
	// microseconds.
	Bucket time.Duration
	// Block is how long a refusal blocks, whole milliseconds; 0 is not at all.
	Block time.Duration
	// State names a state of its own; limits that differ in nothing else of their
	// identity share one where it is empty.
	State string

	ceiling int64 // see kind
}

// stateKey is what follows the hash tag in the key of the limit's state. Limits
// with the same stateKey share a state: their numbers may differ.
func (l *Limit) stateKey(policy string) string {
	if l.Algorithm == SlidingLog && l.State == "" {
		return logKey(policy)
	}
	return counterKey(policy, l)
}

// SharesState reports whether the two limits, of one policy and one key, count in the
// same state.
func (l *Limit) SharesState(other *Limit) bool { return l.stateKey("") == other.stateKey("") }

// Policy is the part of a call that stays the same from call to call: the
// limits of one policy with everything that can be prepared ahead. It is
// immutable.
type Policy struct {
	id       string
	attempts bool
	shadow   bool
	limits   []Limit

	algorithms uint
	keys       []string // what follows the hash tag, in the order scripts take them
	allKeys    []string // the same of every variant of the policy, each once
	flags      int
	args       []any // everything after cost and flags
	keep       time.Duration
	keepUnits  int64
}

// Flags of an entry, as entry.lua reads them.
const (
	flagAttempts = 1 << iota
	flagShadow
	flagPeek
	flagBlocks
	flagLog
	flagDryRun
)

// NewPolicy prepares a policy. id is "<namespace>/<name>"; attempts makes
// every unblocked check count instead of only admitted ones; shadow keeps the
// policy from refusing others.
func NewPolicy(id string, attempts, shadow bool, limits []Limit) *Policy {
	return NewVariants(id, attempts, shadow, limits)[0]
}

// NewVariants prepares a policy whose limits have other numbers for some
// callers. Variants share every state that has the same name, algorithm, window
// and bucket, so one caller may be asked about by one variant after another.
func NewVariants(id string, attempts, shadow bool, variants ...[]Limit) []*Policy {
	policies := make([]*Policy, len(variants))
	states := []string{blockKey(id)}
	ceilings := map[string]int64{}
	keep, keepUnits := map[string]time.Duration{}, map[string]int64{}
	for i, limits := range variants {
		policies[i] = &Policy{id: id, attempts: attempts, shadow: shadow, limits: slices.Clone(limits)}
		for j := range limits {
			l := &limits[j]
			state := l.stateKey(id)
			if !slices.Contains(states, state) {
				states = append(states, state)
			}
			if ceiling := l.Algorithm.kind().ceiling; ceiling != nil {
				ceilings[state] = max(ceilings[state], ceiling(l))
			}
			if l.Algorithm == SlidingLog {
				keep[state], keepUnits[state] = max(keep[state], l.Window), max(keepUnits[state], l.Threshold)
			}
		}
	}
	for _, p := range policies {
		p.allKeys = states
		for j := range p.limits {
			state := p.limits[j].stateKey(id)
			p.limits[j].ceiling = ceilings[state]
			if p.limits[j].Algorithm == SlidingLog {
				p.keep, p.keepUnits = keep[state], keepUnits[state]
			}
		}
		p.prepare()
	}
	return policies
}

// prepare fills in what scripts are given.
func (p *Policy) prepare() {
	p.keys = []string{blockKey(p.id)}
	if p.attempts {
		p.flags |= flagAttempts
	}
	if p.shadow {
		p.flags |= flagShadow
	}
	for i := range p.limits {
		l := &p.limits[i]
		p.algorithms |= l.Algorithm.bit()
		if l.Block > 0 {
			p.flags |= flagBlocks
		}
		if l.Algorithm == SlidingLog {
			if p.flags&flagLog != 0 {
				continue // they share one key
			}
			p.flags |= flagLog
		}
		p.keys = append(p.keys, l.stateKey(p.id))
	}
	p.args = p.arguments()
}

func (p *Policy) arguments() []any {
	var args []any
	number := func(n int64) { args = append(args, strconv.FormatInt(n, 10)) }
	if p.flags&flagLog != 0 {
		number(p.keep.Milliseconds())
		number(p.keepUnits)
	}
	number(int64(len(p.limits)))
	for i := range p.limits {
		l := &p.limits[i]
		args = append(args, string(l.Algorithm))
		number(l.Quota)
		number(l.Window.Milliseconds())
		if p.flags&flagBlocks != 0 {
			number(l.Block.Milliseconds())
			args = append(args, l.Name)
		}
		if more := l.Algorithm.kind().arguments; more != nil {
			for _, n := range more(l) {
				number(n)
			}
		}
	}
	return args
}

// Entry asks one policy about one key.
type Entry struct {
	Policy *Policy
	Key    Key
	// Cost is the units to spend, at least 1 unless Peek.
	Cost int64
	// Peek evaluates and writes nothing.
	Peek bool

	dryRun bool // spends nothing, but mends states
}

// Call is one atomic decision. No two entries may have both the same policy
// and the same key.
type Call struct {
	Entries []Entry
	// Denied says that the check is denied already, by somebody outside the
	// call: nothing is spent except by policies that count attempts.
	Denied bool
	// Draw is the caller's random number, which decides what Suppressed sheds:
	// all of 0..2^32-1 equally likely.
	Draw uint32
}

// Verdict is what a policy says of one key.
type Verdict int

// The verdicts.
const (
	// Admitted means that the policy has no objection. Units are spent only if
	// no other entry that enforces denied.
	Admitted Verdict = iota
	// Denied means that a limit does not fit.
	Denied
	// Blocked means that a block was live before the call.
	Blocked
	// Tripped means that a limit does not fit and the call started a block.
	Tripped
)

// String returns the verdict in one word.
func (v Verdict) String() string {
	return [...]string{Admitted: "admitted", Denied: "denied", Blocked: "blocked", Tripped: "tripped"}[v]
}

// Reply is the answer to a Call, entry by entry.
type Reply struct {
	Entries []EntryReply
}

// EntryReply is the answer to one entry.
type EntryReply struct {
	Verdict Verdict
	// BlockLeft is how long the block still lasts, when Blocked or Tripped.
	BlockLeft time.Duration
	// BlockedBy names the limit that started the block.
	BlockedBy string
	Limits    []LimitReply
}

// Never is the wait of a cost that can never fit.
const Never time.Duration = -1

// LimitReply is the answer of one limit.
type LimitReply struct {
	// Fits says whether the limit alone, blocks aside, admitted the cost.
	Fits bool
	// Shed says that it did not fit only because chance chose it to be shed.
	Shed bool
	// Suppression is the share of checks that a Suppressed limit sheds, 0..1.
	Suppression float64
	// Used is the units held after the call.
	Used int64
	// RetryAfter is how long until the same entry fits and no block is live, if the
	// caller is alone on its key; 0 when nobody was denied; Never.
	RetryAfter time.Duration
	// UsedAfterWaiting is the units held after RetryAfter.
	UsedAfterWaiting int64
	// ResetAfter is how long until nothing is held if nothing more comes.
	ResetAfter time.Duration

	receipt int64 // finds what was spent, to give it back
}
