// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// MatchIndex finds policies, not Disabled, by their matches. The zero value is empty.
//
// It is not an index of the cache: that would return the policies instead of their number and
// first names, which takes 15 ms if 10,000 have the same match, and would hash all matches
// again for each change of a status.
type MatchIndex struct {
	mu    sync.RWMutex
	names map[matchKey][]string // "namespace/name", sorted
}

// matchKey is a hash of a match, equal for matches that differ only in the order of lists.
type matchKey [16]byte

func keyOf(m *plan.Match) matchKey {
	sameOrder := *m
	sameOrder.Targets, sameOrder.Hosts = sorted(m.Targets, cmp.Compare), sorted(m.Hosts, cmp.Compare)
	sameOrder.Methods, sameOrder.Paths = sorted(m.Methods, cmp.Compare), sorted(m.Paths, cmp.Compare)
	sameOrder.Descriptors = sorted(m.Descriptors, compareEntryMatches)
	sameOrder.Headers, sameOrder.QueryParameters = sorted(m.Headers, compareEntries), sorted(m.QueryParameters, compareEntries)
	text, _ := json.Marshal(&sameOrder) //nolint:errchkjson // texts and booleans
	sum := sha256.Sum256(text)
	return matchKey(sum[:len(matchKey{})])
}

func compareEntries(a, b plan.Entry) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Value, b.Value))
}

func compareEntryMatches(a, b plan.EntryMatch) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Value, b.Value), slices.Compare(a.Except, b.Except),
		slices.Compare(a.ExceptPrefixes, b.ExceptPrefixes))
}

// sorted returns the list if it is sorted, else a sorted copy.
func sorted[T any](list []T, compare func(a, b T) int) []T {
	if slices.IsSortedFunc(list, compare) {
		return list
	}
	return slices.SortedFunc(slices.Values(list), compare)
}

// Replace replaces a policy by its changed form; either may be nil.
func (x *MatchIndex) Replace(was, is *v1alpha1.RateLimitPolicy) {
	if was != nil && is != nil && was.UID == is.UID && was.Generation == is.Generation {
		return // only the status or the metadata changed
	}
	before, after := keysOf(was), keysOf(is)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, key := range before {
		x.remove(key, nameOf(was))
	}
	if len(after) == 0 {
		return
	}
	name := nameOf(is) // once for all matches, which keep it
	for _, key := range after {
		x.add(key, name)
	}
}

func keysOf(policy *v1alpha1.RateLimitPolicy) []matchKey {
	if policy == nil || policy.Spec.Mode == v1alpha1.ModeDisabled {
		return nil
	}
	matches := compile.MatchesOf(policy)
	keys := make([]matchKey, len(matches))
	for i := range keys {
		keys[i] = keyOf(&matches[i])
	}
	return keys
}

func nameOf(policy *v1alpha1.RateLimitPolicy) string { return policy.Namespace + "/" + policy.Name }

func (x *MatchIndex) add(key matchKey, name string) {
	if x.names == nil {
		x.names = map[matchKey][]string{}
	}
	if i, found := slices.BinarySearch(x.names[key], name); !found {
		x.names[key] = slices.Insert(x.names[key], i, name)
	}
}

func (x *MatchIndex) remove(key matchKey, name string) {
	if i, found := slices.BinarySearch(x.names[key], name); found {
		x.names[key] = slices.Delete(x.names[key], i, i+1)
	}
	if len(x.names[key]) == 0 {
		delete(x.names, key)
	}
}

// others returns the number of other policies with such a match, and the first names of them
// in alphabetical order, at most limit. Names in other Namespaces are returned only if
// everywhere.
func (x *MatchIndex) others(key matchKey, policy *v1alpha1.RateLimitPolicy, everywhere bool, limit int) (first []string, count int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	all, self := x.names[key], nameOf(policy)
	count = len(all)
	if _, found := slices.BinarySearch(all, self); found {
		count--
	}
	prefix, start := "", 0
	if !everywhere {
		prefix = policy.Namespace + "/"
		start, _ = slices.BinarySearch(all, prefix)
	}
	for _, name := range all[start:] {
		if len(first) == limit || !strings.HasPrefix(name, prefix) {
			break
		}
		if name != self {
			first = append(first, name)
		}
	}
	return first, count
}
