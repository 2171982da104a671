// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"sync"
	"time"
)

// ID returns "<namespace>/<name>".
func (p *Policy) ID() string { return p.settings.ID }

// IsVariantOf reports whether both are variants that one call of NewVariants prepared, or are derived from them.
func (p *Policy) IsVariantOf(other *Policy) bool { return p.origin == other.origin }

// CountsAttempts reports whether every unblocked check is counted, not only admitted ones.
func (p *Policy) CountsAttempts() bool { return p.settings.Attempts }

// IsShadow reports whether the policy never denies a check.
func (p *Policy) IsShadow() bool { return p.settings.Shadow }

// Limits returns the limits, which must not be changed.
func (p *Policy) Limits() []Limit { return p.limits }

// StateName returns the name of the state in which limit i counts. It is unique among the
// states of one key in all policies. Limits with the same name share the state.
func (p *Policy) StateName(i int) string { return p.states[i] }

// StateNames returns the names of the states of all variants of the policy without
// requested limits. The first is the block, the second the holds.
func (p *Policy) StateNames() []string { return p.stateNames }

// OwnState returns the index of the requested limit that refills, or -1. Each such limit has a
// state of its own, and one key has at most 16 of them at a time; see NewRequested.
func (p *Policy) OwnState() int {
	if p.mayBeFull() {
		return p.requested
	}
	return -1
}

// IsRequestable reports whether the policy may have requested limits.
func (p *Policy) IsRequestable() bool { return p.settings.Requestable }

// Ceiling returns how far the state of the limit may grow: the largest number of all limits
// that share it. It is in units, and in microseconds with GCRA.
func (l *Limit) Ceiling() int64 { return l.ceiling }

// Kept returns how long the SlidingLog of the policy keeps hits, and how many units of them.
func (p *Policy) Kept() (keep time.Duration, units int64) { return p.keep, p.keepUnits }

// ShortestLog returns the shortest window of the SlidingLog limits, 0 without any.
func (p *Policy) ShortestLog() (shortest time.Duration) {
	for i := range p.limits {
		if l := &p.limits[i]; l.Algorithm == SlidingLog && (shortest == 0 || l.Window < shortest) {
			shortest = l.Window
		}
	}
	return shortest
}

// Enlarges reports whether a SlidingLog must remember the units of Kept as long as its hits,
// because other variants of the policy need fewer.
func (p *Policy) Enlarges() bool { return p.enlarges }

// Observes reports whether a limit counts every unblocked check, also denied ones.
func (p *Policy) Observes() bool { return p.observes }

// StartsBlocks reports whether a denial by a limit may start a block.
func (p *Policy) StartsBlocks() bool { return p.startsBlocks && !p.settings.BlockOnCommit }

// BlocksOnCommit reports whether a commit that fills a limit may start a block.
func (p *Policy) BlocksOnCommit() bool { return p.startsBlocks && p.settings.BlockOnCommit }

// WritesDenials reports whether a denied check of an unblocked key may count or start a block.
func (p *Policy) WritesDenials() bool { return p.settings.Attempts || p.StartsBlocks() }

// MaxOpen returns the most holds that a key may have; 0 if the policy takes no reservations.
func (p *Policy) MaxOpen() int64 { return p.settings.MaxOpen }

// HoldsName returns the name of the holds.
func (p *Policy) HoldsName() string { return p.stateNames[1] }

// ReadsHolds reports whether the holds of a key count, also those that another plan of the policy took. A Suppressed
// limit counts in a state of its own, and has none.
func (p *Policy) ReadsHolds() bool { return !p.observes }

// SettlesHolds reports whether calls for the variant spend the holds that have ended. A requested
// limit may have a state of its own, in which a caller could hide them.
func (p *Policy) SettlesHolds() bool { return p.requested < 0 }

// TakesReservations reports whether the policy takes reservations.
func (p *Policy) TakesReservations() bool { return p.settings.MaxOpen > 0 }

// TakesSlices reports whether replicas may take slices.
func (p *Policy) TakesSlices() bool { return p.settings.Slices.Allowed() }

// SliceAge returns how long a replica may spend from a slice.
func (p *Policy) SliceAge() time.Duration { return p.settings.Slices.MaxAge }

// MostSliced returns the most units that all slices of a key may hold.
func (p *Policy) MostSliced() int64 {
	smallest := p.limits[0].Quota
	for i := range p.limits {
		smallest = min(smallest, p.limits[i].Quota)
	}
	// Divided first, since a quota may be large.
	return smallest/100*p.settings.Slices.MaxPercent + smallest%100*p.settings.Slices.MaxPercent/100
}

// KeepsHolds reports whether a key may have holds: of reservations, or slices.
func (p *Policy) KeepsHolds() bool { return p.TakesReservations() || p.TakesSlices() }

// TakesHold reports whether an entry with that action takes a hold, and does not spend its cost.
func (p *Policy) TakesHold(a Action) bool { return a == Reserve && p.TakesReservations() }

// KeptAfterEnd returns the microseconds for which holds are kept after the last of them has ended: as
// long as a limit may need their units; 0 if the policy keeps no holds.
func (p *Policy) KeptAfterEnd() int64 {
	if !p.KeepsHolds() {
		return 0
	}
	return (p.keepSpent.Milliseconds() + 1) * 1000
}

// Memo returns the result of prepare, which it calls once for the policy. The store that sends calls to Redis
// keeps its prepared arguments there; no other store may use it.
func (p *Policy) Memo(prepare func(*Policy) any) any {
	if known := p.memo.Load(); known != nil {
		return *known
	}
	prepared := prepare(p)
	p.memo.Store(&prepared)
	return prepared
}

// PerReplica returns the policy with every quota, threshold and hard quota divided by n and rounded
// up. It counts in the states of p, which keep what p needs, so that n may change at any time.
// A store in this process decides by it while Redis does not answer; the store in Redis must not.
func (p *Policy) PerReplica(n int64) *Policy {
	kin := *p.sharedLimits
	share := &Policy{
		sharedLimits: &kin, limits: make([]Limit, len(p.limits)), requested: p.requested, states: p.states, observes: p.observes,
		startsBlocks: p.startsBlocks, keep: p.keep, keepUnits: p.keepUnits, enlarges: p.enlarges,
	}
	for i, l := range p.limits {
		l.Quota, l.Threshold, l.HardQuota = ceilDiv(l.Quota, n), ceilDiv(l.Threshold, n), ceilDiv(l.HardQuota, n)
		if ceiling := l.Algorithm.kind().ceiling; ceiling != nil {
			l.ceiling = max(l.ceiling, ceiling(&l)) // the quotient of two rounded numbers may be larger
		}
		share.limits[i] = l
	}
	if p.fallback != nil {
		share.fallback = p.fallback.PerReplica(n)
	}
	kin.overflow = sync.OnceValue(func() *Policy { return p.Overflow().PerReplica(n) })
	return share
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
