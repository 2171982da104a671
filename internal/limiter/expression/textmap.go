// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// textMap is a CEL map of strings in which an absent key reads as the empty string. `in` and
// has() still report whether a key is present.
//
// Any number of entries can be counted and read by key. A map with more than maxEntries cannot be
// iterated.
type textMap struct {
	celMap
	lookup   func(key string) (value string, present bool)
	repeated []string // keys that must not be read
}

// celMap is the interface of a CEL map, without the Find of traits.Mapper: with it has()
// would report an absent key as present.
type celMap interface {
	ref.Val
	traits.Container
	traits.Indexer
	traits.Iterable
	traits.Sizer
}

// newDescriptorMap returns the entries of all descriptors. Of several entries with one key it has
// the first, as for a key of type Descriptor.
func newDescriptorMap(descriptors []plan.Descriptor) ref.Val {
	entries := map[string]string{}
	for _, d := range descriptors {
		for _, e := range d {
			if _, seen := entries[e.Key]; !seen {
				entries[e.Key] = e.Value
			}
			if len(entries) > maxEntries {
				return textMap{
					celMap: largeMap{size: func() int { return keysOf(descriptors) }},
					lookup: func(key string) (string, bool) { return find(descriptors, key) },
				}
			}
		}
	}
	return textMap{
		celMap: types.NewStringStringMap(types.DefaultTypeAdapter, entries),
		lookup: func(key string) (string, bool) { value, present := entries[key]; return value, present },
	}
}

func keysOf(descriptors []plan.Descriptor) int {
	keys := map[string]struct{}{}
	for _, d := range descriptors {
		for _, e := range d {
			keys[e.Key] = struct{}{}
		}
	}
	return len(keys)
}

func find(descriptors []plan.Descriptor, key string) (value string, present bool) {
	for _, d := range descriptors {
		for _, e := range d {
			if e.Key == key {
				return e.Value, true
			}
		}
	}
	return "", false
}

// Get implements traits.Indexer.
func (m textMap) Get(key ref.Val) ref.Val {
	text, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	if slices.ContainsFunc(m.repeated, func(name string) bool { return strings.EqualFold(name, string(text)) }) {
		return unreadable("header %q is repeated", string(text))
	}
	value, _ := m.lookup(string(text))
	return boundedString(value)
}

// Contains implements traits.Container.
func (m textMap) Contains(key ref.Val) ref.Val {
	text, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	_, present := m.lookup(string(text))
	return types.Bool(present)
}

// IsSet implements traits.FieldTester.
func (m textMap) IsSet(key ref.Val) ref.Val { return m.Contains(key) }

// largeMap is a map that cannot be iterated.
type largeMap struct{ size func() int }

var errLargeMap = fmt.Errorf("%w: there are more than %d headers or descriptor entries", ErrUnreadable, maxEntries)

// ConvertToNative implements ref.Val.
func (largeMap) ConvertToNative(reflect.Type) (any, error) { return nil, errLargeMap }

// ConvertToType implements ref.Val.
func (largeMap) ConvertToType(ref.Type) ref.Val { return types.WrapErr(errLargeMap) }

// Equal implements ref.Val.
func (largeMap) Equal(ref.Val) ref.Val { return types.WrapErr(errLargeMap) }

// Type implements ref.Val.
func (largeMap) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (m largeMap) Value() any { return m }

// Contains implements traits.Container.
func (largeMap) Contains(ref.Val) ref.Val { return types.WrapErr(errLargeMap) }

// Get implements traits.Indexer.
func (largeMap) Get(ref.Val) ref.Val { return types.WrapErr(errLargeMap) }

// Size implements traits.Sizer.
func (m largeMap) Size() ref.Val { return types.Int(m.size()) }

// Iterator implements traits.Iterable: it yields one key, the error.
func (largeMap) Iterator() traits.Iterator { return &failingIterator{} }

// failingIterator yields one error.
type failingIterator struct {
	largeMap

	done bool
}

// HasNext implements traits.Iterator.
func (i *failingIterator) HasNext() ref.Val { return types.Bool(!i.done) }

// Next implements traits.Iterator.
func (i *failingIterator) Next() ref.Val {
	i.done = true
	return types.WrapErr(errLargeMap)
}
