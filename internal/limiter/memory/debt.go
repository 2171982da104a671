// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math"
	"math/bits"
)

// debt is how far a bucket is from full, in units times the window in microseconds: a product
// of 128 bits, so that nothing is ever rounded. One microsecond refills the threshold.
type debt struct{ high, low uint64 }

// product returns a*b, of two numbers that are not negative.
func product(a, b int64) debt {
	high, low := bits.Mul64(uint64(a), uint64(b)) //nolint:gosec // not negative
	return debt{high: high, low: low}
}

// debtOf returns the debt that bits returned.
func debtOf(high, low int64) debt {
	return debt{high: uint64(high), low: uint64(low)} //nolint:gosec // the same bits
}

// bits returns the debt in a form that fits in a state.
func (d debt) bits() (high, low int64) {
	return int64(d.high), int64(d.low) //nolint:gosec // the same bits
}

func (d debt) isZero() bool { return d == debt{} }

func (d debt) plus(o debt) debt {
	low, carry := bits.Add64(d.low, o.low, 0)
	high, _ := bits.Add64(d.high, o.high, carry)
	return debt{high: high, low: low}
}

// minus subtracts o; the result is at least 0.
func (d debt) minus(o debt) debt {
	low, borrow := bits.Sub64(d.low, o.low, 0)
	high, borrow := bits.Sub64(d.high, o.high, borrow)
	if borrow != 0 {
		return debt{}
	}
	return debt{high: high, low: low}
}

func (d debt) atMost(o debt) debt {
	if d.high > o.high || d.high == o.high && d.low > o.low {
		return o
	}
	return d
}

// over returns d/n and the rest. A quotient that no int64 holds is the largest one.
func (d debt) over(n int64) (quotient, rest int64) {
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
func (d debt) ceilOver(n int64) int64 {
	quotient, rest := d.over(n)
	if rest > 0 {
		quotient++
	}
	return quotient
}

// units returns the missing units, rounded up.
func (d debt) units(v *view) int64 { return d.ceilOver(v.window) }

// timeToFill returns how long the bucket takes to become full.
func (d debt) timeToFill(v *view) int64 { return d.ceilOver(v.limit.Threshold) }

// timeToFit returns how long it takes until the cost fits; 0 if it fits now.
func (d debt) timeToFit(v *view) int64 {
	return d.minus(product(v.limit.Quota-v.entry.cost, v.window)).timeToFill(v)
}

// after returns the debt after that time of refill.
func (d debt) after(v *view, wait int64) debt {
	return d.minus(product(max(0, wait), v.limit.Threshold))
}
