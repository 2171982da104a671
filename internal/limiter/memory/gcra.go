// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"math"
)

// gcra stores the theoretical arrival time: data[0] plus data[1]/threshold microseconds. With a debt, data[2] is the
// threshold by which it was stored, else 0.
type gcra struct{ refills }

// load returns how far the arrival time is ahead, as the deficit of a bucket. Unless the entry is
// a peek, an arrival time that is too far ahead, after an edit, is moved back to the ceiling and the debt, and a debt
// of another rate is stored with the new one: the same units are missing; also not while a peek settles holds.
func (g gcra) load(v *view) deficit {
	now := v.entry.now
	ahead := v.data[0] - now
	if !v.exists(now) || ahead < 0 {
		return deficit{}
	}
	debt, _ := v.debt.over(1)
	rate := cmp.Or(v.data[2], v.limit.Threshold)
	missing := product(ahead, rate).plus(product(1, min(v.data[1], rate-1)))
	most := product(v.limit.Ceiling(), v.limit.Threshold).plus(product(debt, rate))
	if v.entry.Peek || rate == v.limit.Threshold && ahead <= plusMicros(v.limit.Ceiling(), debt) {
		return missing
	}
	cut := v.entry.debtCut
	missing = g.store(v, missing.atMost(most))
	v.entry.debtCut = cut // what a slower rate cuts is not counted
	v.spent = true        // the debt has changed
	return missing
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

// store returns the deficit that remains after the longest debt is cut.
func (g gcra) store(v *view, missing deficit) deficit {
	missing = v.cutDebt(missing, g.empty(v))
	debt, _ := v.debt.over(v.limit.Threshold)
	v.debt = product(debt, 1) // in microseconds at the stored rate
	whole, part := missing.over(v.limit.Threshold)
	v.data = [3]int64{v.entry.now + whole, part}
	if debt > 0 {
		v.data[2] = v.limit.Threshold
	}
	g.keepWith(v, missing.timeToFill(v))
	return missing
}

func (g gcra) settle(v *view, units, at int64) {
	g.settleIn(v, units, at, g.empty(v), func() past {
		missing := g.load(v) // moves back an arrival time that is too far ahead
		whole, part := v.data[0], min(v.data[1], v.limit.Threshold-1)
		if rate := v.data[2]; rate != 0 && rate != v.limit.Threshold && whole >= v.entry.now { // a peek has not stored it
			whole, part = missing.over(v.limit.Threshold)
			whole += v.entry.now
		}
		if ahead := whole - at; v.exists(v.entry.now) && ahead >= 0 {
			return past{missing: product(ahead, v.limit.Threshold).plus(product(1, part)), at: at}
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
