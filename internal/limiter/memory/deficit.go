// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math"
	"math/bits"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// refills is what the algorithms with a bucket have in common.
type refills struct{}

// past is the deficit of a bucket at a time that has passed, while holds are settled.
type past struct {
	missing deficit
	at      int64
}

// settleIn adds the units to the deficit at the time. first returns the stored deficit and its
// time, and empty is the deficit of an empty bucket.
func (refills) settleIn(v *view, units, at int64, empty deficit, first func() past) {
	if v.past == nil {
		p := first()
		v.past = &p
	}
	time := max(at, v.past.at)
	missing := v.past.missing.after(v, time-v.past.at).plus(product(units, v.window))
	v.past.missing, v.past.at = v.cutDebt(missing, empty), time
}

// deficitNow returns the deficit after holds have been settled. The state of a full
// bucket is not needed any more.
func (refills) deficitNow(v *view) (missing deficit, needed bool) {
	missing = v.past.missing.after(v, v.entry.now-v.past.at)
	v.past = nil
	if missing.isZero() {
		v.gone, v.debt = 0, deficit{}
		return missing, false
	}
	v.spent = true
	return missing, true
}

// keepWith keeps the state for the given microseconds, and as long as the holds.
func (refills) keepWith(v *view, need int64) {
	v.expireAfter(v.entry.now, need)
	if h := v.entry.holds; h.Len() > 0 {
		v.gone = max(v.gone, h.LastMilli()+1)
	}
}

func (refills) afterLast(v *view, held, last, wait int64) int64 {
	return max(wait, last) + product(held, v.window).timeToFill(v)
}

// cutDebt returns the deficit without the debt that would take longer than quota.MaxDebt, and
// sets the debt. empty is the deficit of an empty bucket.
func (v *view) cutDebt(missing, empty deficit) deficit {
	most := empty.plus(product(quota.MaxDebt.Microseconds(), v.limit.Threshold))
	cut, _ := missing.minus(most).over(v.window)
	v.entry.debtCut += cut
	missing = missing.atMost(most)
	v.debt = missing.minus(empty)
	return missing
}

// deficit is how far a bucket is from full, in units times the window in microseconds: a product
// of 128 bits, so that nothing is ever rounded. One microsecond refills the threshold.
type deficit struct{ high, low uint64 }

// product returns a*b, of two numbers that are not negative.
func product(a, b int64) deficit {
	high, low := bits.Mul64(uint64(a), uint64(b)) //nolint:gosec // not negative
	return deficit{high: high, low: low}
}

// deficitOf returns the deficit that bits returned.
func deficitOf(high, low int64) deficit {
	return deficit{high: uint64(high), low: uint64(low)} //nolint:gosec // the same bits
}

// bits returns the deficit in a form that fits in a state.
func (d deficit) bits() (high, low int64) {
	return int64(d.high), int64(d.low) //nolint:gosec // the same bits
}

func (d deficit) isZero() bool { return d == deficit{} }

func (d deficit) plus(o deficit) deficit {
	low, carry := bits.Add64(d.low, o.low, 0)
	high, _ := bits.Add64(d.high, o.high, carry)
	return deficit{high: high, low: low}
}

// minus subtracts o; the result is at least 0.
func (d deficit) minus(o deficit) deficit {
	low, borrow := bits.Sub64(d.low, o.low, 0)
	high, borrow := bits.Sub64(d.high, o.high, borrow)
	if borrow != 0 {
		return deficit{}
	}
	return deficit{high: high, low: low}
}

func (d deficit) atMost(o deficit) deficit {
	if d.high > o.high || d.high == o.high && d.low > o.low {
		return o
	}
	return d
}

// over returns d/n and the rest. A quotient that no int64 holds is the largest one.
func (d deficit) over(n int64) (quotient, rest int64) {
	divisor := uint64(n) //nolint:gosec // positive
	if d.high >= divisor {
		return math.MaxInt64, 0
	}
	q, r := bits.Div64(d.high, d.low, divisor)
	if q > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(q), int64(r) //nolint:gosec // the rest is less than n
}

// ceilOver returns d/n, rounded up.
func (d deficit) ceilOver(n int64) int64 {
	quotient, rest := d.over(n)
	if rest > 0 {
		quotient++
	}
	return quotient
}

// units returns the missing units, rounded up.
func (d deficit) units(v *view) int64 { return d.ceilOver(v.window) }

// timeToFill returns how long the bucket takes to become full.
func (d deficit) timeToFill(v *view) int64 { return d.ceilOver(v.limit.Threshold) }

// timeToFit returns how long it takes until the cost fits; 0 if it fits now.
func (d deficit) timeToFit(v *view, cost int64) int64 {
	return d.minus(product(v.limit.Quota-cost, v.window)).timeToFill(v)
}

// after returns the deficit after that time of refill.
func (d deficit) after(v *view, wait int64) deficit {
	return d.minus(product(max(0, wait), v.limit.Threshold))
}
