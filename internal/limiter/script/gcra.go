// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"math"
	"math/big"
)

// GCRA admits units evenly spaced at Threshold per Window, and up to Quota units in one
// instant: the Generic Cell Rate Algorithm of ITU-T I.371 with a cost. The state is the
// theoretical arrival time. See gcra.lua.
const GCRA Algorithm = "gc"

var gcraKind = kind{
	code: GCRA, name: "GCRA", file: "gcra.lua", library: deficitLibrary,
	arguments: func(l *Limit) []int64 { return []int64{l.Threshold, l.ceiling} },
	ceiling: func(l *Limit) int64 {
		full := deficitOf(l.Quota, l)
		if full.Quo(full.Int, big.NewInt(l.Threshold)); !full.IsInt64() {
			return math.MaxInt64
		}
		return full.Int64()
	},
	model: func(m *Model, e *Entry, l *Limit) counter {
		return state[gcra](m, e.Key, l.stateKey(e.Policy.id))
	},
}

// gcra is the reference model of gcra.lua. The arrival time is whole plus
// part/Threshold microseconds since 1970.
type gcra struct {
	whole, part int64
	end         expiry
}

func (g *gcra) alive(now int64) bool { return g.end.alive(now) }

// load returns how far the arrival time is ahead, as the deficit of a bucket. For an entry
// that is not a peek, it moves an arrival time that is too far ahead back to the ceiling.
func (g *gcra) load(e *Entry, l *Limit, now int64) deficit {
	ahead, part := g.whole-now, min(g.part, l.Threshold-1)
	if g.whole == 0 || ahead < 0 {
		return newDeficit(0, 0)
	}
	if ahead <= l.ceiling || e.Peek {
		return newDeficit(ahead, l.Threshold).plus(newDeficit(part, 1))
	}
	missing := newDeficit(l.ceiling, l.Threshold)
	g.store(missing, l, now)
	return missing
}

func (g *gcra) store(missing deficit, l *Limit, now int64) {
	whole, part := new(big.Int).QuoRem(missing.Int, big.NewInt(l.Threshold), new(big.Int))
	g.whole, g.part = now+whole.Int64(), part.Int64()
	g.end = expireAfter(now, missing.resetAfter(l))
}

func (g *gcra) used(e *Entry, l *Limit, now int64) int64 { return g.load(e, l, now).used(l) }

func (g *gcra) usedAfter(e *Entry, l *Limit, now, wait int64) int64 {
	return g.load(e, l, now).afterRefill(wait, l).used(l)
}

func (g *gcra) timeToFit(e *Entry, l *Limit, now int64) int64 {
	missing := g.load(e, l, now)
	if missing.used(l)+e.Cost <= l.Quota {
		return 0
	}
	return missing.timeToFit(e, l)
}

func (g *gcra) resetAfter(e *Entry, l *Limit, now int64) int64 {
	return g.load(e, l, now).resetAfter(l)
}

func (g *gcra) spend(e *Entry, l *Limit, now int64, _ bool) {
	g.store(g.load(e, l, now).plus(deficitOf(e.Cost, l)), l, now)
}
