// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

// tokenBucket stores the deficit of the bucket in data[0] and data[1], and its time in data[2].
type tokenBucket struct{ refills }

// load returns the deficit now.
func (b tokenBucket) load(v *view) deficit {
	if !v.exists(v.entry.now) {
		return deficit{}
	}
	return b.stored(v).after(v, v.entry.now-v.data[2])
}

// empty returns the deficit of an empty bucket.
func (tokenBucket) empty(v *view) deficit { return product(v.limit.Ceiling(), v.window) }

// stored returns the deficit at the bucket's own time. A smaller quota leaves an empty bucket.
func (b tokenBucket) stored(v *view) deficit {
	return deficitOf(v.data[0], v.data[1]).atMost(b.empty(v).plus(v.debt))
}

func (b tokenBucket) used(v *view) int64 { return b.load(v).units(v) }

func (b tokenBucket) usedAfter(v *view, wait int64) int64 {
	if wait >= b.resetAfter(v) {
		return 0
	}
	return b.load(v).after(v, wait).units(v)
}

func (b tokenBucket) timeToFit(v *view, cost int64) int64 {
	missing := b.load(v)
	if missing.units(v)+cost <= v.limit.Quota {
		return 0
	}
	return min(missing.timeToFit(v, cost), b.resetAfter(v))
}

func (b tokenBucket) resetAfter(v *view) int64 {
	missing := b.load(v)
	if missing.isZero() {
		return 0
	}
	full := missing.timeToFill(v)
	return min(full, v.keepAlive(full))
}

func (b tokenBucket) spend(v *view, _ bool) {
	b.store(v, b.load(v).plus(product(v.entry.Cost, v.window)))
}

func (b tokenBucket) store(v *view, missing deficit) {
	missing = v.cutDebt(missing, b.empty(v))
	high, low := missing.bits()
	v.data = [3]int64{high, low, v.entry.now}
	b.keepWith(v, missing.timeToFill(v))
}

func (b tokenBucket) settle(v *view, units, at int64) {
	b.settleIn(v, units, at, b.empty(v), func() past {
		if !v.exists(v.entry.now) {
			return past{at: at}
		}
		return past{missing: b.stored(v), at: v.data[2]}
	})
}

func (b tokenBucket) endSettling(v *view) {
	if missing, needed := b.deficitNow(v); needed {
		b.store(v, missing)
	}
}

func (b tokenBucket) keep(v *view) {
	if missing := b.load(v); !missing.isZero() {
		b.keepWith(v, missing.timeToFill(v))
	}
}
