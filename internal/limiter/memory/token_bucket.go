// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

// tokenBucket stores the debt of the bucket in data[0] and data[1], and its time in data[2].
type tokenBucket struct{}

// load returns the debt now.
func (tokenBucket) load(v *view) debt {
	if !v.exists(v.entry.now) {
		return debt{}
	}
	return debtOf(v.data[0], v.data[1]).atMost(product(v.limit.Ceiling(), v.window)).after(v, v.entry.now-v.data[2])
}

func (b tokenBucket) used(v *view) int64 { return b.load(v).units(v) }

func (b tokenBucket) usedAfter(v *view, wait int64) int64 {
	if wait >= b.resetAfter(v) {
		return 0
	}
	return b.load(v).after(v, wait).units(v)
}

func (b tokenBucket) timeToFit(v *view) int64 {
	missing := b.load(v)
	if missing.units(v)+v.entry.cost <= v.limit.Quota {
		return 0
	}
	return min(missing.timeToFit(v), b.resetAfter(v))
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
	missing := b.load(v).plus(product(v.entry.cost, v.window))
	high, low := missing.bits()
	v.data = [3]int64{high, low, v.entry.now}
	v.expireAfter(v.entry.now, missing.timeToFill(v))
}
