// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/persistent"
)

// loaded is the version of the registry that a replica has loaded. It is immutable; the next one shares with it all that
// did not change.
type loaded struct {
	version
	sum     uint64
	size    int // bytes of all encodings
	items   persistent.Map[string, item]
	records *index.Snapshot // the last records that could be decoded
	// problems are why encodings cannot be decoded, by field.
	problems persistent.Map[string, string]
	skips    skips // the fields with problems
}

// item is the encoding of one field of the registry.
type item struct {
	sum  uint64
	size int // in bytes
}

// followState is whether a replica follows the registry and, if not, why. Its text is logged
// as the reason.
type followState string

const (
	following       followState = "following" // the registry shows the loaded version or one that can be loaded
	noEpoch         followState = "the registry has no epoch"
	incomplete      followState = "the registry has lost plans"
	earlierEpoch    followState = "the registry shows an earlier epoch"
	earlierRevision followState = "the registry shows an earlier revision of the epoch"
	otherPlans      followState = "the registry has other plans than its digest, or than this replica at the same revision"
	ownedElsewhere  followState = "the registry belongs to another installation"
	laterLayout     followState = "the registry has a layout that only a later release reads"
)

// compare returns whether a replica that accepts these owners can follow the registry. A nil
// receiver has loaded nothing.
func (l *loaded) compare(now *header, accepts func(owner string) bool) followState {
	switch {
	case now.epoch == "":
		return noEpoch
	case now.layout > layout:
		return laterLayout
	case !accepts(now.epoch.owner()):
		return ownedElsewhere
	case !now.complete:
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

// next returns what the replica has loaded after reading plans, encoded by ID: all of them if
// all is true, else the changed ones. It returns an error for each plan that cannot be
// decoded; the last good version of that plan stays, see plan.StaysFor. Unchanged plans keep their pointer. It costs the same for any number
// of unread plans.
func (l *loaded) next(now *header, encoded map[string]string, all bool) (*loaded, []error) {
	l = cmp.Or(l, &loaded{})
	next := *l
	next.version = now.version
	records := map[string]plan.Record{}
	if all {
		for id := range l.items.All() {
			if encoded[id] == "" {
				next.remove(id, records)
			}
		}
	}
	var bad []error
	for id, text := range encoded {
		if text == "" {
			next.remove(id, records)
		} else if err := next.set(id, []byte(text), records); err != nil {
			bad = append(bad, err)
		}
	}
	next.records = l.records.With(next.revision, records)
	if next.problems != l.problems {
		skipped := next.undecodable()
		next.records, next.skips = next.records.WithSkipped(skipped), newSkips(skipped)
	}
	return &next, bad
}

// remove removes a field, if there is one, and adds that to the changed records.
func (l *loaded) remove(id string, records map[string]plan.Record) {
	if !l.items.Has(id) {
		return
	}
	l.count(l.items.Get(id), item{})
	l.items, l.problems = l.items.Without(id), l.problems.Without(id)
	records[id] = nil
}

// set decodes a field and adds it to the changed records, unless its encoding is the one that is loaded.
func (l *loaded) set(id string, data []byte, records map[string]plan.Record) error {
	is, was := item{sum: digestOf(id, data), size: len(data)}, l.items.Get(id)
	if was == is {
		return nil
	}
	l.count(was, is)
	l.items = l.items.With(id, is)
	r, err := decodeField(id, data)
	if err != nil {
		l.problems = l.problems.With(id, err.Error())
		if last := l.lastGood(id); last != nil && !plan.StaysFor(last, data) {
			records[id] = nil
		}
		return fmt.Errorf("field %s: %w", id, err)
	}
	l.problems = l.problems.Without(id)
	records[id] = r
	return nil
}

// count counts another encoding of a field.
func (l *loaded) count(was, is item) {
	l.sum += is.sum - was.sum
	l.size += is.size - was.size
}

// decodeField decodes one record.
func decodeField(id string, data []byte) (plan.Record, error) {
	r, err := plan.Decode(data)
	if err == nil && r.ID() != id {
		err = fmt.Errorf("contains %s %s", plan.KindOf(r.ID()), r.ID())
	}
	return r, err
}

// matchesDigest reports whether the plans are the ones that were written.
func (l *loaded) matchesDigest() bool { return formatDigest(l.sum) == l.digest }

// lastGood returns the last record of the field that could be decoded, or nil.
func (l *loaded) lastGood(id string) plan.Record {
	if l.records == nil {
		return nil
	}
	return l.records.Record(id)
}

// undecodable returns the fields that cannot be decoded, sorted by ID.
func (l *loaded) undecodable() (fields []index.Skipped) {
	for id, problem := range l.problems.All() {
		fields = append(fields, index.Skipped{ID: id, Problem: problem, LastGood: l.lastGood(id) != nil})
	}
	slices.SortFunc(fields, func(a, b index.Skipped) int { return cmp.Compare(a.ID, b.ID) })
	return fields
}

// namedSkips is the number of skipped plans that a heartbeat names. If there are more, it lists
// all as hashes of 4 bytes instead: they are smaller, and every replica reads every heartbeat. With
// 5,000 skipped plans, another one has the hash of one of them with a probability of 1 in 800,000.
const namedSkips = 32

// skips is the set of plans that a replica cannot decode.
type skips struct {
	count  int
	names  []string // the first ones
	hashes []uint32 // of all, sorted; nil if all are named
}

// newSkips returns the set of the fields.
func newSkips(fields []index.Skipped) skips {
	var ids []string
	for _, field := range fields {
		ids = append(ids, field.ID)
	}
	found := skips{count: len(ids), names: ids[:min(len(ids), namedSkips)]}
	if len(ids) == len(found.names) {
		return found
	}
	for _, id := range ids {
		found.hashes = append(found.hashes, skipHash(id))
	}
	slices.Sort(found.hashes)
	return found
}

// contains reports whether the plan is in the set. It is true for every plan if a replica of an
// earlier release names only some.
func (s *skips) contains(id string) bool {
	switch s.count {
	case len(s.names):
		return slices.Contains(s.names, id)
	case len(s.hashes):
		_, found := slices.BinarySearch(s.hashes, skipHash(id))
		return found
	default:
		return true
	}
}

func (s *skips) equal(other *skips) bool {
	return s.count == other.count && slices.Equal(s.names, other.names) && slices.Equal(s.hashes, other.hashes)
}

func skipHash(id string) uint32 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint32(sum[:])
}
