// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// EntryMatch is an entry that a match wants in a descriptor.
type EntryMatch struct {
	Key string `json:"key"`
	// Value is the value of the entry; with Prefix, its beginning. An empty one matches any value.
	Value  string `json:"value,omitempty"`
	Prefix bool   `json:"prefix,omitempty"`
	// Except are values that do not match, and ExceptPrefixes beginnings of such values. Both are in ascending order, and
	// no prefix begins with another one, so that one comparison for each halving finds the only text that may exclude a value.
	Except         []string `json:"except,omitempty"`
	ExceptPrefixes []string `json:"exceptPrefixes,omitempty"`
}

// holds reports whether the entry is the one that the match wants.
func (w *EntryMatch) holds(e *Entry) bool {
	if e.Key != w.Key || !strings.HasPrefix(e.Value, w.Value) {
		return false
	}
	return (w.Prefix || w.Value == "" || len(e.Value) == len(w.Value)) && !w.excludes(e.Value)
}

// excludes reports whether the value is among the exceptions.
func (w *EntryMatch) excludes(value string) bool {
	if _, found := slices.BinarySearch(w.Except, value); found {
		return true
	}
	i, found := slices.BinarySearch(w.ExceptPrefixes, value)
	return found || i > 0 && strings.HasPrefix(value, w.ExceptPrefixes[i-1])
}

// sampleEnds are more than MaxExcept ends of a value: one of them is not excluded.
const sampleEnds = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._~"

// sample returns an entry that the match wants, unless the exceptions exclude its whole prefix.
func (w *EntryMatch) sample() Entry {
	e := Entry{Key: w.Key, Value: w.Value}
	for i := 0; i < len(sampleEnds) && w.excludes(e.Value); i++ {
		e.Value = w.Value + sampleEnds[i:i+1]
	}
	return e
}

// Indexed returns the entry by which the index finds the match: it has only the beginning of a prefix, see IndexedLength.
func (w *EntryMatch) Indexed() Entry {
	e := Entry{Key: w.Key, Value: w.Value}
	if w.Prefix {
		e.Value = e.Value[:IndexedLength(len(e.Value))]
	}
	return e
}

// IndexedLength returns the largest length up to n that is a power of two, or one and a half times one. So prefixes of up to
// MaxText bytes have 15 different lengths, and the index looks up no more beginnings of a value.
func IndexedLength(n int) int {
	if n < 2 {
		return n
	}
	power := 1 << (bits.Len(uint(n)) - 1)
	if half := power + power/2; n >= half {
		return half
	}
	return power
}

// text returns the entry as "key", "key=value" or "key=prefix*", with its exceptions.
func (w *EntryMatch) text() string {
	text := w.Key
	if w.Value != "" {
		text += "=" + w.Value
	}
	if w.Prefix {
		text += "*"
	}
	if w.exceptions() == 0 {
		return text
	}
	exceptions := slices.Clone(w.Except)
	for _, prefix := range w.ExceptPrefixes {
		exceptions = append(exceptions, prefix+"*")
	}
	return text + " except " + strings.Join(exceptions, " or ")
}

// exceptions returns the number of exceptions.
func (w *EntryMatch) exceptions() int { return len(w.Except) + len(w.ExceptPrefixes) }

func (w *EntryMatch) validate(fail func(string, ...any), at string) {
	if w.Key == "" || longerThan(w.Key, MaxText) || longerThan(w.Value, MaxText) {
		fail("%s must have a key of 1 to %d characters and a value of at most as many", at, MaxText)
	}
	if w.Prefix && w.Value == "" {
		fail("%s is a prefix without a value", at)
	}
	if n := w.exceptions(); n > MaxExcept || n > 0 && !w.Prefix && w.Value != "" {
		fail("%s has %d exceptions: at most %d, and none beside an exact value", at, n, MaxExcept)
	}
	w.validateExceptions(fail, at)
}

// validateExceptions rejects exceptions of a wrong length, and an order in which excludes would not find them.
func (w *EntryMatch) validateExceptions(fail func(string, ...any), at string) {
	for i, text := range slices.Concat(w.Except, w.ExceptPrefixes) {
		if text == "" || longerThan(text, MaxText) {
			fail("%s: exception %d must have 1 to %d characters", at, i, MaxText)
		}
	}
	for i := 1; i < len(w.Except); i++ {
		if w.Except[i] <= w.Except[i-1] {
			fail("%s.except[%d] is not in ascending order", at, i)
		}
	}
	for i := 1; i < len(w.ExceptPrefixes); i++ {
		if before := w.ExceptPrefixes[i-1]; w.ExceptPrefixes[i] <= before || strings.HasPrefix(w.ExceptPrefixes[i], before) {
			fail("%s.exceptPrefixes[%d] is not in ascending order, or begins with the one before", at, i)
		}
	}
}

// HoldsDescriptor reports whether the descriptor has all entries that the match wants, and no other one if it forbids them.
func (m *Match) HoldsDescriptor(d Descriptor) bool {
	if m.ForbidsOtherEntries && !m.hasOnlyWanted(d) {
		return false
	}
	for i := range m.Descriptors {
		if !slices.ContainsFunc(d, func(e Entry) bool { return m.Descriptors[i].holds(&e) }) {
			return false
		}
	}
	return true
}

// hasOnlyWanted reports whether the descriptor has as many entries as the match wants, each of them a wanted one.
func (m *Match) hasOnlyWanted(d Descriptor) bool {
	return len(d) == len(m.Descriptors) && !slices.ContainsFunc(d, func(e Entry) bool {
		return !slices.ContainsFunc(m.Descriptors, func(w EntryMatch) bool { return w.holds(&e) })
	})
}

// SampleDescriptor returns a descriptor that the match holds for, nil if it wants none.
func (m *Match) SampleDescriptor() (d Descriptor) {
	for i := range m.Descriptors {
		d = append(d, m.Descriptors[i].sample())
	}
	return d
}

// DescriptorTexts returns what the match wants in a descriptor, one text for each entry.
func (m *Match) DescriptorTexts() (texts []string) {
	for i := range m.Descriptors {
		texts = append(texts, m.Descriptors[i].text())
	}
	if m.ForbidsOtherEntries {
		texts = append(texts, "no other entries")
	}
	return texts
}

// Exceptions returns the number of values and prefixes that the entries of the match exclude.
func (m *Match) Exceptions() (n int) {
	for i := range m.Descriptors {
		n += m.Descriptors[i].exceptions()
	}
	return n
}

func (m *Match) validateDescriptors(fail func(string, ...any), at string) {
	if m.ForbidsOtherEntries && len(m.Descriptors) == 0 {
		fail("%s forbids other entries and wants none", at)
	}
	for i := range m.Descriptors {
		m.Descriptors[i].validate(fail, fmt.Sprintf("%s.descriptors[%d]", at, i))
	}
}
