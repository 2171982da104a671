// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

// gcra stores the theoretical arrival time: data[0] plus data[1]/threshold microseconds.
type gcra struct{}

// load returns how far the arrival time is ahead, as the debt of a bucket. Unless the entry is
// a peek, an arrival time that is too far ahead, after an edit, is moved back to the ceiling.
func (g gcra) load(v *view) debt {
	now := v.entry.now
	ahead := v.data[0] - now
	if !v.exists(now) || ahead < 0 {
		return debt{}
	}
	if ceiling := v.limit.Ceiling(); ahead > ceiling && !v.entry.peek {
		g.store(v, product(ceiling, v.limit.Threshold))
		ahead = ceiling
	}
	return product(ahead, v.limit.Threshold).plus(product(1, min(v.data[1], v.limit.Threshold-1)))
}

func (gcra) store(v *view, missing debt) {
	whole, part := missing.over(v.limit.Threshold)
	v.data = [3]int64{v.entry.now + whole, part}
	v.expireAfter(v.entry.now, missing.timeToFill(v))
}

func (g gcra) used(v *view) int64 { return g.load(v).units(v) }

func (g gcra) usedAfter(v *view, wait int64) int64 { return g.load(v).after(v, wait).units(v) }

func (g gcra) timeToFit(v *view) int64 {
	missing := g.load(v)
	if missing.units(v)+v.entry.cost <= v.limit.Quota {
		return 0
	}
	return missing.timeToFit(v)
}

func (g gcra) resetAfter(v *view) int64 { return g.load(v).timeToFill(v) }

func (g gcra) spend(v *view, _ bool) {
	g.store(v, g.load(v).plus(product(v.entry.cost, v.window)))
}
