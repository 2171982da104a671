// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// textMap is a CEL map of strings in which an absent key reads as the empty string, and
// keys are normalized. `in` and has() still report whether a key is present.
type textMap struct {
	celMap
	values       map[string]string
	normalizeKey func(string) string
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

func newTextMap(values map[string]string, normalizeKey func(string) string) ref.Val {
	if len(values) > maxEntries {
		return types.NewErr("there are %d headers or descriptor entries, more than %d", len(values), maxEntries)
	}
	return textMap{
		celMap:       types.NewStringStringMap(types.DefaultTypeAdapter, values),
		values:       values,
		normalizeKey: normalizeKey,
	}
}

// unchanged returns the key without normalization.
func unchanged(key string) string { return key }

// entriesOf returns the entries of all descriptors. Of several entries with one key it
// returns the first, as for a key of type Descriptor.
func entriesOf(descriptors []plan.Descriptor) map[string]string {
	entries := map[string]string{}
	for _, d := range descriptors {
		for _, e := range d {
			if _, seen := entries[e.Key]; !seen {
				entries[e.Key] = e.Value
			}
		}
	}
	return entries
}

// Get implements traits.Indexer.
func (m textMap) Get(key ref.Val) ref.Val {
	text, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	return boundedString(m.values[m.normalizeKey(string(text))])
}

// Contains implements traits.Container.
func (m textMap) Contains(key ref.Val) ref.Val {
	text, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	_, present := m.values[m.normalizeKey(string(text))]
	return types.Bool(present)
}

// IsSet implements traits.FieldTester.
func (m textMap) IsSet(key ref.Val) ref.Val { return m.Contains(key) }
