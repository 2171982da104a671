// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

// tokenBucket stores what was spent of the bucket in data[0] and data[1], and its time in data[2].
type tokenBucket struct{ refills }

// load returns the deficits now.
func (b tokenBucket) load(v *view) deficits {
	switch {
	case v.isCurrent:
		return v.current
	case !v.exists(v.entry.now):
		return deficits{}
	}
	return b.stored(v).after(v, v.entry.now-v.data[2])
}

// empty returns the deficit of an empty bucket.
func (tokenBucket) empty(v *view) deficit { return product(v.limit.Ceiling(), v.window) }

// stored returns the deficits at the bucket's own time. For a smaller quota the bucket is empty.
func (b tokenBucket) stored(v *view) deficits {
	d := deficits{spent: deficitOf(v.data[0], v.data[1])}
	if most := b.empty(v).plus(v.debt); d.spent.atLeast(most) {
		d.cut, d.hasCut, d.byCut = most, true, true
	}
	return d
}

func (b tokenBucket) judged(v *view) deficit {
	return b.load(v).judged()
}

func (b tokenBucket) used(v *view) int64 { return b.judged(v).units(v) }

func (b tokenBucket) usedAfter(v *view, wait int64) int64 {
	if wait >= b.resetAfter(v) {
		return 0
	}
	return b.judged(v).after(v, wait).units(v)
}

func (b tokenBucket) timeToFit(v *view, cost int64) int64 {
	missing := b.judged(v)
	if missing.units(v)+cost <= v.limit.Quota {
		return 0
	}
	return min(missing.timeToFit(v, cost), b.resetAfter(v))
}

func (b tokenBucket) resetAfter(v *view) int64 {
	d := b.load(v)
	missing := d.judged()
	if missing.isZero() {
		return 0
	}
	return min(missing.timeToFill(v), v.keepAlive(d.spent.timeToFill(v)))
}

func (b tokenBucket) spend(v *view, _ bool) {
	b.store(v, b.load(v).add(v, v.entry.Cost, b.empty(v)))
}

func (b tokenBucket) store(v *view, d deficits) {
	v.debt = d.judged().minus(b.empty(v))
	v.current, v.isCurrent = d, true
	high, low := d.spent.bits()
	v.data = [3]int64{high, low, v.entry.now}
	b.keepWith(v, d.spent.timeToFill(v))
}

func (b tokenBucket) settle(v *view, units, at int64) {
	b.settleIn(v, units, at, b.empty(v), func() past {
		if !v.exists(v.entry.now) {
			return past{at: at}
		}
		return past{deficits: b.stored(v), at: v.data[2]}
	})
}

func (b tokenBucket) endSettling(v *view) {
	if d, needed := b.deficitsNow(v); needed {
		b.store(v, d)
	}
}

func (b tokenBucket) keep(v *view) {
	if d := b.load(v); !d.spent.isZero() {
		b.keepWith(v, d.spent.timeToFill(v))
	}
}
