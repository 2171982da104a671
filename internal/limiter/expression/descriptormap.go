// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// maxScans is the number of reads by key after which an index is worth its price.
const maxScans = 4

var errUnscanned = fmt.Errorf("%w: there are more than %d descriptor entries, or more than %d bytes in their keys",
	ErrUnreadable, maxScanned, maxKeyBytes)

// entries has the entries of all descriptors in one evaluation. Of several entries with one key the
// first counts, as for a key of type Descriptor.
type entries struct {
	descriptors []plan.Descriptor
	scans       int
	index       map[string]string // nil until it is needed
	err         error             // of building the index
}

// newDescriptorMap returns the entries of all descriptors.
func newDescriptorMap(descriptors []plan.Descriptor) ref.Val {
	e := &entries{descriptors: descriptors}
	return textMap{celMap: newLazyMap(e.asMap), lookup: e.lookup}
}

// lookup returns the value of the key. The first reads search the entries.
func (e *entries) lookup(key string) (value string, present bool, err error) {
	if e.scans++; e.scans > maxScans || e.index != nil {
		if err := e.buildIndex(); err != nil {
			return "", false, err
		}
		value, present = e.index[key]
		return value, present, nil
	}
	err = e.scan(func(entry *plan.Entry) bool {
		if present = entry.Key == key; present {
			value = entry.Value
		}
		return !present
	})
	return value, present, err
}

// scan visits the entries in order until visit returns false. It fails after those that the
// price covers.
func (e *entries) scan(visit func(*plan.Entry) bool) error {
	visited, keyBytes := 0, 0
	for _, d := range e.descriptors {
		for i := range d {
			visited, keyBytes = visited+1, keyBytes+len(d[i].Key)
			if visited > maxScanned || keyBytes > maxKeyBytes {
				return errUnscanned
			}
			if !visit(&d[i]) {
				return nil
			}
		}
	}
	return nil
}

func (e *entries) buildIndex() error {
	if e.index == nil {
		e.index = map[string]string{}
		e.err = e.scan(func(entry *plan.Entry) bool {
			if _, seen := e.index[entry.Key]; !seen {
				e.index[entry.Key] = entry.Value
			}
			return true
		})
	}
	return e.err
}

// asMap returns the entries for uses other than reading a key.
func (e *entries) asMap() celMap {
	if err := e.buildIndex(); err != nil {
		return largeMap{size: types.WrapErr(err), err: err}
	}
	return mapOf(e.index)
}
