// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package persistent

import "slices"

const (
	bitsPerLevel = 3
	// maxEntries is the number of entries of the largest leaf. A leaf below the last bits of the hash may have more.
	maxEntries = 16
	hashBits   = 64
)

// node is the root of a tree: a leaf, or children by the next bits of the hash. The nil node is empty.
type node[K comparable, V any] struct {
	entries  []entry[K, V]
	children *[1 << bitsPerLevel]*node[K, V] // nil in a leaf
	size     int                             // entries of the tree
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func (n *node[K, V]) len() int {
	if n == nil {
		return 0
	}
	return n.size
}

func (n *node[K, V]) get(key K, hash uint64) (value V, found bool) {
	for n != nil && n.children != nil {
		n = n.children[hash%uint64(len(n.children))]
		hash >>= bitsPerLevel
	}
	if n != nil {
		for i := range n.entries {
			if n.entries[i].key == key {
				return n.entries[i].value, true
			}
		}
	}
	return value, false
}

// with returns the tree with the entry. hash has the bits that the levels above, of which there are depth, have not used.
func (n *node[K, V]) with(e entry[K, V], hash uint64, depth int) *node[K, V] {
	if n == nil {
		return leaf([]entry[K, V]{e})
	}
	if n.children != nil {
		i := hash % uint64(len(n.children))
		return n.withChild(i, n.children[i].with(e, hash>>bitsPerLevel, depth+1))
	}
	entries := make([]entry[K, V], len(n.entries), len(n.entries)+1)
	copy(entries, n.entries)
	if at := n.indexOf(e.key); at >= 0 {
		entries[at] = e
	} else {
		entries = append(entries, e)
	}
	return tree(entries, depth)
}

// tree returns the tree of the entries, which have distinct keys, below the levels of which there are depth.
func tree[K comparable, V any](entries []entry[K, V], depth int) *node[K, V] {
	switch {
	case len(entries) == 0:
		return nil
	case len(entries) <= maxEntries || depth*bitsPerLevel >= hashBits:
		return leaf(slices.Clone(entries)) // without unused capacity
	}
	var parts [1 << bitsPerLevel][]entry[K, V]
	for _, e := range entries {
		i := hashBelow(e.key, depth) % uint64(len(parts))
		parts[i] = append(parts[i], e)
	}
	n := &node[K, V]{children: new([1 << bitsPerLevel]*node[K, V]), size: len(entries)}
	for i, part := range parts {
		n.children[i] = tree(part, depth+1)
	}
	return n
}

// without returns the tree without the key, or n itself if it does not have the key.
func (n *node[K, V]) without(key K, hash uint64) *node[K, V] {
	if n == nil {
		return nil
	}
	if n.children != nil {
		i := hash % uint64(len(n.children))
		child := n.children[i].without(key, hash>>bitsPerLevel)
		if child == n.children[i] {
			return n
		}
		return n.withChild(i, child).joined()
	}
	at := n.indexOf(key)
	switch {
	case at < 0:
		return n
	case len(n.entries) == 1:
		return nil
	default:
		return leaf(slices.Concat(n.entries[:at], n.entries[at+1:]))
	}
}

func leaf[K comparable, V any](entries []entry[K, V]) *node[K, V] {
	return &node[K, V]{entries: entries, size: len(entries)}
}

// indexOf returns the index of the key in a leaf, or -1.
func (n *node[K, V]) indexOf(key K) int {
	return slices.IndexFunc(n.entries, func(e entry[K, V]) bool { return e.key == key })
}

// withChild returns the tree with another child.
func (n *node[K, V]) withChild(i uint64, child *node[K, V]) *node[K, V] {
	children := *n.children
	children[i] = child
	return &node[K, V]{children: &children, size: n.size - n.children[i].len() + child.len()}
}

// joined returns a leaf in place of a tree with few entries.
func (n *node[K, V]) joined() *node[K, V] {
	if n.size > maxEntries/2 {
		return n
	}
	entries := make([]entry[K, V], 0, n.size)
	n.visit(func(key K, value V) bool {
		entries = append(entries, entry[K, V]{key, value})
		return true
	})
	return leaf(entries)
}

// visit calls yield with the entries until it returns false, and reports whether it has returned true for all.
func (n *node[K, V]) visit(yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	if n.children != nil {
		for _, child := range n.children {
			if !child.visit(yield) {
				return false
			}
		}
	}
	for i := range n.entries {
		if !yield(n.entries[i].key, n.entries[i].value) {
			return false
		}
	}
	return true
}
