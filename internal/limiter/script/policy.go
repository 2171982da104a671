// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"maps"
	"slices"
	"strconv"
	"sync"
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
	// Window is in whole milliseconds, at least one; 0 with a Calendar.
	Window time.Duration
	// Calendar divides time in place of a window, with FixedWindow; nil for a limit with a window.
	Calendar Calendar
	// Bucket is the resolution of time of SlidingWindow and Suppressed, in whole
	// microseconds.
	Bucket time.Duration
	// Block is the length of the block after a denial, in whole milliseconds; 0
	// disables it.
	Block time.Duration
	// Escalation makes the blocks longer, in place of Block; nil for blocks of one length.
	Escalation *Escalation
	// StateSuffix ends the key of the state, unless it is empty. It separates the state
	// of the limit from that of the same limit with other numbers.
	StateSuffix string

	ceiling int64 // see kind
}

// stateKey returns the part after the hash tag in the key of the limit's state. Limits
// with the same stateKey share a state, although their numbers may differ.
func (l *Limit) stateKey(policy string) string {
	switch {
	case l.Algorithm == SlidingLog && l.StateSuffix == "":
		return logKey(policy)
	case l.Algorithm == Concurrency:
		return heldKey(policy)
	}
	return counterKey(policy, l)
}

// longestUse returns the longest time for which the limit needs what is spent, apart from debts.
func (l *Limit) longestUse() time.Duration {
	if l.Algorithm.refills() {
		return micros(deficitOf(l.Quota, l).resetAfter(l))
	}
	return l.LongestWindow()
}

// SharesState reports whether the two limits, of one policy and one key, count in the
// same state.
func (l *Limit) SharesState(other *Limit) bool { return l.stateKey("") == other.stateKey("") }

// Settings are what all variants of a policy have in common.
type Settings struct {
	// ID is "<namespace>/<name>".
	ID string
	// Attempts counts every unblocked check instead of only admitted ones.
	Attempts bool
	// Shadow policies never deny a check.
	Shadow bool
	// Requestable policies also have variants with requested limits, see Policy.NewRequested.
	Requestable bool
	// MaxOpen is the most holds that a key may have at a time. 0 takes none. Policies that count
	// attempts, and those with a Suppressed limit, must take none.
	MaxOpen int64
}

// Policy is one variant of a policy, prepared for many calls: a set of limits of the
// policy, with or without the numbers of an override. It is immutable.
type Policy struct {
	*family
	limits []Limit

	// requested is the index of the limit that a request replaced, or -1, and fallback the
	// variant without the request.
	requested int
	fallback  *Policy

	algorithms uint
	keys       []string // the parts after the hash tag, in the order of the script
	states     []string // those of the states of the limits, in the order of the limits
	flags      int
	isLean     bool          // lean.lua can decide its checks
	args       []any         // the arguments after cost and flags
	dated      *datedCache   // those of a policy with calendars, see argumentsAt; else nil
	keep       time.Duration // how long the SlidingLog keeps hits
	keepUnits  int64         // and how many units it keeps, unless it has served larger limits
}

// family is what the variants of one policy share.
type family struct {
	id          string
	attempts    bool
	shadow      bool
	requestable bool
	maxOpen     int64
	// keepSpent is the longest time for which a limit of any variant needs what is spent.
	keepSpent time.Duration
	// bounds are those of the states by key, over all variants without requested limits.
	bounds map[string]stateBounds
	// stateKeys are the block and the states of all variants, each once. recordKeys are those of
	// the records about these states.
	stateKeys, recordKeys []string
	// escalationKeys are the keys of the numbers of blocks; they are among recordKeys.
	escalationKeys []string
	overflow       func() *Policy // see Policy.Overflow
}

// Flags of an entry, as entry.lua reads them.
const (
	flagAttempts = 1 << iota
	flagShadow
	flagPeek
	flagBlocks
	flagLog
	flagDryRun
	flagOnlyKnown
	flagListed
	flagLargest
	flagEnlarges
	flagHolds
	flagSettles
	flagRemembers
	actionUnit // an action is in the bits from here on
)

