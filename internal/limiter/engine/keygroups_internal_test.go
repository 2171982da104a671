// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
)

func record(namespace, name, group string, keys ...string) *plan.KeyGroup {
	return &plan.KeyGroup{
		Namespace: namespace, Name: name, Group: group, Keys: plan.NewKeyList(slices.Compact(slices.Sorted(slices.Values(keys)))...),
	}
}

func snapshotOf(records map[string]*plan.KeyGroup) *index.Snapshot {
	all := make([]plan.Record, 0, len(records))
	for _, r := range records {
		all = append(all, r)
	}
	return index.NewSnapshotOf(1, all)
}

// groupsByScan returns the groups of the key, sorted.
func groupsByScan(records map[string]*plan.KeyGroup, namespace, key string) (groups []string) {
	for _, r := range records {
		if r.Namespace == namespace && slices.Contains(slices.Collect(r.Keys.All()), key) {
			groups = append(groups, r.Group)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// groupsOf returns which of the groups the key is in, in the order in which they are given.
func groupsOf(k *keyGroups, key string, groups ...string) (found []string) {
	o := override{groups: groups}
	places := placeGroups([]override{o})
	set := k.of(key, places)
	for _, group := range groups {
		if set.has(places[group]) {
			found = append(found, group)
		}
	}
	return found
}

// A key in very many groups costs a decision no more than one look at each record that has it, and no garbage.
func TestGroupsOfOneKeyAreNotMultiplied(t *testing.T) {
	g := NewWithT(t)
	records := map[string]*plan.KeyGroup{}
	places := groupPlaces{}
	for i := range 5_000 {
		name := fmt.Sprint("r", i)
		records[name] = record("shop", name, fmt.Sprint("g", i), "192.0.2.9", fmt.Sprintf("10.0.%d.%d", i/256, i%256))
		if i < plan.MaxOverrides*plan.MaxGroups {
			places[fmt.Sprint("g", i)] = i
		}
	}
	groups := newKeyGroups(snapshotOf(records), nil)["shop"]
	var found groupSet
	g.Expect(testing.AllocsPerRun(10, func() { found = groups.ofNetwork("192.0.2.0/24", places) })).To(BeZero())
	for i := range len(places) {
		g.Expect(found.has(i)).To(BeTrue())
	}
	g.Expect(testing.AllocsPerRun(10, func() { found = groups.of("192.0.2.9", places) })).To(BeZero())
	g.Expect(found.has(len(places) - 1)).To(BeTrue())
}

// After random changes of records, each key has the groups of the records that have it.
func TestKeyGroupsFollowRandomChanges(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	pool := []string{"", "-", "a", "b", "c d", "ü", "10.0.0.1", "a|b", "#", string(make([]byte, 300))}
	for i := range 40 {
		pool = append(pool, fmt.Sprint("key-", i))
	}
	records := map[string]*plan.KeyGroup{}
	var groups map[string]*keyGroups
	for range 3_000 {
		namespace, name := []string{"shop", "bank"}[random.IntN(2)], fmt.Sprint("r", random.IntN(4))
		id := plan.IDOf(plan.KindKeyGroup, namespace, name)
		if random.IntN(5) == 0 {
			delete(records, id)
		} else {
			keys := make([]string, 1+random.IntN(12))
			for i := range keys {
				keys[i] = pool[1+random.IntN(len(pool)-1)]
			}
			records[id] = record(namespace, name, []string{"gold", "silver"}[random.IntN(2)], keys...)
		}
		groups = newKeyGroups(snapshotOf(records), groups)
		for _, namespace := range []string{"shop", "bank", "none"} {
			for _, key := range pool {
				want, got := groupsByScan(records, namespace, key), groupsOf(groups[namespace], key, "gold", "silver")
				if !slices.Equal(got, want) {
					t.Fatalf("%s %q: got %v, want %v", namespace, key, got, want)
				}
			}
		}
	}
}

// An earlier prepared snapshot stays as it was, and a change of one key copies one part.
func TestKeyGroupsShareUnchangedParts(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("key-", i)
	}
	records := map[string]*plan.KeyGroup{"a": record("shop", "a", "gold", keys...), "b": record("bank", "b", "gold", keys...)}
	before := newKeyGroups(snapshotOf(records), nil)
	g.Expect(newKeyGroups(snapshotOf(records), before)["shop"]).To(BeIdenticalTo(before["shop"]), "nothing changed")

	changed := maps.Clone(records)
	changed["a"] = record("shop", "a", "gold", append(keys[1:], "new")...)
	after := newKeyGroups(snapshotOf(changed), before)
	g.Expect(after["bank"]).To(BeIdenticalTo(before["bank"]))
	g.Expect(groupsOf(before["shop"], "key-0", "gold")).To(Equal([]string{"gold"}))
	g.Expect(groupsOf(before["shop"], "new", "gold")).To(BeEmpty())
	g.Expect(groupsOf(after["shop"], "key-0", "gold")).To(BeEmpty())
	g.Expect(groupsOf(after["shop"], "new", "silver", "gold")).To(Equal([]string{"gold"}))
	g.Expect(groupsOf(after["shop"], "new", "silver")).To(BeEmpty(), "no override selects gold")
	copied := 0
	for i := range after["shop"].shards {
		if reflect.ValueOf(after["shop"].shards[i]).Pointer() != reflect.ValueOf(before["shop"].shards[i]).Pointer() {
			copied++
		}
	}
	g.Expect(copied).To(BeNumerically("<=", 2))
}

// An operator who names a long key by its hash finds its groups.
func TestKeyGroupsNameHashedKeys(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	long, other := strings.Repeat("ü", 200), strings.Repeat("ä", 200)
	groups := newKeyGroups(snapshotOf(map[string]*plan.KeyGroup{"a": record("shop", "a", "gold", "acme", long)}), nil)["shop"]
	named, found := groups.named(store.EncodeKey(long))
	g.Expect(found).To(BeTrue())
	g.Expect(named).To(Equal(long))
	for _, key := range []string{other, "acme", "#acme"} {
		_, found := groups.named(store.EncodeKey(key))
		g.Expect(found).To(BeFalse())
	}
	_, found = (*keyGroups)(nil).named(store.EncodeKey(long))
	g.Expect(found).To(BeFalse())
}
