// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package persistent

import (
	"hash/maphash"
	"iter"
)

// Change is an entry that differs between two maps.
type Change[V comparable] struct{ Before, After V }

// Changes returns the entries that differ, by key; a missing entry has the zero value. It skips what the maps share, so
// if one was derived from the other it costs as much as the changes between them.
func Changes[K, V comparable](before, after Map[K, V]) iter.Seq2[K, Change[V]] {
	return func(yield func(K, Change[V]) bool) { compare(before.root, after.root, 0, yield) }
}

// compare calls yield for the entries that differ in two trees below the same bits of the hash.
func compare[K, V comparable](before, after *node[K, V], depth int, yield func(K, Change[V]) bool) bool {
	if before == after {
		return true
	}
	if before != nil && after != nil && before.children != nil && after.children != nil {
		for i := range before.children {
			if !compare(before.children[i], after.children[i], depth+1, yield) {
				return false
			}
		}
		return true
	}
	return after.visit(func(key K, is V) bool {
		was, found := before.get(key, hashBelow(key, depth))
		return found && was == is || yield(key, Change[V]{Before: was, After: is})
	}) && before.visit(func(key K, was V) bool {
		_, found := after.get(key, hashBelow(key, depth))
		return found || yield(key, Change[V]{Before: was})
	})
}

// hashBelow returns the bits of the hash that the levels above have not used.
func hashBelow[K comparable](key K, depth int) uint64 {
	return maphash.Comparable(seed, key) >> (depth * bitsPerLevel)
}