// NewPolicy prepares the only variant of a policy without overrides, see NewVariants.
func NewPolicy(id string, attempts, shadow bool, limits []Limit) *Policy {
	return NewVariants(Settings{ID: id, Attempts: attempts, Shadow: shadow}, limits)[0]
}

// NewVariants prepares the variants of a policy, one from each set of limits; the first are the
// limits of the policy without an override. Limits with the same name, algorithm, window and
// bucket share a state, so that one key may use different variants in turn.
func NewVariants(s Settings, variants ...[]Limit) []*Policy {
	f := &family{id: s.ID, attempts: s.Attempts, shadow: s.Shadow, requestable: s.Requestable, maxOpen: s.MaxOpen}
	f.bounds = map[string]stateBounds{}
	f.stateKeys = []string{blockKey(s.ID)}
	if s.Requestable {
		f.recordKeys = append(f.recordKeys, listKey(s.ID))
	}
	if s.MaxOpen > 0 {
		f.stateKeys = append(f.stateKeys, heldKey(s.ID))
		f.recordKeys = append(f.recordKeys, holdsKey(s.ID))
	}
	for _, limits := range variants {
		for i := range limits {
			f.include(&limits[i])
		}
	}
	policies := make([]*Policy, len(variants))
	for i, limits := range variants {
		policies[i] = f.newPolicy(limits, f.bounds)
		policies[i].prepare()
	}
	f.overflow = sync.OnceValue(policies[0].withoutBlocks)
	return policies
}

// include adds the limit to the bounds and to the keys.
func (f *family) include(l *Limit) {
	f.keepSpent = max(f.keepSpent, l.longestUse())
	if l.Algorithm == Concurrency {
		return // holds are its state
	}
	key := l.stateKey(f.id)
	if _, found := f.bounds[key]; !found {
		f.stateKeys = append(f.stateKeys, key)
		if f.requestable && l.Algorithm == SlidingLog {
			f.recordKeys = append(f.recordKeys, largestKey(key))
		}
	}
	f.bounds[key] = f.bounds[key].with(l)
	if escalation := escalationKey(f.id, l); l.Escalation != nil && !slices.Contains(f.escalationKeys, escalation) {
		f.escalationKeys = append(f.escalationKeys, escalation)
		f.recordKeys = append(f.recordKeys, escalation)
	}
}

func (f *family) newPolicy(limits []Limit, bounds map[string]stateBounds) *Policy {
	p := &Policy{family: f, limits: slices.Clone(limits), requested: -1}
	for i := range p.limits {
		l := &p.limits[i]
		b := bounds[l.stateKey(f.id)]
		l.ceiling = b.ceiling
		if l.Algorithm == SlidingLog {
			p.keep, p.keepUnits = b.keep, b.keepUnits
		}
	}
	return p
}

// NewRequested prepares the variant with a requested limit at limits[place], in place of the limit
// of p there. The family of p must be requestable.
//
//   - A SlidingLog remembers the largest number that it serves, so that other variants do not
//     drop hits that this one needs.
//   - A limit that refills has a state for each window and number. One key has at most 16 such
//     states at a time; a check that needs a further one is decided by the limits of p, and
//     the reply has RequestIgnored set.
func (p *Policy) NewRequested(limits []Limit, place int) *Policy {
	requested := &limits[place]
	key := requested.stateKey(p.id)
	bounds := maps.Clone(p.bounds)
	bounds[key] = bounds[key].with(requested)
	q := p.newPolicy(limits, bounds)
	q.requested, q.fallback = place, p
	switch {
	case requested.Algorithm.refills():
		q.flags |= flagListed
	case requested.Algorithm == SlidingLog && bounds[key].keepUnits > p.bounds[key].keepUnits:
		q.flags |= flagEnlarges
	}
	q.prepare()
	return q
}

// Overflow returns the limits of the policy without overrides, requests and blocks, for the key
// that new keys share during a flood.
func (p *Policy) Overflow() *Policy { return p.overflow() }

func (p *Policy) withoutBlocks() *Policy {
	q := p.newPolicy(p.limits, p.bounds)
	for i := range q.limits {
		q.limits[i].Block, q.limits[i].Escalation = 0, nil
	}
	q.prepare()
	return q
}

