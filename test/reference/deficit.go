// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"math/big"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// deficit is the reference model of deficit.lua: how far a bucket is from full, in units
// times the window in microseconds, without rounding. One microsecond refills
// l.Threshold of it.
type deficit struct{ *big.Int }

// newDeficit returns a*b.
func newDeficit(a, b int64) deficit {
	return deficit{new(big.Int).Mul(big.NewInt(a), big.NewInt(b))}
}

func deficitOf(units int64, l *store.Limit) deficit {
	return newDeficit(units, l.Window.Microseconds())
}

func (d deficit) plus(o deficit) deficit {
	if o.Int == nil {
		return d
	}
	return deficit{new(big.Int).Add(d.Int, o.Int)}
}

// minus subtracts o; the result is at least 0.
func (d deficit) minus(o deficit) deficit {
	left := new(big.Int).Sub(d.Int, o.Int)
	if left.Sign() < 0 {
		left.SetInt64(0)
	}
	return deficit{left}
}

func (d deficit) atMost(o deficit) deficit {
	if d.Cmp(o.Int) > 0 {
		return o
	}
	return d
}

// ceilDiv returns d/n, rounded up.
func (d deficit) ceilDiv(n int64) int64 {
	quotient, rest := new(big.Int).QuoRem(d.Int, big.NewInt(n), new(big.Int))
	if rest.Sign() > 0 {
		return quotient.Int64() + 1
	}
	return quotient.Int64()
}

// afterRefill returns the deficit after wait microseconds of refill.
func (d deficit) afterRefill(wait int64, l *store.Limit) deficit {
	return d.minus(newDeficit(max(0, wait), l.Threshold))
}

// deficits are how far a bucket is from full for the plans that share it: by all that was spent, and cut to an empty bucket, which
// judges a plan with a smaller burst.
type deficits struct {
	spent deficit
	cut   deficit // without a value if no such plan has met the bucket
	byCut bool    // the plan of the call is such a plan
}

// judged returns the deficit that judges the call.
func (d deficits) judged() deficit {
	if d.byCut {
		return d.cut
	}
	return d.spent
}

// move returns the deficits after microseconds of refill, and then with further units. Of a debt that would take longer than MaxDebt
// it adds only a part. leftOut is the rest of the units in the deficit that judges, rounded down.
func (d deficits) move(l *store.Limit, empty deficit, micros, units int64) (moved deficits, leftOut int64) {
	most := empty.plus(newDeficit(store.MaxDebt.Microseconds(), l.Threshold))
	move := func(found deficit, judges bool) deficit {
		found = found.afterRefill(micros, l)
		room := found
		if found.Cmp(most.Int) < 0 {
			room = most
		}
		sum := found.plus(deficitOf(units, l))
		if judges {
			leftOut = new(big.Int).Quo(sum.minus(room).Int, big.NewInt(l.Window.Microseconds())).Int64()
		}
		return sum.atMost(room)
	}
	d.spent = move(d.spent, !d.byCut)
	if d.cut.Int != nil {
		d.cut = move(d.cut, d.byCut)
	}
	return d, leftOut
}

// debtor is a counter that works off the units above its quota.
type debtor interface {
	// cutDebt returns the units of debt that were cut since the last time.
	cutDebt(e *store.Entry, l *store.Limit, now int64) int64
}

// used returns the missing units, rounded up.
func (d deficit) used(l *store.Limit) int64 { return d.ceilDiv(l.Window.Microseconds()) }

// timeToFit returns the microseconds until the cost fits.
func (d deficit) timeToFit(e *store.Entry, l *store.Limit) int64 {
	return d.minus(deficitOf(l.Quota-e.Cost, l)).ceilDiv(l.Threshold)
}

// resetAfter returns the microseconds until the bucket is full.
func (d deficit) resetAfter(l *store.Limit) int64 { return d.ceilDiv(l.Threshold) }
