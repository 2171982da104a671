// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"cmp"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// entry is one desired record.
type entry struct {
	record     plan.Record // an Outline; nil if it was inherited and cannot be decoded
	uid        string
	generation int64
	// inherited means that the previous leader published the record and that it was not set
	// since.
	inherited bool
	usage     plan.Usage
	data      []byte // the encoded record
	// revision is a revision at which the registry holds data; 0 if none is known.
	revision int64
}

// newEntry returns the entry of a record with that encoding.
func newEntry(r plan.Record, data []byte) *entry {
	e := &entry{record: plan.Outline(r), usage: plan.UsageOf(r, len(data)), data: data}
	e.uid, e.generation = r.Source()
	return e
}

// withoutData returns an entry that has only what identifies the record, and its size.
func (e *entry) withoutData() *entry {
	return &entry{uid: e.uid, generation: e.generation, usage: e.usage}
}

// hasData reports whether the entry has the record.
func (e *entry) hasData() bool { return e.data != nil }

// keepEqual keeps the encoding and revision of an equal entry before.
func (e *entry) keepEqual(old *entry) {
	if old != nil && old.data != nil && bytes.Equal(old.data, e.data) {
		e.data, e.revision = old.data, old.revision
		e.record = cmp.Or(old.record, e.record) // keep the pointer of an equal record
	}
}

// isOlderThan reports whether both are of one object and e has the lower generation.
func (e *entry) isOlderThan(other *entry) bool {
	return e != nil && other != nil && e.uid == other.uid && e.generation < other.generation
}

// isPublished reports whether the registry is known to hold the record.
func (e *entry) isPublished() bool { return e != nil && e.revision > 0 }

// decoded returns the Outline of the record, or nil without an entry or if it cannot be decoded.
func (e *entry) decoded() plan.Record {
	if e == nil {
		return nil
	}
	return e.record
}
