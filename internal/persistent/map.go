// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package persistent

import (
	"hash/maphash"
	"iter"
)

// Map is an immutable map. The zero Map is empty.
//
// It is a hash trie: a tree in which three bits of the hash of a key choose a child at each level, down to a leaf with few
// entries (P. Bagwell, "Ideal Hash Trees", 2001). A change copies the nodes on the way to one leaf.
type Map[K comparable, V any] struct{ root *node[K, V] }

// Of returns the map with the entries of a Go map.
func Of[K comparable, V any](entries map[K]V) Map[K, V] {
	all := make([]entry[K, V], 0, len(entries))
	for key, value := range entries {
		all = append(all, entry[K, V]{key, value})
	}
	return Map[K, V]{tree(all, 0)}
}

// seed makes the place of a key unpredictable.
var seed = maphash.MakeSeed()

// Len returns the number of entries.
func (m Map[K, V]) Len() int { return m.root.len() }

// Get returns the value of the key, or the zero value.
func (m Map[K, V]) Get(key K) (value V) {
	value, _ = m.get(key)
	return value
}

// Has reports whether the map has the key.
func (m Map[K, V]) Has(key K) bool {
	_, found := m.get(key)
	return found
}

func (m Map[K, V]) get(key K) (value V, found bool) {
	switch {
	case m.root == nil:
		return value, false
	case m.root.children == nil:
		return m.root.get(key, 0) // a leaf needs no hash
	default:
		return m.root.get(key, maphash.Comparable(seed, key))
	}
}

// With returns the map with the value for the key.
func (m Map[K, V]) With(key K, value V) Map[K, V] {
	return Map[K, V]{m.root.with(entry[K, V]{key, value}, maphash.Comparable(seed, key), 0)}
}

// Without returns the map without the key.
func (m Map[K, V]) Without(key K) Map[K, V] {
	if m.root == nil {
		return m
	}
	return Map[K, V]{m.root.without(key, maphash.Comparable(seed, key))}
}

// All returns the entries in no order.
func (m Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { m.root.visit(yield) }
}
