// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"cmp"
	"math/big"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// gcra is the reference model of gcra.lua.
type gcra struct {
	arrival arrival
	cutOff  *arrival // what a plan with the ceiling is judged by, after it has met an arrival time beyond it
	ceiling int64    // of cutOff
	debt    int64    // the last microseconds, which no limit admitted
	rate    int64    // the threshold by which the debt was stored; 0 without a debt
	end     expiry
	cut     int64 // units of debt that were left out
	holds   *holdSet

	past    *deficits // at the time pastTime, while holds are settled
	current *deficits // what the call that has written is judged by
	at      int64     // the time of past
}

// arrival is a theoretical arrival time: whole plus part/Threshold microseconds since 1970.
type arrival struct{ whole, part int64 }

// ahead returns how far the arrival time is ahead of the time, as a deficit, which is below 0 if it is behind.
func (a arrival) ahead(at, rate int64) deficit {
	return newDeficit(a.whole-at, rate).plus(newDeficit(min(a.part, rate-1), 1))
}

// arrivalOf returns the arrival time with that deficit.
func arrivalOf(missing deficit, l *store.Limit, now int64) arrival {
	whole, part := new(big.Int).QuoRem(missing.Int, big.NewInt(l.Threshold), new(big.Int))
	return arrival{now + whole.Int64(), part.Int64()}
}

func (g *gcra) alive(now int64) bool { return g.end.alive(now) }

// load returns the deficits.
func (g *gcra) load(e *store.Entry, l *store.Limit, now int64) deficits {
	if g.current != nil {
		return *g.current
	}
	return g.ahead(e, l, now).notBelow0()
}

func (d deficits) notBelow0() deficits {
	none := newDeficit(0, 0)
	d.spent = d.spent.minus(none)
	if d.cut.Int != nil {
		d.cut = d.cut.minus(none)
	}
	return d
}

// ahead returns how far the arrival times are ahead; of the one that judges a smaller plan only if the other is ahead. For
// an entry that is not a peek, it stores what judges a plan beyond whose ceiling the arrival time lies, and a debt of another
// rate with the new one: the same units are missing.
func (g *gcra) ahead(e *store.Entry, l *store.Limit, now int64) deficits {
	rate := cmp.Or(g.rate, l.Threshold)
	switch {
	case g.arrival.whole == 0:
		return deficits{spent: newDeficit(0, 0)}
	case g.arrival.whole < now:
		return deficits{spent: g.arrival.ahead(now, l.Threshold)}
	}
	d, isNew := g.judge(e, l, now, rate)
	if e.Peek || !isNew && rate == l.Threshold {
		return d
	}
	if rate != l.Threshold { // what a slower rate would take too long for is cut, and not counted
		longest := newDeficit(l.Ceiling()+store.MaxDebt.Microseconds(), l.Threshold)
		d.spent = d.spent.atMost(longest)
		if d.cut.Int != nil {
			d.cut = d.cut.atMost(longest)
		}
	}
	g.store(d.notBelow0(), l, now)
	return d
}

// judge returns the deficits at the rate, and whether it has cut one that was not cut before.
func (g *gcra) judge(e *store.Entry, l *store.Limit, now, rate int64) (d deficits, isNew bool) {
	d.spent = g.arrival.ahead(now, rate)
	most := newDeficit(l.Ceiling(), l.Threshold).plus(newDeficit(g.debt, rate))
	tooFar := most.plus(newDeficit(1, l.Threshold)) // a debt is in whole microseconds
	if rate != l.Threshold {
		tooFar = most.plus(newDeficit(1, 1))
	}
	if g.cutOff != nil {
		d.cut = g.cutOff.ahead(now, rate)
		apart := new(big.Int).Sub(d.spent.Int, d.cut.Int)
		larger := newDeficit(l.Ceiling()+2-g.ceiling, rate) // 2 microseconds for the fractions of several rates
		d.byCut = (l.Ceiling() <= g.ceiling || larger.Cmp(apart) < 0) && d.cut.Cmp(tooFar.Int) < 0
	}
	if !d.byCut && d.spent.Cmp(tooFar.Int) >= 0 && !e.Peek {
		d.cut, d.byCut, g.ceiling = most, true, l.Ceiling()
		return d, true
	}
	return d, false
}

