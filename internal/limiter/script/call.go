// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"strconv"
	"time"
)

// Algorithm is how a limit counts. Its value is the code that names it in
// scripts and in keys.
type Algorithm string

// algorithms in the order in which scripts are assembled. A bit set of
// algorithms has the bit of the index of each.
var algorithms = [...]Algorithm{FixedWindow, SlidingLog}

func (a Algorithm) bit() uint {
	for i, known := range algorithms {
		if a == known {
			return 1 << i
		}
	}
	panic("script: unknown algorithm " + string(a))
}

// Limit is one limit of a policy.
type Limit struct {
	// Name is unique within the policy and part of the state's identity.
	Name      string
	Algorithm Algorithm
	// Quota is how many units are admitted, at least 1.
	Quota int64
	// Threshold is where counted attempts saturate, at least Quota.
	Threshold int64
	// Window is whole milliseconds, at least one.
	Window time.Duration
	// Block is how long a refusal blocks, whole milliseconds; 0 is not at all.
	Block time.Duration
}

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
	flags      int
	args       []any // everything after cost and flags
	keep       time.Duration
	keepUnits  int64
}

// Flags of an entry, as decide.lua reads them.
const (
	flagAttempts = 1 << iota
	flagShadow
	flagPeek
	flagBlocks
	flagLog
)

// NewPolicy prepares a policy. id is "<namespace>/<name>"; attempts makes
// every unblocked check count instead of only admitted ones; shadow keeps the
// policy from refusing others.
func NewPolicy(id string, attempts, shadow bool, limits []Limit) *Policy {
	p := &Policy{id: id, attempts: attempts, shadow: shadow, limits: limits, keys: []string{blockKey(id)}}
	if attempts {
		p.flags |= flagAttempts
	}
	if shadow {
		p.flags |= flagShadow
	}
	for _, l := range limits {
		p.algorithms |= l.Algorithm.bit()
		if l.Block > 0 {
			p.flags |= flagBlocks
		}
		if l.Algorithm != SlidingLog {
			p.keys = append(p.keys, counterKey(id, l))
			continue
		}
		if p.flags&flagLog == 0 {
			p.flags |= flagLog
			p.keys = append(p.keys, logKey(id))
		}
		p.keep = max(p.keep, l.Window)
		p.keepUnits = max(p.keepUnits, l.Threshold)
	}
	p.args = p.arguments()
	return p
}

func (p *Policy) arguments() []any {
	var args []any
	number := func(n int64) { args = append(args, strconv.FormatInt(n, 10)) }
	if p.flags&flagLog != 0 {
		number(p.keep.Milliseconds())
		number(p.keepUnits)
	}
	number(int64(len(p.limits)))
	for _, l := range p.limits {
		args = append(args, string(l.Algorithm))
		number(l.Quota)
		number(l.Threshold)
		number(l.Window.Milliseconds())
		if p.flags&flagBlocks != 0 {
			number(l.Block.Milliseconds())
			args = append(args, l.Name)
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
}

// Call is one atomic decision. No two entries may have both the same policy
// and the same key.
type Call struct {
	Entries []Entry
	// Refused says that the check is refused already, by somebody who needs no
	// state: nothing is spent except by policies that count attempts.
	Refused bool
}

// Verdict is what a policy says of one key.
type Verdict int

// The verdicts.
const (
	// Admitted means that the policy has no objection. Units are spent only if
	// no other entry that enforces refused.
	Admitted Verdict = iota
	// Refused means that a limit does not fit.
	Refused
	// Blocked means that a block was live before the call.
	Blocked
	// Tripped means that a limit does not fit and the call started a block.
	Tripped
)

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
	// Used is the units held after the call.
	Used int64
	// Wait is how long until the same entry fits and no block is live, if the
	// caller is alone on its key; 0 when nobody was refused; Never.
	Wait time.Duration
	// UsedThen is the units held after Wait.
	UsedThen int64
	// Idle is how long until nothing is held if nothing more comes.
	Idle time.Duration
}
