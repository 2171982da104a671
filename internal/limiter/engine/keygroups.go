// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// groupShards is the number of parts of the keys of a Namespace. A changed key copies one part.
const groupShards = 256

// groupSeed makes the hash of a key unpredictable.
var groupSeed = maphash.MakeSeed()

// keyGroups finds the groups of a key in one Namespace. It is immutable: a change makes another one, which shares the
// parts without changed keys. All policies of the Namespace use it. The nil keyGroups has no keys.
//
// It has the keys only in their records, and about 13 bytes for each beside: a key is found by its hash, then compared.
type keyGroups struct {
	slots  []groupSlot // the record in a slot may change, so that its unchanged keys keep their places
	shards [groupShards][]keyPlace
	// addressed are the indexes of the slots with addresses among their keys.
	addressed []int
}

// groupSlot is a record; none for an unused slot.
type groupSlot struct {
	record *plan.KeyGroup
	// indexes are a hash table without pointers: each has the index of a key, plus 1, at the place of its hash or, if
	// others take it, behind. 0 is an unused place.
	indexes   []uint16
	addresses addressList
}

// keyPlace is one key of one record: a hash of the key in the upper half, the slot of the record in the lower. A shard
// has its places in ascending order.
type keyPlace uint64

func (p keyPlace) slot() uint32 { return uint32(p) } //nolint:gosec // the lower half

// keyHash is the hash of a key: the upper half for its place in a shard, the lower for the shard and for its record.
type keyHash uint64

func hashOf(key string) keyHash { return keyHash(maphash.String(groupSeed, key)) }

func (h keyHash) shard() int { return int(h % groupShards) }

// place returns the place of the key in the slot.
func (h keyHash) place(slot int) keyPlace { return keyPlace(h&^(1<<32-1)) | keyPlace(slot) } //nolint:gosec // not negative

// index returns the index of the key in a table of that size, a power of two.
func (h keyHash) index(size int) int { return int(uint32(h)/groupShards) & (size - 1) } //nolint:gosec // the lower half

// groupPlaces has a place for each group that the overrides of a policy select, by name.
type groupPlaces map[string]int

// groupSet is the groups of one key that have a place.
type groupSet [plan.MaxOverrides * plan.MaxGroups / 64]uint64

func (s *groupSet) add(place int) { s[place/64] |= 1 << (place % 64) }

func (s *groupSet) has(place int) bool { return s[place/64]&(1<<(place%64)) != 0 }

// newKeyGroups returns the key groups of each Namespace of the snapshot. previous, which may be nil, belongs to an earlier
// one: the cost is proportional to the keys of changed records.
func newKeyGroups(snapshot *index.Snapshot, previous map[string]*keyGroups) map[string]*keyGroups {
	records := snapshot.Groups() // by ID, so by Namespace
	next := map[string]*keyGroups{}
	for len(records) > 0 {
		namespace, end := records[0].Namespace, 1
		for end < len(records) && records[end].Namespace == namespace {
			end++
		}
		next[namespace] = previous[namespace].with(records[:end])
		records = records[end:]
	}
	return next
}

// of returns which of the groups with a place the key is in. A record whose group is found already costs one look at its name.
func (k *keyGroups) of(key string, wanted groupPlaces) (found groupSet) {
	if k == nil {
		return found
	}
	hash := hashOf(key)
	places, first := k.shards[hash.shard()], hash.place(0)
	for at := indexOf(places, first); at < len(places) && places[at]-first < 1<<32; at++ {
		slot := &k.slots[places[at].slot()]
		if place, isWanted := wanted[slot.record.Group]; isWanted && !found.has(place) && slot.contains(key, hash) {
			found.add(place)
		}
	}
	return found
}

// ofNetwork is of for the derived key of a policy whose key is the client address: it also finds groups with a key inside
// its network. An address stands for the network that the policy counts as one client, as in FitKey of package plan.
func (k *keyGroups) ofNetwork(key string, wanted groupPlaces) groupSet {
	found := k.of(key, wanted)
	if k == nil || len(k.addressed) == 0 {
		return found
	}
	network, err := plan.ParseNetwork(key)
	if err != nil {
		return found
	}
	inside := addressKeyOf(network)
	for _, at := range k.addressed {
		slot := &k.slots[at]
		if place, isWanted := wanted[slot.record.Group]; isWanted && !found.has(place) && slot.addresses.hasInside(inside) {
			found.add(place)
		}
	}
	return found
}

// indexOf returns the index of the first place that is not before this one. Hashes are uniform, so it is near where a
// proportion expects it: a binary search would read memory that is far apart.
func indexOf(places []keyPlace, place keyPlace) int {
	at := int(uint64(place>>32) * uint64(len(places)) >> 32)
	for at > 0 && places[at-1] >= place {
		at--
	}
	for at < len(places) && places[at] < place {
		at++
	}
	return at
}

func (s *groupSlot) contains(key string, hash keyHash) bool {
	for at := hash.index(len(s.indexes)); s.indexes[at] != 0; at = (at + 1) % len(s.indexes) {
		if s.record.Keys.At(int(s.indexes[at]-1)) == key {
			return true
		}
	}
	return false
}

