// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"github.com/weir-dev/weir/internal/limiter/store"
)

// summarySize is the number of keys in a summary.
const summarySize = 64

// counted is a key with an upper bound of its number of denials, at most err above the true number.
type counted struct {
	key   store.Key
	hash  uint64
	count int64
	err   int64
	// length is the length of the key, of which only the beginning may be kept.
	length int
}

// keyText is a key, of which only the beginning may be given.
type keyText struct {
	text   []byte
	length int
	hash   uint64
}

// is reports whether the key is the same. Of keys of which one is cut, the beginning and the hash are
// compared.
func (c *counted) is(k *keyText) bool {
	n := min(len(c.key), len(k.text))
	return c.length == k.length && string(c.key[:n]) == string(k.text[:n])
}

// cut reports whether only the beginning of the key is kept.
func (c *counted) cut() bool { return len(c.key) < c.length }

// summary holds the most frequent keys of a stream: Space-Saving (Metwally, Agrawal and El Abbadi,
// 2005). A new key replaces the one with the lowest count and takes over that count, as its error. So
// a count is never too low, and too high by at most the lowest count. Every key that makes up more
// than 1/summarySize of the stream is contained.
type summary struct {
	keys  []counted
	total int64
	// replaced is true after the first replacement: keys that are not contained may have occurred.
	replaced bool
}

// find returns the key in the summary, or nil.
func (s *summary) find(k *keyText) *counted {
	for i := range s.keys {
		if c := &s.keys[i]; c.hash == k.hash && c.is(k) {
			return c
		}
	}
	return nil
}

// place returns the place of a new key: an empty one, or the one with the lowest count, which it keeps
// as the error of the new key.
func (s *summary) place() *counted {
	if len(s.keys) < summarySize {
		s.keys = append(s.keys, counted{})
		return &s.keys[len(s.keys)-1]
	}
	least := s.least()
	least.err, s.replaced = least.count, true
	return least
}

// least returns the key with the lowest count.
func (s *summary) least() *counted {
	least := &s.keys[0]
	for i := range s.keys {
		if s.keys[i].count < least.count {
			least = &s.keys[i]
		}
	}
	return least
}

// unlisted returns the most that a key that is not contained may have occurred.
func (s *summary) unlisted() int64 {
	if !s.replaced {
		return 0
	}
	return s.least().count
}
