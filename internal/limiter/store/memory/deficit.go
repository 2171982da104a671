// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math"
	"math/bits"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// refills are the algorithms with a bucket.
type refills struct{ bucket }

// bucket is how such an algorithm stores its deficits.
type bucket interface {
	// load returns the deficits now.
	load(v *view) deficits
	// loadPast returns the deficits at the time, or at the later one of the state.
	loadPast(v *view, at int64) past
	// store stores the deficits of now.
	store(v *view, d deficits)
	// empty returns the deficit of an empty bucket.
	empty(v *view) deficit
	// life returns how long the state exists, as keepAlive does.
	life(v *view, d deficits) int64
}

func (r refills) judged(v *view) deficit { return r.load(v).judged() }

func (r refills) used(v *view) int64 { return r.judged(v).units(v) }

func (r refills) usedAfter(v *view, wait int64) int64 {
	if wait >= r.resetAfter(v) {
		return 0
	}
	return r.judged(v).after(v, wait).units(v)
}

func (r refills) timeToFit(v *view, cost int64) int64 {
	missing := r.judged(v)
	if missing.units(v)+cost <= v.limit.Quota {
		return 0
	}
	return min(missing.timeToFit(v, cost), r.resetAfter(v))
}

func (r refills) resetAfter(v *view) int64 {
	d := r.load(v)
	missing := d.judged()
	if missing.isZero() {
		return 0
	}
	return min(missing.timeToFill(v), r.life(v, d))
}

func (r refills) spend(v *view, _ bool) {
	r.store(v, r.load(v).add(v, v.entry.Cost, r.empty(v)))
}

func (r refills) keep(v *view) {
	if d := r.load(v); !d.spent.isZero() {
		keepFor(v, d.spent.timeToFill(v))
	}
}

// beside is what few buckets have beside their state.
type beside struct {
	debt deficit // what commits and charges took beyond an empty bucket
	cut  cutOff
}

// cutOff is, for GCRA, what judges a plan with the ceiling after it has met an arrival time beyond it.
type cutOff struct {
	arrival

	ceiling int64
}

// deficits are how far a bucket is from full for the plans that share it: by all that was spent, and cut to an empty bucket, which
// judges a plan with a smaller burst.
type deficits struct {
	spent, cut deficit
	hasCut     bool
	byCut      bool // the plan of the call is such a plan
}

// judged returns the deficit that judges the call.
func (d deficits) judged() deficit {
	if d.byCut {
		return d.cut
	}
	return d.spent
}

// after returns the deficits after that time of refill.
func (d deficits) after(v *view, wait int64) deficits {
	d.spent, d.cut = d.spent.after(v, wait), d.cut.after(v, wait)
	return d
}

// add adds units. Of a debt that would take longer than store.MaxDebt it adds only a part. empty is the deficit of an
// empty bucket.
func (d deficits) add(v *view, units int64, empty deficit) deficits {
	most := empty.plus(product(store.MaxDebt.Microseconds(), v.limit.Threshold))
	add := func(found deficit, judges bool) deficit {
		sum, room := found.plus(product(units, v.window)), most
		if found.atLeast(most) {
			room = found
		}
		if judges {
			leftOut, _ := sum.minus(room).over(v.window)
			v.entry.debtCut += leftOut
		}
		return sum.atMost(room)
	}
	d.spent = add(d.spent, !d.byCut)
	if d.hasCut {
		d.cut = add(d.cut, d.byCut)
	}
	return d
}

// past are the deficits of a bucket at a time that has passed, while holds are settled.
type past struct {
	deficits

	at int64
}

func (r refills) settle(v *view, units, at int64) {
	if v.past == nil {
		p := r.loadPast(v, at)
		v.past = &p
	}
	at = max(at, v.past.at)
	v.past.deficits, v.past.at = v.past.after(v, at-v.past.at).add(v, units, r.empty(v)), at
}

// endSettling stores the deficits after holds have been settled. The state of a full bucket is not needed any more.
func (r refills) endSettling(v *view) {
	now := v.past.after(v, v.entry.now-v.past.at)
	v.past = nil
	if now.spent.isZero() {
		v.gone, v.beside = 0, beside{}
		return
	}
	v.spent = true
	r.store(v, now)
}

// keepFor keeps the state for the given microseconds, and as long as the holds.
func keepFor(v *view, need int64) {
	v.expireAfter(v.entry.now, need)
	if h := v.entry.holds; h.Len() > 0 {
		v.gone = max(v.gone, h.LastMilli()+1)
	}
}

func (refills) afterLast(v *view, held, last, wait int64) int64 {
	return max(wait, last) + product(held, v.window).timeToFill(v)
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
	if d.atLeast(o) {
		return o
	}
	return d
}

func (d deficit) atLeast(o deficit) bool {
	return d.high > o.high || d.high == o.high && d.low >= o.low
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
