// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// textMap is a CEL map of strings in which an absent key reads as the empty string. `in` and
// has() still report whether a key is present.
//
// More entries than maxEntries can be counted and read by key, but not iterated.
type textMap struct {
	celMap
	lookup func(key string) (value string, present bool, err error)
	// forbidden returns an error for a key whose value must not be read; nil forbids none.
	forbidden func(key string) error
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

// Get implements traits.Indexer.
func (m textMap) Get(key ref.Val) ref.Val {
	text, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	if m.forbidden != nil {
		if err := m.forbidden(string(text)); err != nil {
			return types.WrapErr(err)
		}
	}
	value, _, err := m.lookup(string(text))
	if err != nil {
		return types.WrapErr(err)
	}
	return boundedString(value)
}

// Contains implements traits.Container.
func (m textMap) Contains(key ref.Val) ref.Val {
	text, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	_, present, err := m.lookup(string(text))
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Bool(present)
}

// IsSet implements traits.FieldTester.
func (m textMap) IsSet(key ref.Val) ref.Val { return m.Contains(key) }

// mapOf returns the map of the entries, which is a largeMap if it must not be iterated.
func mapOf(values map[string]string) celMap {
	size := types.Int(len(values))
	if len(values) > maxEntries {
		return largeMap{size: size, err: errManyEntries}
	}
	for key := range values {
		if len(key) > maxName {
			return largeMap{size: size, err: errLongName}
		}
	}
	return types.NewStringStringMap(types.DefaultTypeAdapter, values)
}

var (
	errManyEntries  = fmt.Errorf("%w: there are more than %d headers, descriptor entries or claims", ErrUnreadable, maxEntries)
	errManyPayloads = fmt.Errorf("%w: there are claims of more than %d payloads", ErrUnreadable, maxPayloads)
	errLongName     = fmt.Errorf("%w: a name is longer than %d bytes", ErrUnreadable, maxName)
)

// lazyMap is a map that is built on first use.
type lazyMap struct{ build func() celMap }

func newLazyMap(build func() celMap) lazyMap {
	var built celMap
	return lazyMap{build: func() celMap {
		if built == nil {
			built = build()
		}
		return built
	}}
}

// ConvertToNative implements ref.Val.
func (m lazyMap) ConvertToNative(t reflect.Type) (any, error) { return m.build().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (m lazyMap) ConvertToType(t ref.Type) ref.Val { return m.build().ConvertToType(t) }

// Equal implements ref.Val.
func (m lazyMap) Equal(other ref.Val) ref.Val { return m.build().Equal(other) }

// Type implements ref.Val.
func (lazyMap) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (m lazyMap) Value() any { return m.build().Value() }

// Contains implements traits.Container.
func (m lazyMap) Contains(key ref.Val) ref.Val { return m.build().Contains(key) }

// Get implements traits.Indexer.
func (m lazyMap) Get(key ref.Val) ref.Val { return m.build().Get(key) }

// Size implements traits.Sizer.
func (m lazyMap) Size() ref.Val { return m.build().Size() }

// Iterator implements traits.Iterable.
func (m lazyMap) Iterator() traits.Iterator { return m.build().Iterator() }

// largeMap is a map that cannot be iterated.
type largeMap struct {
	size ref.Val
	err  error // of an iteration
}

// ConvertToNative implements ref.Val.
func (m largeMap) ConvertToNative(reflect.Type) (any, error) { return nil, m.err }

// ConvertToType implements ref.Val.
func (m largeMap) ConvertToType(ref.Type) ref.Val { return types.WrapErr(m.err) }

// Equal implements ref.Val.
func (m largeMap) Equal(ref.Val) ref.Val { return types.WrapErr(m.err) }

// Type implements ref.Val.
func (largeMap) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (m largeMap) Value() any { return m }

// Contains implements traits.Container.
func (m largeMap) Contains(ref.Val) ref.Val { return types.WrapErr(m.err) }

// Get implements traits.Indexer.
func (m largeMap) Get(ref.Val) ref.Val { return types.WrapErr(m.err) }

// Size implements traits.Sizer.
func (m largeMap) Size() ref.Val { return m.size }

// Iterator implements traits.Iterable: it yields one key, the error.
func (m largeMap) Iterator() traits.Iterator { return &failingIterator{largeMap: m} }

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
	return types.WrapErr(i.err)
}
