// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import "math"

// gcra stores the theoretical arrival time: data[0] plus data[1]/threshold microseconds.
type gcra struct{ refills }

// load returns how far the arrival time is ahead, as the deficit of a bucket. Unless the entry is
// a peek, an arrival time that is too far ahead, after an edit, is moved back to the ceiling; also not while a peek
// settles holds.
func (g gcra) load(v *view) deficit {
	now := v.entry.now
	ahead := v.data[0] - now
	if !v.exists(now) || ahead < 0 {
		return deficit{}
	}
	debt, _ := v.debt.over(1)
	if most := plusMicros(v.limit.Ceiling(), debt); ahead > most && !v.entry.Peek {
		missing := product(most, v.limit.Threshold)
		g.store(v, missing)
		return missing
	}
	return product(ahead, v.limit.Threshold).plus(product(1, min(v.data[1], v.limit.Threshold-1)))
}

// plusMicros returns the sum of two times, or the longest time.
func plusMicros(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// empty returns the deficit of an arrival time that is as far ahead as checks can move it.
func (gcra) empty(v *view) deficit { return product(v.limit.Ceiling(), v.limit.Threshold) }

func (g gcra) store(v *view, missing deficit) {
	missing = v.cutDebt(missing, g.empty(v))
	debt, _ := v.debt.over(v.limit.Threshold)
	v.debt = product(debt, 1) // in microseconds, which an edit of the rate does not change
	whole, part := missing.over(v.limit.Threshold)
	v.data = [3]int64{v.entry.now + whole, part}
	g.keepWith(v, missing.timeToFill(v))
}

func (g gcra) settle(v *view, units, at int64) {
	g.settleIn(v, units, at, g.empty(v), func() past {
		g.load(v) // moves back an arrival time that is too far ahead
		if ahead := v.data[0] - at; v.exists(v.entry.now) && ahead >= 0 {
			return past{missing: product(ahead, v.limit.Threshold).plus(product(1, min(v.data[1], v.limit.Threshold-1))), at: at}
		}
		return past{at: at}
	})
}

func (g gcra) endSettling(v *view) {
	if missing, needed := g.deficitNow(v); needed {
		g.store(v, missing)
	}
}

func (g gcra) keep(v *view) {
	if missing := g.load(v); !missing.isZero() {
		g.keepWith(v, missing.timeToFill(v))
	}
}

func (g gcra) used(v *view) int64 { return g.load(v).units(v) }

func (g gcra) usedAfter(v *view, wait int64) int64 { return g.load(v).after(v, wait).units(v) }

func (g gcra) timeToFit(v *view, cost int64) int64 {
	missing := g.load(v)
	if missing.units(v)+cost <= v.limit.Quota {
		return 0
	}
	return missing.timeToFit(v, cost)
}

func (g gcra) resetAfter(v *view) int64 { return g.load(v).timeToFill(v) }

func (g gcra) spend(v *view, _ bool) {
	g.store(v, g.load(v).plus(product(v.entry.Cost, v.window)))
}
