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
type held struct {
	mark
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
type standing string

const (
	following standing = "following" // the same, or what can be loaded
	noEpoch   standing = "the registry has no epoch"
	notWhole  standing = "the registry has not as many plans as were written"
	gone      standing = "the registry shows an earlier epoch"
	older     standing = "the registry shows an earlier revision of the epoch"
	foreign   standing = "the registry shows other plans than were written"
	elsewhere standing = "the registry belongs to another installation"
)

// judge compares the registry with what is held by a replica of that
// installation; nil holds nothing.
func (h *held) judge(now *header, owner string) standing {
	switch {
	case now.epoch == "":
		return noEpoch
	case now.epoch.owner() != owner:
		return elsewhere
	case !now.whole:
		return notWhole
	case h == nil:
		return following
	case now.epoch != h.epoch:
		if now.epoch.stamp() > h.epoch.stamp() {
			return following
		}
		return gone
	case now.revision < h.revision:
		return older
	case now.revision == h.revision && now.digest != h.digest:
		return foreign
	default:
		return following
	}
}

// next returns what is held after loading the fields, all of them or those that
// have changed, and why each bad one is. Fields that did not change keep their
// plan, and a bad one keeps the last that was good.
func (h *held) next(now *header, fields map[string]string, all bool) (*held, []error) {
	next := &held{mark: now.mark, items: make(map[string]item, len(fields))}
	before := map[string]item{}
	if h != nil {
		before = h.items
	}
	if !all {
		maps.Copy(next.items, before)
		next.sum = h.sum
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
func (h *held) right() bool { return formatDigest(h.sum) == h.digest }

// snapshot builds the snapshot of the plans held.
func (h *held) snapshot() *plan.Snapshot {
	plans := make([]*plan.Plan, 0, len(h.items))
	for _, it := range h.items {
		if it.plan != nil {
			plans = append(plans, it.plan)
		}
	}
	return plan.NewSnapshot(h.revision, plans)
}

// namedSkips bounds how many skipped plans a replica names in its heartbeat.
const namedSkips = 32

// skipped returns how many fields are bad, and some of their ids.
func (h *held) skipped() (int, []string) {
	var ids []string
	for id, it := range h.items {
		if it.bad {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return len(ids), ids[:min(len(ids), namedSkips)]
}
