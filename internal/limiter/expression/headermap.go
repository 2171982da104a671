// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"slices"

	"github.com/google/cel-go/common/types/ref"
)

func (r *request) headerMap() ref.Val {
	m := textMap{celMap: newLazyMap(func() celMap { return mapOf(r.Headers) }), lookup: r.header}
	if r.forKey {
		m.forbidden = r.isRepeated
	}
	return m
}

func (r *request) header(name string) (value string, present bool, err error) {
	if value, present = r.Headers[name]; !present {
		value, present = r.Headers[lowerASCII(name)]
	}
	return value, present, nil
}

// isRepeated returns an error if the header must not be read.
func (r *request) isRepeated(name string) error {
	if len(r.RepeatedHeaders) > maxEntries {
		return errManyEntries
	}
	if len(r.RepeatedHeaders) > 0 && slices.Contains(r.RepeatedHeaders, lowerASCII(name)) {
		return &unreadableError{format: "header %q is repeated", arguments: []any{name}}
	}
	return nil
}
