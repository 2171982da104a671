// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"cmp"
	"math/big"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// gcra is the reference model of gcra.lua. The arrival time is whole plus
// part/Threshold microseconds since 1970.
type gcra struct {
	whole, part int64
	debt        int64 // the last microseconds, which no limit admitted
	rate        int64 // the threshold by which the debt was stored; 0 without a debt
	end         expiry
	cut         int64 // units of debt that were cut
	holds       *holdSet

	past *gcraPast // while holds are settled
}

// gcraPast is the deficit at a time that has passed.
type gcraPast struct {
	missing deficit
	at      int64
}

func (g *gcra) alive(now int64) bool { return g.end.alive(now) }

// load returns how far the arrival time is ahead, as the deficit of a bucket. For an entry
// that is not a peek, it moves an arrival time that is too far ahead back to the ceiling and the debt, and
// stores a debt of another rate with the new one: the same units are missing.
func (g *gcra) load(e *quota.Entry, l *quota.Limit, now int64) deficit {
	ahead, rate := g.whole-now, cmp.Or(g.rate, l.Threshold)
	if g.whole == 0 || ahead < 0 {
		return newDeficit(0, 0)
	}
	missing := newDeficit(ahead, rate).plus(newDeficit(min(g.part, rate-1), 1))
	most := newDeficit(l.Ceiling(), l.Threshold).plus(newDeficit(g.debt, rate))
	tooFar := ahead > l.Ceiling()+g.debt
	if rate != l.Threshold {
		tooFar = missing.Cmp(most.Int) > 0
	}
	if e.Peek || !tooFar && rate == l.Threshold {
		return missing
	}
	if tooFar {
		missing = most
	}
	cut := g.cut
	missing = g.store(missing, l, now)
	g.cut = cut // what a slower rate cuts is not counted
	return missing
}

// store returns the deficit that remains after the longest debt is cut.
func (g *gcra) store(missing deficit, l *quota.Limit, now int64) deficit {
	empty := newDeficit(l.Ceiling(), l.Threshold)
	missing, cut := missing.cutDebt(empty, l)
	g.cut += cut
	whole, part := new(big.Int).QuoRem(missing.Int, big.NewInt(l.Threshold), new(big.Int))
	g.whole, g.part = now+whole.Int64(), part.Int64()
	g.debt, g.rate = new(big.Int).Quo(missing.minus(empty).Int, big.NewInt(l.Threshold)).Int64(), 0
	if g.debt > 0 {
		g.rate = l.Threshold
	}
	g.keepFor(missing.resetAfter(l), now)
	return missing
}

// keepFor sets the expiry.
func (g *gcra) keepFor(needed, now int64) {
	g.end = expireAfter(now, needed)
	if g.holds.set.Len() > 0 {
		g.end = max(g.end, g.holds.expiry())
	}
}

func (g *gcra) used(e *quota.Entry, l *quota.Limit, now int64) int64 {
	return g.load(e, l, now).used(l)
}

func (g *gcra) usedAfter(e *quota.Entry, l *quota.Limit, now, wait int64) int64 {
	return g.load(e, l, now).afterRefill(wait, l).used(l)
}

func (g *gcra) timeToFit(e *quota.Entry, l *quota.Limit, now int64) int64 {
	missing := g.load(e, l, now)
	if missing.used(l)+e.Cost <= l.Quota {
		return 0
	}
	return missing.timeToFit(e, l)
}

func (g *gcra) resetAfter(e *quota.Entry, l *quota.Limit, now int64) int64 {
	return g.load(e, l, now).resetAfter(l)
}

func (g *gcra) spend(e *quota.Entry, l *quota.Limit, now int64, _ bool) {
	g.store(g.load(e, l, now).plus(deficitOf(e.Cost, l)), l, now)
}

func (g *gcra) cutDebt(*quota.Entry, *quota.Limit, int64) (cut int64) {
	cut, g.cut = g.cut, 0
	return cut
}

func (g *gcra) settle(e *quota.Entry, l *quota.Limit, units, at, now int64) {
	if g.past == nil {
		g.past = &gcraPast{missing: newDeficit(0, 0), at: at}
		missing := g.load(e, l, now)
		whole, part := g.whole, min(g.part, l.Threshold-1)
		if g.rate != 0 && g.rate != l.Threshold && whole >= now { // a peek has not stored it
			quotient, rest := new(big.Int).QuoRem(missing.Int, big.NewInt(l.Threshold), new(big.Int))
			whole, part = now+quotient.Int64(), rest.Int64()
		}
		if whole > at {
			g.past.missing = newDeficit(whole-at, l.Threshold).plus(newDeficit(part, 1))
		}
	}
	left := g.past.missing.afterRefill(at-g.past.at, l)
	var cut int64
	g.past.missing, cut = left.plus(deficitOf(units, l)).cutDebt(newDeficit(l.Ceiling(), l.Threshold), l)
	g.past.at = at
	g.cut += cut
}

func (g *gcra) endSettling(_ *quota.Entry, l *quota.Limit, now int64) {
	missing := g.past.missing.afterRefill(now-g.past.at, l)
	if missing.Sign() == 0 {
		*g = gcra{cut: g.cut, holds: g.holds}
		return
	}
	g.past = nil
	g.store(missing, l, now)
}

func (g *gcra) keep(e *quota.Entry, l *quota.Limit, now int64) {
	if missing := g.load(e, l, now); missing.Sign() > 0 {
		g.keepFor(missing.resetAfter(l), now)
	}
}

func (g *gcra) afterLast(l *quota.Limit, held, last, wait int64) int64 {
	return max(wait, last) + deficitOf(held, l).resetAfter(l)
}
