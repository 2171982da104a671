// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"math"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// gcra stores the theoretical arrival time: data[0] plus data[1]/threshold microseconds. With a debt, data[2] is the
// threshold by which it was stored, else 0.
type gcra struct{}

// arrival is a theoretical arrival time: whole plus part/threshold microseconds.
type arrival struct{ whole, part int64 }

// deficit returns how far the arrival time is ahead of the time.
func (a arrival) deficit(at, rate int64) deficit {
	if a.whole < at {
		return deficit{}
	}
	return product(a.whole-at, rate).plus(product(1, min(a.part, rate-1)))
}

// arrivalOf returns the arrival time with that deficit.
func arrivalOf(v *view, missing deficit) arrival {
	whole, part := missing.over(v.limit.Threshold)
	return arrival{v.entry.now + whole, part}
}

func (gcra) arrival(v *view) arrival { return arrival{v.data[0], v.data[1]} }

// load returns the deficits. Unless the entry is a peek, it stores what judges a plan beyond whose ceiling the arrival time
// lies, and a debt of another rate with the new one: the same units are missing; also not while a peek settles holds.
func (g gcra) load(v *view) deficits {
	if v.isCurrent {
		return v.current
	}
	now, spent := v.entry.now, g.arrival(v)
	if !v.exists(now) || spent.whole < now {
		return deficits{}
	}
	rate := cmp.Or(v.data[2], v.limit.Threshold)
	d := deficits{spent: spent.deficit(now, rate), cut: v.cut.deficit(now, rate), hasCut: v.cut.whole != 0}
	isNew := g.judge(v, &d, rate)
	if v.entry.Peek || !isNew && rate == v.limit.Threshold {
		return d
	}
	if rate != v.limit.Threshold { // what a slower rate would take too long for is cut, and not counted
		longest := g.empty(v).plus(product(store.MaxDebt.Microseconds(), v.limit.Threshold))
		d.spent, d.cut = d.spent.atMost(longest), d.cut.atMost(longest)
	}
	g.store(v, d)
	v.spent = true
	return v.current
}

// judge finds which of the deficits, at the rate, judges the call. It reports whether it has cut one that was not
// cut before.
func (gcra) judge(v *view, d *deficits, rate int64) (isNew bool) {
	debt, _ := v.debt.over(1)
	most := product(v.limit.Ceiling(), v.limit.Threshold).plus(product(debt, rate))
	tooFar := most.plus(product(1, v.limit.Threshold)) // a debt is in whole microseconds
	if rate != v.limit.Threshold {
		tooFar = most.plus(product(1, 1))
	}
	if d.hasCut {
		apart := gcra{}.arrival(v).deficit(v.cut.whole, rate).minus(product(1, v.cut.part))
		larger := v.limit.Ceiling() - v.cut.ceiling
		// 2 microseconds for the fractions of several rates.
		d.byCut = (larger <= 0 || !product(larger+2, rate).atLeast(apart)) && !d.cut.atLeast(tooFar)
	}
	if !d.byCut && d.spent.atLeast(tooFar) && !v.entry.Peek {
		d.cut, d.hasCut, d.byCut, v.cut.ceiling = most, true, true, v.limit.Ceiling()
		return true
	}
	return false
}

// empty returns the deficit of an arrival time that is as far ahead as checks can move it.
func (gcra) empty(v *view) deficit { return product(v.limit.Ceiling(), v.limit.Threshold) }

func (g gcra) store(v *view, d deficits) {
	debt, _ := d.judged().minus(g.empty(v)).over(v.limit.Threshold)
	v.beside = beside{debt: product(debt, 1), cut: cutOff{ceiling: v.cut.ceiling}} // in microseconds at the stored rate
	if d.hasCut && d.cut != d.spent {
		v.cut.arrival = arrivalOf(v, d.cut)
	} else { // without a cut, or both are equal
		v.cut, d.hasCut, d.byCut = cutOff{}, false, false
	}
	spent := arrivalOf(v, d.spent)
	v.data = [3]int64{spent.whole, spent.part}
	if debt > 0 && v.cut == (cutOff{}) { // else another rate may have spent the rest
		v.data[2] = v.limit.Threshold
	}
	v.current, v.isCurrent = d, true
	keepFor(v, d.spent.timeToFill(v))
}

func (g gcra) loadPast(v *view, at int64) past {
	d := g.load(v) // may store
	if !v.exists(v.entry.now) {
		return past{at: at}
	}
	spent, cut := g.arrival(v), v.cut.arrival
	if rate := v.data[2]; rate != 0 && rate != v.limit.Threshold && spent.whole >= v.entry.now { // a peek has not stored it
		spent, cut = arrivalOf(v, d.spent), arrivalOf(v, d.cut)
	}
	rate := v.limit.Threshold
	d.spent, d.cut = spent.deficit(at, rate), cut.deficit(at, rate)
	return past{deficits: d, at: at}
}

func (gcra) life(*view, deficits) int64 { return math.MaxInt64 }
