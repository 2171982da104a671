// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// held is what a replica holds of the registry. It is immutable.
type loaded struct {
	version
	sum   uint64
	items map[string]item
}

// item is one field of the registry.
type item struct {
	sum uint64
	// plan is nil if the payload is bad and no earlier one was good.
	plan *plan.Plan
	bad  bool
}

// standing is how the registry stands to what a replica holds. It is also what is
// logged.
type health string

const (
	following       health = "following" // the same, or what can be loaded
	noEpoch         health = "the registry has no epoch"
	incomplete      health = "the registry has not as many plans as were written"
	earlierEpoch    health = "the registry shows an earlier epoch"
	earlierRevision health = "the registry shows an earlier revision of the epoch"
	otherPlans      health = "the registry shows other plans than were written"
	ownedElsewhere  health = "the registry belongs to another installation"
)

// judge compares the registry with what is held by a replica of that
// installation; nil holds nothing.
func (l *loaded) compare(now *header, owner string) health {
	switch {
	case now.epoch == "":
		return noEpoch
	case now.epoch.owner() != owner:
		return ownedElsewhere
	case !now.whole:
		return incomplete
	case l == nil:
		return following
	case now.epoch != l.epoch:
		if now.epoch.stamp() > l.epoch.stamp() {
			return following
		}
		return earlierEpoch
	case now.revision < l.revision:
		return earlierRevision
	case now.revision == l.revision && now.digest != l.digest:
		return otherPlans
	default:
		return following
	}
}

// next returns what is held after loading the fields, all of them or those that
// have changed, and why each bad one is. Fields that did not change keep their
// plan, and a bad one keeps the last that was good.
func (l *loaded) next(now *header, fields map[string]string, all bool) (*loaded, []error) {
	next := &loaded{version: now.version, items: make(map[string]item, len(fields))}
	before := map[string]item{}
	if l != nil {
		before = l.items
	}
	if !all {
		maps.Copy(next.items, before)
		next.sum = l.sum
	}
	var bad []error
	for id, text := range fields {
		if old, ok := next.items[id]; ok {
			next.sum -= old.sum
			delete(next.items, id)
		}
		if text == "" {
			continue
		}
		data := []byte(text)
		sum := digestOf(id, data)
		it := before[id]
		if it.sum != sum {
			var err error
			if it, err = read(id, data, it.plan); err != nil {
				bad = append(bad, err)
			}
			it.sum = sum
		}
		next.items[id] = it
		next.sum += sum
	}
	return next, bad
}

// read decodes one field.
func read(id string, data []byte, lastGood *plan.Plan) (item, error) {
	p, err := plan.Decode(data)
	if err == nil && p.ID() != id {
		err = fmt.Errorf("it is plan %s", p.ID())
	}
	if err != nil {
		return item{plan: lastGood, bad: true}, fmt.Errorf("field %s: %w", id, err)
	}
	return item{plan: p}, nil
}

// right reports whether the plans are those that were written.
func (l *loaded) matchesDigest() bool { return formatDigest(l.sum) == l.digest }

// snapshot builds the snapshot of the plans held.
func (l *loaded) snapshot() *plan.Snapshot {
	plans := make([]*plan.Plan, 0, len(l.items))
	for _, it := range l.items {
		if it.plan != nil {
			plans = append(plans, it.plan)
		}
	}
	return plan.NewSnapshot(l.revision, plans)
}

// namedSkips bounds how many skipped plans a replica names in its heartbeat.
const namedSkips = 32

// skipped returns how many fields are bad, and some of their ids.
func (l *loaded) skipped() (int, []string) {
	var ids []string
	for id, it := range l.items {
		if it.bad {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return len(ids), ids[:min(len(ids), namedSkips)]
}
