// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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
	// of the limit from the state of the same limit with other numbers.
	StateSuffix string

	ceiling int64 // see kind
}

// longestUse returns the longest time for which the limit needs what is spent, apart from debts.
func (l *Limit) longestUse() time.Duration {
	if l.Algorithm.Refills() {
		return l.refillTime(l.Quota)
	}
	return l.LongestWindow()
}

// SharesState reports whether the two limits, of one policy and one key, count in the
// same state.
func (l *Limit) SharesState(other *Limit) bool { return l.StateName("") == other.StateName("") }

// Settings are what all variants of a policy have in common.
type Settings struct {
	// ID is "<namespace>/<name>".
	ID string
	// Attempts counts every unblocked check instead of only admitted ones.
	Attempts bool
	// Shadow policies never deny a check.
	Shadow bool
	// BlockOnCommit makes commits that fill a limit start its block, in place of denials.
	BlockOnCommit bool
	// Requestable policies also have variants with requested limits, see Policy.NewRequested.
	Requestable bool
	// MaxOpen is the most holds that a key may have at a time. 0 takes none. Policies that count
	// attempts, and policies with a Suppressed limit, must take none.
	MaxOpen int64
	// Slices lets replicas take units of a key in advance. A policy with MaxOpen must have none, nor a policy that
	// must not have MaxOpen, or whose limits start blocks or are Concurrency.
	Slices Slices
}

// Policy is one variant of a policy, prepared for many calls: a set of limits of the
// policy, with or without the numbers of an override. It is immutable.
type Policy struct {
	*sharedLimits
	limits []Limit

	// requested is the index of the limit that a request replaced, or -1, and fallback the
	// variant without the request.
	requested int
	fallback  *Policy

	states       []string      // the names of the states of the limits, in the order of the limits
	observes     bool          // a limit is Suppressed
	startsBlocks bool          // a limit starts blocks, on denials or on commits
	keep         time.Duration // how long the SlidingLog keeps hits
	keepUnits    int64         // and how many units it keeps, unless it has served larger limits
	enlarges     bool          // see Enlarges

	memo atomic.Pointer[any]
}

// sharedLimits is what the variants of one policy share.
type sharedLimits struct {
	origin   *sharedLimits // the sharedLimits that NewVariants made, also in its copies
	settings Settings
	// keepSpent is the longest time for which a limit of any variant needs what is spent.
	keepSpent time.Duration
	// bounds are the bounds of the states by name, over all variants without requested limits.
	bounds map[string]stateBounds
	// stateNames are the block and the states of all variants, each once.
	stateNames []string
	// escalationNames are the names of the numbers of blocks.
	escalationNames []string
	overflow        func() *Policy // see Policy.Overflow
}

// NewPolicy prepares the only variant of a policy without overrides, see NewVariants.
func NewPolicy(id string, attempts, shadow bool, limits []Limit) *Policy {
	return NewVariants(Settings{ID: id, Attempts: attempts, Shadow: shadow}, limits)[0]
}

// NewVariants prepares the variants of a policy, one from each set of limits; the first are the
// limits of the policy without an override. Limits with the same name, algorithm, window and
// bucket share a state, so that one key may use different variants in turn.
func NewVariants(s Settings, variants ...[]Limit) []*Policy {
	f := &sharedLimits{settings: s, bounds: map[string]stateBounds{}}
	f.origin = f
	f.stateNames = []string{BlockName(s.ID), HoldsName(s.ID)} // a plan that keeps no holds may meet the holds of another plan
	for _, limits := range variants {
		for i := range limits {
			f.include(&limits[i])
		}
	}
	policies := make([]*Policy, len(variants))
	for i, limits := range variants {
		policies[i] = f.newPolicy(limits, f.bounds)
	}
	f.overflow = sync.OnceValue(policies[0].withoutBlocks)
	return policies
}

// include adds the limit to the bounds and to the names of the states.
func (f *sharedLimits) include(l *Limit) {
	f.keepSpent = max(f.keepSpent, l.longestUse())
	if l.Algorithm == Concurrency {
		return // holds are its state
	}
	name := l.StateName(f.settings.ID)
	if _, found := f.bounds[name]; !found {
		f.stateNames = append(f.stateNames, name)
	}
	f.bounds[name] = f.bounds[name].with(l)
	if escalation := l.EscalationName(f.settings.ID); l.Escalation != nil && !slices.Contains(f.escalationNames, escalation) {
		f.escalationNames = append(f.escalationNames, escalation)
	}
}

func (f *sharedLimits) newPolicy(limits []Limit, bounds map[string]stateBounds) *Policy {
	p := &Policy{sharedLimits: f, limits: slices.Clone(limits), requested: -1}
	for i := range p.limits {
		l := &p.limits[i]
		name := l.StateName(f.settings.ID)
		b := bounds[name]
		l.ceiling = b.ceiling
		if l.Algorithm == SlidingLog {
			p.keep, p.keepUnits = b.keep, b.keepUnits
		}
		p.states = append(p.states, name)
		p.observes = p.observes || l.Algorithm == Suppressed
		p.startsBlocks = p.startsBlocks || l.startsBlocks()
	}
	return p
}

// NewRequested prepares the variant with a requested limit at limits[place], in place of the limit
// of p there. The sharedLimits of p must be requestable.
//
//   - A SlidingLog remembers the largest number that it serves, so that other variants do not
//     drop hits that this one needs.
//   - A limit that refills has a state for each window and number. One key has at most 16 such
//     states at a time; a check that needs a further one is decided by the limits of p, and
//     the reply has RequestIgnored set.
func (p *Policy) NewRequested(limits []Limit, place int) *Policy {
	requested := &limits[place]
	name := requested.StateName(p.settings.ID)
	bounds := maps.Clone(p.bounds)
	bounds[name] = bounds[name].with(requested)
	q := p.newPolicy(limits, bounds)
	q.requested, q.fallback = place, p
	q.enlarges = requested.Algorithm == SlidingLog && bounds[name].keepUnits > p.bounds[name].keepUnits
	return q
}

// NewExcepted prepares the variant with the limits of p, some of which have the numbers of an exception. All variants that
// are derived from it keep what these limits need.
func (p *Policy) NewExcepted(limits []Limit) *Policy {
	kin := *p.sharedLimits
	kin.bounds = maps.Clone(p.bounds)
	for i := range limits {
		l := &limits[i]
		kin.keepSpent = max(kin.keepSpent, l.longestUse())
		if l.Algorithm != Concurrency {
			name := l.StateName(p.settings.ID)
			kin.bounds[name] = kin.bounds[name].with(l)
		}
	}
	return kin.newPolicy(limits, kin.bounds)
}

// Fallback returns the variant without the limit that a request replaced, or nil if none was replaced.
func (p *Policy) Fallback() *Policy { return p.fallback }

// Overflow returns the limits of the policy without overrides, requests and blocks, for the key
// that new keys share during a flood.
func (p *Policy) Overflow() *Policy { return p.overflow() }

func (p *Policy) withoutBlocks() *Policy {
	q := p.newPolicy(p.limits, p.bounds)
	for i := range q.limits {
		q.limits[i].Block, q.limits[i].Escalation = 0, nil
	}
	q.startsBlocks = false
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
