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
	// Name is unique within the policy and part of the identity of the state.
	Name      string
	Algorithm Algorithm
	// Quota is the number of units that are admitted, at least 1: per window, or in
	// one instant with TokenBucket and GCRA.
	Quota int64
	// Threshold is where counted attempts saturate, at least Quota; with TokenBucket
	// and GCRA the units that are refilled per window.
	Threshold int64
	// HardQuota bounds the units that Suppressed admits per window, at least Quota.
	HardQuota int64
	// Window is in whole milliseconds, at least one.
	Window time.Duration
	// Bucket is the resolution of time of SlidingWindow and Suppressed, in whole
	// microseconds.
	Bucket time.Duration
	// Block is the length of the block after a denial, in whole milliseconds; 0
	// disables it.
	Block time.Duration
	// StateSuffix ends the key of the state, unless it is empty. It separates the state
	// of the limit from that of the same limit with other numbers.
	StateSuffix string

	ceiling int64 // see kind
}

// stateKey returns the part after the hash tag in the key of the limit's state. Limits
// with the same stateKey share a state, although their numbers may differ.
func (l *Limit) stateKey(policy string) string {
	if l.Algorithm == SlidingLog && l.StateSuffix == "" {
		return logKey(policy)
	}
	return counterKey(policy, l)
}

// SharesState reports whether the two limits, of one policy and one key, count in the
// same state.
func (l *Limit) SharesState(other *Limit) bool { return l.stateKey("") == other.stateKey("") }

// Policy is one variant of a policy, prepared for many calls: a set of limits of the
// policy, with or without the numbers of an override. It is immutable.
type Policy struct {
	id       string
	attempts bool
	shadow   bool
	limits   []Limit

	algorithms uint
	keys       []string // the parts after the hash tag, in the order of the script
	allKeys    []string // those of every variant of the policy, each once
	flags      int
	args       []any         // the arguments after cost and flags
	keep       time.Duration // how long the SlidingLog keeps hits
	keepUnits  int64         // and how many units it keeps
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

// NewPolicy prepares the only variant of a policy without overrides, see NewVariants.
func NewPolicy(id string, attempts, shadow bool, limits []Limit) *Policy {
	return NewVariants(id, attempts, shadow, limits)[0]
}

// NewVariants prepares the variants of a policy, one from each set of limits. id is
// "<namespace>/<name>"; attempts counts every unblocked check instead of only admitted
// ones; a shadow policy never denies a check. Limits with the same name, algorithm, window and bucket share a state,
// so that one key may use different variants in turn.
func NewVariants(id string, attempts, shadow bool, variants ...[]Limit) []*Policy {
	policies := make([]*Policy, len(variants))
	keys := []string{blockKey(id)}
	bounds := map[string]*stateBounds{}
	for i, limits := range variants {
		policies[i] = &Policy{id: id, attempts: attempts, shadow: shadow, limits: slices.Clone(limits)}
		for j := range limits {
			key := limits[j].stateKey(id)
			if bounds[key] == nil {
				keys = append(keys, key)
				bounds[key] = &stateBounds{}
			}
			bounds[key].include(&limits[j])
		}
	}
	for _, p := range policies {
		p.allKeys = keys
		for j := range p.limits {
			l := &p.limits[j]
			b := bounds[l.stateKey(id)]
			l.ceiling = b.ceiling
			if l.Algorithm == SlidingLog {
				p.keep, p.keepUnits = b.keep, b.keepUnits
			}
		}
		p.prepare()
	}
	return policies
}

// stateBounds are the largest numbers of all limits that share one state.
type stateBounds struct {
	ceiling   int64
	keep      time.Duration
	keepUnits int64
}

func (b *stateBounds) include(l *Limit) {
	if ceiling := l.Algorithm.kind().ceiling; ceiling != nil {
		b.ceiling = max(b.ceiling, ceiling(l))
	}
	if l.Algorithm == SlidingLog {
		b.keep = max(b.keep, l.Window)
		b.keepUnits = max(b.keepUnits, l.Threshold)
	}
}

// prepare sets the keys, flags and arguments of the policy.
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
				continue // SlidingLog limits share one key
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

// observes reports whether a limit counts every unblocked check, also denied ones.
func (p *Policy) observes() bool { return p.algorithms&Suppressed.bit() != 0 }

// writesDenials reports whether a denied check of an unblocked key may count or start a block.
func (p *Policy) writesDenials() bool { return p.flags&(flagAttempts|flagBlocks) != 0 }

// Entry is one policy and one key of a call.
type Entry struct {
	Policy *Policy
	Key    Key
	// Cost is the number of units to spend, at least 1 unless Peek.
	Cost int64
	// Peek evaluates and writes nothing.
	Peek bool

	dryRun bool // spends nothing, but repairs state, see entry.lua
}

// Call is one atomic decision. No two entries may have both the same policy
// and the same key. It holds the memory of its reply, so that calls can be pooled.
type Call struct {
	Entries []Entry
	// Denied is true if the check is denied already, outside the call: only policies
	// that count attempts spend.
	Denied bool
	// Draw is a uniform random number in 0..2^32-1, with which Suppressed sheds.
	Draw uint32

	reply    Reply
	limits   []LimitReply // of reply
	keyText  []byte       // the Redis keys, one after the other
	keyNames []string     // the Redis keys
}

// Clear empties the call, which keeps its memory. The reply to it is no longer valid.
func (c *Call) Clear() {
	clear(c.Entries)
	clear(c.reply.Entries)
	clear(c.keyNames)
	*c = Call{
		Entries: c.Entries[:0], reply: Reply{Entries: c.reply.Entries[:0]},
		limits: c.limits[:0], keyText: c.keyText[:0], keyNames: c.keyNames[:0],
	}
}

// keys returns the number of Redis keys of the call.
func (c *Call) keys() int {
	n := 0
	for i := range c.Entries {
		n += len(c.Entries[i].Policy.keys)
	}
	return n
}

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
	// Tripped means that a limit does not admit the cost and the call started a block.
	Tripped
)

// String returns the verdict in one word.
func (v Verdict) String() string {
	return [...]string{Admitted: "admitted", Denied: "denied", Blocked: "blocked", Tripped: "tripped"}[v]
}

// Reply is the answer to a Call, entry by entry. It is valid until the call is cleared or evaluated
// again.
type Reply struct {
	Entries []EntryReply
	// FromCache is true if a DenialCache answered without Redis.
	FromCache bool
}

// EntryReply is the answer to one entry.
type EntryReply struct {
	Verdict Verdict
	// BlockLeft is the time until the block ends, if Blocked or Tripped.
	BlockLeft time.Duration
	// BlockedBy names the limit that started the block.
	BlockedBy string
	Limits    []LimitReply
}

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
	// Used is the number of units held after the call.
	Used int64
	// RetryAfter is the time until the limit admits the same cost and no block is live,
	// if no other caller uses the key. It is 0 if neither the entry nor the check is
	// denied, and Never if the cost exceeds the quota.
	RetryAfter time.Duration
	// UsedAfterWaiting is the number of units held after RetryAfter.
	UsedAfterWaiting int64
	// ResetAfter is the time until no units are held, without further checks.
	ResetAfter time.Duration

	receipt int64 // identifies the spent units for a refund
}
