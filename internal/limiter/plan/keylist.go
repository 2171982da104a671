// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strings"
)

// KeyList is an immutable list of keys in one string. A key takes its bytes and 4 more, and the garbage collector has
// nothing to scan: a process holds hundreds of thousands of keys. In JSON it is an array of strings.
type KeyList struct {
	text string
	ends []uint32 // of each key in text
}

// NewKeyList returns the list of the keys, in the given order. They may have 4 GiB together.
func NewKeyList(keys ...string) KeyList {
	text := strings.Join(keys, "")
	if len(keys) == 0 || len(text) > math.MaxUint32 {
		return KeyList{}
	}
	l := KeyList{text: text, ends: make([]uint32, len(keys))}
	end := 0
	for i, key := range keys {
		end += len(key)
		l.ends[i] = uint32(end) //nolint:gosec // at most the length of the text
	}
	return l
}

// Len returns the number of keys.
func (l KeyList) Len() int { return len(l.ends) }

// At returns the key with the index.
func (l KeyList) At(i int) string {
	if i == 0 {
		return l.text[:l.ends[0]]
	}
	return l.text[l.ends[i-1]:l.ends[i]]
}

// All returns the keys in their order.
func (l KeyList) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range l.ends {
			if !yield(l.At(i)) {
				return
			}
		}
	}
}

// MarshalJSON implements json.Marshaler.
func (l KeyList) MarshalJSON() ([]byte, error) {
	return json.Marshal(slices.AppendSeq(make([]string, 0, l.Len()), l.All()))
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *KeyList) UnmarshalJSON(data []byte) error {
	var keys []string
	if err := json.Unmarshal(data, &keys); err != nil {
		return err
	}
	*l = NewKeyList(keys...)
	return nil
}
