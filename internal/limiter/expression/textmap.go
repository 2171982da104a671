// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// textMap is a CEL map of strings, except that an absent key reads as the empty
// string, and that keys are compared in one form. What tells which are there, `in`
// and has(), still does.
type textMap struct {
	celMap
	values map[string]string
	form   func(string) string
}

// celMap is what CEL asks of a map. It leaves out traits.Mapper's Find, by which
// has() would take a key that reads as empty for one that is there.
type celMap interface {
	ref.Val
	traits.Container
	traits.Indexer
	traits.Iterable
	traits.Sizer
}

func newTextMap(values map[string]string, form func(string) string) ref.Val {
	if len(values) > maxEntries {
		return types.NewErr("there are %d headers or descriptor entries, more than %d", len(values), maxEntries)
	}
	return textMap{types.NewStringStringMap(types.DefaultTypeAdapter, values), values, form}
}

// exactly is the form of keys that are compared as they are.
func exactly(key string) string { return key }

// entriesOf reads the descriptors as one: of entries with the same key the first
// counts, as it does in a key.
func entriesOf(descriptors []plan.Descriptor) map[string]string {
	entries := map[string]string{}
	for _, d := range descriptors {
		for _, e := range d {
			if _, twice := entries[e.Key]; !twice {
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
	return bounded(m.values[m.form(string(text))])
}

// Contains implements traits.Container.
func (m textMap) Contains(key ref.Val) ref.Val {
	text, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	_, present := m.values[m.form(string(text))]
	return types.Bool(present)
}

// IsSet implements traits.FieldTester.
func (m textMap) IsSet(key ref.Val) ref.Val { return m.Contains(key) }
