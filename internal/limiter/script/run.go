// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import "slices"

// run is successive calls of a batch with the same policies, for which the script prepares the
// limits once.
type run struct {
	calls []*pending
	// sameKeys is true for two or more calls that also have the same keys: the script reads and
	// writes their values once.
	sameKeys bool
}

// runsOf divides a batch into runs.
func runsOf(batch []*pending) []run {
	runs := make([]run, 0, 4)
	for len(batch) > 0 {
		r := nextRun(batch)
		runs = append(runs, r)
		batch = batch[len(r.calls):]
	}
	return runs
}

func nextRun(batch []*pending) run {
	n := 1
	for n < len(batch) && batch[0].equals(batch[n]) {
		n++
	}
	if n > 1 {
		return run{calls: batch[:n], sameKeys: true}
	}
	for n < len(batch) && batch[0].samePolicies(batch[n]) && (n+1 == len(batch) || !batch[n].equals(batch[n+1])) {
		n++
	}
	return run{calls: batch[:n]}
}

// samePolicies reports whether the two calls differ only in keys, costs and draws.
func (p *pending) samePolicies(other *pending) bool {
	return p.receipts == other.receipts && p.call.Denied == other.call.Denied &&
		slices.EqualFunc(p.call.Entries, other.call.Entries, func(a, b Entry) bool {
			return a.Policy == b.Policy && a.Peek == b.Peek && a.OnlyKnown == b.OnlyKnown && a.dryRun == b.dryRun
		})
}

// equals reports whether the two calls differ only in costs and draws.
func (p *pending) equals(other *pending) bool {
	return slices.EqualFunc(p.call.Entries, other.call.Entries, func(a, b Entry) bool { return a.Key == b.Key }) &&
		p.samePolicies(other)
}

// overlaps reports whether the two calls have a key in common.
func (p *pending) overlaps(other *pending) bool {
	for i := range p.call.Entries {
		for j := range other.call.Entries {
			if p.call.Entries[i].Key == other.call.Entries[j].Key {
				return true
			}
		}
	}
	return false
}

// gather moves calls of the batch that are equal next to each other, in the order of their
// arrival. A call only passes calls that have no key in common with it, so no decision changes.
func gather(batch []*pending) {
	for i := 0; i < len(batch); i++ {
		first, end := batch[i], i+1
		for j := end; j < len(batch); j++ {
			p := batch[j]
			if !first.overlaps(p) {
				continue
			}
			if !first.equals(p) {
				break
			}
			copy(batch[end+1:j+1], batch[end:j])
			batch[end] = p
			end++
		}
		i = end - 1
	}
}
