// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

// tokenBucket stores what was spent of the bucket in data[0] and data[1], and its time in data[2].
type tokenBucket struct{}

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

func (b tokenBucket) store(v *view, d deficits) {
	v.debt = d.judged().minus(b.empty(v))
	v.current, v.isCurrent = d, true
	high, low := d.spent.bits()
	v.data = [3]int64{high, low, v.entry.now}
	keepFor(v, d.spent.timeToFill(v))
}

func (b tokenBucket) loadPast(v *view, at int64) past {
	if !v.exists(v.entry.now) {
		return past{at: at}
	}
	return past{deficits: b.stored(v), at: v.data[2]}
}

func (tokenBucket) life(v *view, d deficits) int64 { return v.keepAlive(d.spent.timeToFill(v)) }
