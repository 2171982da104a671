// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// loaded is the version of the registry that a replica has loaded. It is immutable.
type loaded struct {
	version
	format format
	sum    uint64
	items  map[string]item
}

// item is one field of the registry.
type item struct {
	sum  uint64
	size int // bytes of the encoding
	// record is the last record that could be decoded, or nil.
	record plan.Record
	// problem is why the encoding cannot be decoded; empty if it can.
	problem string
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
)

// compare returns whether a replica that accepts these owners can follow the registry. A nil
// receiver has loaded nothing.
func (l *loaded) compare(now *header, accepts func(owner string) bool) followState {
	switch {
	case now.epoch == "":
		return noEpoch
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
// decoded; the last good version of that plan stays. Unchanged plans keep their pointer.
func (l *loaded) next(now *header, encoded map[string]string, all bool) (*loaded, []error) {
	next := &loaded{version: now.version, items: make(map[string]item, len(encoded))}
	before := map[string]item{}
	if l != nil {
		before = l.items
	}
	if !all {
		maps.Copy(next.items, before)
		next.sum = l.sum
	}
	var bad []error
	for id, text := range encoded {
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
			if it, err = decodeItem(id, data, it.record); err != nil {
				bad = append(bad, err)
			}
			it.sum, it.size = sum, len(data)
		}
		next.items[id] = it
		next.sum += sum
	}
	return next, bad
}

// decodeItem decodes one record.
func decodeItem(id string, data []byte, lastGood plan.Record) (item, error) {
	r, err := plan.Decode(data)
	if err == nil && r.ID() != id {
		err = fmt.Errorf("contains %s %s", plan.KindOf(r.ID()), r.ID())
	}
	if err != nil {
		return item{record: lastGood, problem: err.Error()}, fmt.Errorf("field %s: %w", id, err)
	}
	return item{record: r}, nil
}

// matchesDigest reports whether the plans are the ones that were written.
func (l *loaded) matchesDigest() bool { return formatDigest(l.sum) == l.digest }

// snapshot builds a snapshot of the loaded records.
func (l *loaded) snapshot() *plan.Snapshot {
	records := make([]plan.Record, 0, len(l.items))
	for _, it := range l.items {
		if it.record != nil {
			records = append(records, it.record)
		}
	}
	return plan.NewSnapshotOf(l.revision, records).WithSkipped(l.undecodable())
}

// undecodable returns the fields that cannot be decoded, sorted by ID.
func (l *loaded) undecodable() (fields []plan.Skipped) {
	for id, it := range l.items {
		if it.problem != "" {
			fields = append(fields, plan.Skipped{ID: id, Problem: it.problem, LastGood: it.record != nil})
		}
	}
	slices.SortFunc(fields, func(a, b plan.Skipped) int { return cmp.Compare(a.ID, b.ID) })
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

// skipped returns the set of the undecodable fields.
func (l *loaded) skipped() skips {
	var ids []string
	for _, field := range l.undecodable() {
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

// encodeHashes returns the hashes in 4 bytes each.
func encodeHashes(hashes []uint32) (encoded []byte) {
	for _, hash := range hashes {
		encoded = binary.BigEndian.AppendUint32(encoded, hash)
	}
	return encoded
}

func decodeHashes(encoded []byte) (hashes []uint32) {
	for ; len(encoded) >= 4; encoded = encoded[4:] {
		hashes = append(hashes, binary.BigEndian.Uint32(encoded))
	}
	return hashes
}

// size returns the bytes of the encoded plans.
func (l *loaded) size() (bytes int) {
	for _, it := range l.items {
		bytes += it.size
	}
	return bytes
}
