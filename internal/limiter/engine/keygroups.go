// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"hash/maphash"
	"maps"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/quota"
)

// groupShards is the number of parts of the keys of a Namespace. A changed key copies one part.
const groupShards = 256

// groupSeed makes the part of a key unpredictable.
var groupSeed = maphash.MakeSeed()

// keyGroups finds the groups of a key in one Namespace. It is immutable: a change makes another one, which shares the
// parts without changed keys. All policies of the Namespace use it. The nil keyGroups has no keys.
type keyGroups struct {
	records map[string]*plan.KeyGroup // by ID
	shards  [groupShards]map[quota.Key]*groupSet
	single  map[string]*groupSet // the sets of one group, which most keys share
}

// groupSet is the groups of one key, sorted; a group once for each record that has the key.
type groupSet struct{ names []string }

// newKeyGroups returns the key groups of each Namespace of the snapshot. previous, which may be nil, belongs to an earlier
// one: the cost is proportional to the keys of changed records.
func newKeyGroups(snapshot *plan.Snapshot, previous map[string]*keyGroups) map[string]*keyGroups {
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

// of returns the groups of the encoded key, nil for none.
func (k *keyGroups) of(key quota.Key) *groupSet {
	if k == nil {
		return nil
	}
	return k.shards[shardOf(key)][key]
}

func shardOf(key quota.Key) uint64 { return maphash.String(groupSeed, string(key)) % groupShards }

// with returns the key groups with these records in place of all.
func (k *keyGroups) with(records []*plan.KeyGroup) *keyGroups {
	if k == nil {
		k = &keyGroups{}
	}
	u := groupUpdate{next: &keyGroups{
		records: make(map[string]*plan.KeyGroup, len(records)), shards: k.shards, single: map[string]*groupSet{},
	}}
	for _, r := range records {
		u.next.records[r.ID()] = r
		if set := k.single[r.Group]; set != nil {
			u.next.single[r.Group] = set
		}
	}
	changed := false
	for id, old := range k.records {
		if u.next.records[id] == nil {
			u.replace(old, nil)
			changed = true
		}
	}
	for _, r := range records {
		if old := k.records[r.ID()]; old != r {
			u.replace(old, r)
			changed = true
		}
	}
	if !changed {
		return k
	}
	return u.next
}

// groupUpdate makes keyGroups out of earlier ones, whose shards it copies before it changes them.
type groupUpdate struct {
	next   *keyGroups
	copied [groupShards]bool
}

// replace replaces a record by another form of it; either may be nil.
func (u *groupUpdate) replace(was, is *plan.KeyGroup) {
	if was == nil {
		was = &plan.KeyGroup{}
	}
	if is == nil {
		is = &plan.KeyGroup{}
	}
	removed, added := was.Keys, is.Keys
	if was.Group == is.Group {
		removed, added = difference(was.Keys, is.Keys), difference(is.Keys, was.Keys)
	}
	for _, key := range removed {
		u.remove(quota.EncodeKey(key), was.Group)
	}
	for _, key := range added {
		u.add(quota.EncodeKey(key), is.Group)
	}
}

// difference returns the elements of a that are not in b. Both are sorted.
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

func (u *groupUpdate) add(key quota.Key, group string) {
	shard := u.shard(key)
	if set := shard[key]; set != nil {
		at, _ := slices.BinarySearch(set.names, group)
		shard[key] = &groupSet{slices.Insert(slices.Clone(set.names), at, group)}
		return
	}
	shard[key] = u.singleOf(group)
}

func (u *groupUpdate) remove(key quota.Key, group string) {
	shard := u.shard(key)
	set := shard[key]
	at := slices.Index(set.names, group)
	switch rest := slices.Delete(slices.Clone(set.names), at, at+1); len(rest) {
	case 0:
		delete(shard, key)
	case 1:
		shard[key] = u.singleOf(rest[0])
	default:
		shard[key] = &groupSet{rest}
	}
}

func (u *groupUpdate) singleOf(group string) *groupSet {
	set := u.next.single[group]
	if set == nil {
		set = &groupSet{[]string{group}}
		u.next.single[group] = set
	}
	return set
}

// shard returns the shard of the key, copied once.
func (u *groupUpdate) shard(key quota.Key) map[quota.Key]*groupSet {
	i := shardOf(key)
	if !u.copied[i] {
		u.copied[i] = true
		if u.next.shards[i] = maps.Clone(u.next.shards[i]); u.next.shards[i] == nil {
			u.next.shards[i] = map[quota.Key]*groupSet{}
		}
	}
	return u.next.shards[i]
}

// first returns the first of the groups that the key is in, "" for none. A nil set has no groups.
func (s *groupSet) first(groups []string) string {
	if s != nil {
		for _, group := range groups {
			if slices.Contains(s.names, group) {
				return group
			}
		}
	}
	return ""
}