func (g *gcra) store(d deficits, l *store.Limit, now int64) {
	g.arrival, g.cutOff, g.current = arrivalOf(d.spent, l, now), nil, &d
	if d.cut.Int != nil && d.cut.Cmp(d.spent.Int) < 0 {
		cutOff := arrivalOf(d.cut, l, now)
		g.cutOff = &cutOff
	}
	beyond := d.judged().minus(newDeficit(l.Ceiling(), l.Threshold))
	g.debt, g.rate = new(big.Int).Quo(beyond.Int, big.NewInt(l.Threshold)).Int64(), 0
	if g.debt > 0 && g.cutOff == nil { // else another rate may have spent the rest
		g.rate = l.Threshold
	}
	g.keepFor(d.spent.resetAfter(l), now)
}

// keepFor sets the expiry.
func (g *gcra) keepFor(needed, now int64) {
	g.end = expireAfter(now, needed)
	if g.holds.set.Len() > 0 {
		g.end = max(g.end, g.holds.expiry())
	}
}

func (g *gcra) judged(e *store.Entry, l *store.Limit, now int64) deficit {
	return g.load(e, l, now).judged()
}

func (g *gcra) used(e *store.Entry, l *store.Limit, now int64) int64 {
	return g.judged(e, l, now).used(l)
}

func (g *gcra) usedAfter(e *store.Entry, l *store.Limit, now, wait int64) int64 {
	return g.judged(e, l, now).afterRefill(wait, l).used(l)
}

func (g *gcra) timeToFit(e *store.Entry, l *store.Limit, now int64) int64 {
	missing := g.judged(e, l, now)
	if missing.used(l)+e.Cost <= l.Quota {
		return 0
	}
	return missing.timeToFit(e, l)
}

func (g *gcra) resetAfter(e *store.Entry, l *store.Limit, now int64) int64 {
	return g.judged(e, l, now).resetAfter(l)
}

func (g *gcra) spend(e *store.Entry, l *store.Limit, now int64, _ bool) {
	d, leftOut := g.load(e, l, now).move(l, g.empty(l), 0, e.Cost)
	g.cut += leftOut
	g.store(d, l, now)
}

func (*gcra) empty(l *store.Limit) deficit { return newDeficit(l.Ceiling(), l.Threshold) }

func (g *gcra) cutDebt(*store.Entry, *store.Limit, int64) (cut int64) {
	cut, g.cut = g.cut, 0
	return cut
}

func (g *gcra) settle(e *store.Entry, l *store.Limit, units, at, now int64) {
	if g.past == nil {
		past := deficits{spent: newDeficit(0, 0)}
		if g.arrival.whole != 0 {
			past = g.ahead(e, l, now)
			since := newDeficit(now-at, l.Threshold)
			past.spent = past.spent.plus(since)
			if past.cut.Int != nil {
				past.cut = past.cut.plus(since)
			}
			past = past.notBelow0()
		}
		g.past, g.at = &past, at
	}
	past, leftOut := g.past.move(l, g.empty(l), at-g.at, units)
	g.past, g.at, g.cut = &past, at, g.cut+leftOut
}

func (g *gcra) endSettling(_ *store.Entry, l *store.Limit, now int64) {
	past, _ := g.past.move(l, g.empty(l), now-g.at, 0)
	g.past = nil
	if past.spent.Sign() == 0 {
		*g = gcra{cut: g.cut, holds: g.holds}
		return
	}
	g.store(past, l, now)
}

func (g *gcra) keep(e *store.Entry, l *store.Limit, now int64) {
	if d := g.load(e, l, now); d.spent.Sign() > 0 {
		g.keepFor(d.spent.resetAfter(l), now)
	}
}

func (g *gcra) afterLast(l *store.Limit, held, last, wait int64) int64 {
	return max(wait, last) + deficitOf(held, l).resetAfter(l)
}