// newGroupSlot returns the slot of the record.
func newGroupSlot(r *plan.KeyGroup) groupSlot {
	s := groupSlot{record: r, indexes: make([]uint16, 2<<bits.Len(uint(r.Keys.Len())-1)), addresses: newAddressList(r.Keys)}
	for i := range r.Keys.Len() {
		at := hashOf(r.Keys.At(i)).index(len(s.indexes))
		for s.indexes[at] != 0 {
			at = (at + 1) % len(s.indexes)
		}
		s.indexes[at] = uint16(i + 1)
	}
	return s
}

// named returns the key that is encoded as its hash, if a record has it. It looks at every record.
func (k *keyGroups) named(hashed store.Key) (key string, found bool) {
	if k == nil || !strings.HasPrefix(string(hashed), "#") {
		return "", false
	}
	for i := range k.slots {
		if k.slots[i].record == nil {
			continue
		}
		for key := range k.slots[i].record.Keys.All() {
			if len(key) > store.MaxValueBytes && store.EncodeKey(key) == hashed {
				return key, true
			}
		}
	}
	return "", false
}

// with returns the key groups with these records in place of all.
func (k *keyGroups) with(records []*plan.KeyGroup) *keyGroups {
	k = cmp.Or(k, &keyGroups{})
	left := make(map[string]*plan.KeyGroup, len(records)) // by name
	for _, r := range records {
		left[r.Name] = r
	}
	u := groupUpdate{slots: slices.Clone(k.slots)}
	var unused []int
	for i := range u.slots {
		if was := u.slots[i].record; was != nil {
			u.replace(i, left[was.Name])
			delete(left, was.Name)
		}
		if u.slots[i].record == nil {
			unused = append(unused, i)
		}
	}
	for _, r := range records {
		if left[r.Name] == nil {
			continue
		}
		if len(unused) == 0 {
			unused = append(unused, len(u.slots))
			u.slots = append(u.slots, groupSlot{})
		}
		u.replace(unused[0], r)
		unused = unused[1:]
	}
	if !u.changed {
		return k
	}
	return u.apply(k)
}

// groupUpdate collects the changes of the records of a Namespace.
type groupUpdate struct {
	slots   []groupSlot
	changed bool
	removed [groupShards][]keyPlace
	added   [groupShards][]keyPlace
}

// replace puts the record into the slot; nil empties it.
func (u *groupUpdate) replace(slot int, is *plan.KeyGroup) {
	was := u.slots[slot].record
	if was == is {
		return
	}
	u.changed = true
	u.slots[slot] = groupSlot{}
	if is != nil {
		u.slots[slot] = newGroupSlot(is)
	}
	before, after := keysOf(was), keysOf(is)
	for _, key := range difference(before, after) {
		hash := hashOf(key)
		u.removed[hash.shard()] = append(u.removed[hash.shard()], hash.place(slot))
	}
	for _, key := range difference(after, before) {
		hash := hashOf(key)
		u.added[hash.shard()] = append(u.added[hash.shard()], hash.place(slot))
	}
}

func keysOf(r *plan.KeyGroup) []string {
	if r == nil {
		return nil
	}
	return slices.AppendSeq(make([]string, 0, r.Keys.Len()), r.Keys.All())
}

// difference returns the keys of a without the keys of b. Both are sorted.
func difference(a, b []string) (rest []string) {
	for _, key := range a {
		for len(b) > 0 && b[0] < key {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != key {
			rest = append(rest, key)
		}
	}
	return rest
}

// apply returns the key groups after the changes. It shares the shards without any.
func (u *groupUpdate) apply(k *keyGroups) *keyGroups {
	next := &keyGroups{slots: u.slots, shards: k.shards}
	for i := range next.shards {
		if removed, added := u.removed[i], u.added[i]; len(removed)+len(added) > 0 {
			next.shards[i] = replaced(k.shards[i], removed, added)
		}
	}
	for i := range next.slots {
		if len(next.slots[i].addresses) > 0 {
			next.addressed = append(next.addressed, i)
		}
	}
	return next
}

// replaced returns a copy of the places without the removed ones, which they must have, and with the added ones. An import
// changes all shards with each object, so it copies the runs between the changes and sorts only these.
func replaced(places, removed, added []keyPlace) []keyPlace {
	slices.Sort(removed)
	slices.Sort(added)
	next := make([]keyPlace, 0, len(places)-len(removed)+len(added))
	for len(removed)+len(added) > 0 {
		if len(removed) == 0 || len(added) > 0 && added[0] <= removed[0] {
			end, _ := slices.BinarySearch(places, added[0])
			next = append(append(next, places[:end]...), added[0])
			places, added = places[end:], added[1:]
		} else {
			end, _ := slices.BinarySearch(places, removed[0])
			next = append(next, places[:end]...)
			places, removed = places[end+1:], removed[1:]
		}
	}
	return append(next, places...)
}
