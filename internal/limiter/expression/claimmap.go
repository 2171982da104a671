// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// claimMap is the map of the claims by payload. An absent payload reads as one without claims.
type claimMap struct {
	celMap

	payloads map[string]map[string]string
	read     map[string]ref.Val // the claims of payloads that were read
}

func newClaimMap(payloads map[string]map[string]string) ref.Val {
	m := &claimMap{payloads: payloads, read: map[string]ref.Val{}}
	m.celMap = newLazyMap(m.asMap)
	return m
}

// asMap returns the claims for uses other than reading the claims of one payload.
func (m *claimMap) asMap() celMap {
	if len(m.payloads) > maxPayloads {
		return largeMap{size: types.Int(len(m.payloads)), err: errManyPayloads}
	}
	all := make(map[string]ref.Val, len(m.payloads))
	for name, claims := range m.payloads {
		if len(name) > maxName {
			return largeMap{size: types.Int(len(m.payloads)), err: errLongName}
		}
		all[name] = mapOf(claims)
	}
	return types.NewDynamicMap(types.DefaultTypeAdapter, all).(celMap) //nolint:forcetypeassert // a map
}

// Get implements traits.Indexer.
func (m *claimMap) Get(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	payload := string(name)
	if m.read[payload] == nil {
		claims := m.payloads[payload]
		m.read[payload] = textMap{
			celMap: newLazyMap(func() celMap { return mapOf(claims) }),
			lookup: func(claim string) (value string, present bool, err error) {
				value, present = claims[claim]
				return value, present, nil
			},
		}
	}
	return m.read[payload]
}

// Contains implements traits.Container.
func (m *claimMap) Contains(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	_, present := m.payloads[string(name)]
	return types.Bool(present)
}

// IsSet implements traits.FieldTester.
func (m *claimMap) IsSet(key ref.Val) ref.Val { return m.Contains(key) }