// stateBounds are the largest numbers of all limits that share one state.
type stateBounds struct {
	ceiling   int64
	keep      time.Duration
	keepUnits int64
}

func (b stateBounds) with(l *Limit) stateBounds {
	if ceiling := l.Algorithm.kind().ceiling; ceiling != nil {
		b.ceiling = max(b.ceiling, ceiling(l))
	}
	if l.Algorithm == SlidingLog {
		b.keep = max(b.keep, l.Window)
		b.keepUnits = max(b.keepUnits, l.Threshold)
	}
	return b
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
	if p.flags&flagListed != 0 {
		p.keys = append(p.keys, listKey(p.id))
	}
	p.prepareHolds()
	p.isLean = p.flags&flagListed == 0
	for i := range p.limits {
		l := &p.limits[i]
		p.algorithms |= l.Algorithm.bit()
		p.isLean = p.isLean && p.isLeanWith(l)
		if l.blocks() {
			p.flags |= flagBlocks
		}
		p.states = append(p.states, l.stateKey(p.id))
		p.addKeys(l)
	}
	if p.hasCalendar() {
		p.dated = &datedCache{}
		p.args = p.datedArgumentsAt(0).args
	} else {
		p.args = p.arguments(nil)
	}
}

// isLeanWith reports whether lean.lua can decide the limit, after the limits before it. Of a SlidingLog it
// must not know what the log keeps for other limits.
func (p *Policy) isLeanWith(l *Limit) bool {
	isPlain := l.Algorithm.kind().lean && l.Calendar == nil && l.Escalation == nil
	return isPlain && (l.Algorithm != SlidingLog || !p.requestable && p.flags&flagLog == 0 && p.keep == l.Window)
}

func (p *Policy) prepareHolds() {
	if p.keepsHolds() {
		p.flags |= flagHolds
		p.keys = append(p.keys, heldKey(p.id))
	}
	if p.SettlesHolds() {
		p.flags |= flagSettles
	}
}

// addKeys adds the keys of the limit. SlidingLog limits share one key.
func (p *Policy) addKeys(l *Limit) {
	key := l.stateKey(p.id)
	switch {
	case l.Algorithm == Concurrency, l.Algorithm == SlidingLog && p.flags&flagLog != 0:
	case l.Algorithm == SlidingLog && p.requestable:
		p.flags |= flagLog | flagLargest
		p.keys = append(p.keys, largestKey(key), key)
	case l.Algorithm == SlidingLog:
		p.flags |= flagLog
		p.keys = append(p.keys, key)
	default:
		p.keys = append(p.keys, key)
	}
	if l.Escalation != nil {
		p.keys = append(p.keys, escalationKey(p.id, l))
	}
}

// arguments returns the arguments after cost and flags. ofCalendar returns those of a limit with a
// calendar.
func (p *Policy) arguments(ofCalendar func(*Limit) []any) []any {
	var args []any
	number := func(n int64) { args = append(args, strconv.FormatInt(n, 10)) }
	if p.flags&flagLog != 0 {
		number(p.keep.Milliseconds())
		number(p.keepUnits)
	}
	if p.flags&flagListed != 0 {
		number(int64(p.requested) + 1)
	}
	if p.keepsHolds() {
		number(p.KeptAfterEnd() / 1000)
		number(p.maxOpen)
	}
	number(int64(len(p.limits)))
	for i := range p.limits {
		l := &p.limits[i]
		args = append(args, string(l.Algorithm))
		number(l.Quota)
		number(l.Window.Milliseconds())
		if p.flags&flagBlocks != 0 {
			args = append(args, l.blockArguments()...)
		}
		if more := l.Algorithm.kind().arguments; more != nil {
			for _, n := range more(l) {
				number(n)
			}
		}
		if l.Calendar != nil {
			args = append(args, ofCalendar(l)...)
		}
	}
	return args
}

// observes reports whether a limit counts every unblocked check, also denied ones.
func (p *Policy) observes() bool { return p.algorithms&Suppressed.bit() != 0 }

// writesDenials reports whether a denied check of an unblocked key may count or start a block.
func (p *Policy) writesDenials() bool { return p.flags&(flagAttempts|flagBlocks) != 0 }
