// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"cmp"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// maxFormats is the largest number of formats that a release supports.
const maxFormats = 2

// entry is one desired record.
type entry struct {
	record     plan.Record // an Outline; nil until it is decoded, and if it cannot be
	uid        string
	generation int64
	// inherited means that the previous leader published the record and that it was not set
	// since.
	inherited bool
	usage     plan.Usage       // of the record in the format in which it became known
	forms     [maxFormats]form // by position of the format
}

// form is a desired record in one format.
type form struct {
	data []byte // nil until it is encoded, and if the format cannot express the record
	// inexpressible means that the format cannot express the record.
	inexpressible bool
	// revision is a revision at which the registry holds data; 0 if none is known.
	revision int64
}

// newEntry returns the entry of a record, with its encoding in the newest format.
func newEntry(r plan.Record, data []byte) *entry {
	e := &entry{record: plan.Outline(r), usage: plan.UsageOf(r, len(data))}
	e.uid, e.generation = r.Source()
	e.forms[0].data = data
	return e
}

// withoutData returns an entry that has only what identifies the record, and its size.
func (e *entry) withoutData() *entry {
	return &entry{uid: e.uid, generation: e.generation, usage: e.usage}
}

// hasData reports whether the entry has the record.
func (e *entry) hasData() bool { return e.forms[0].data != nil }

// keepEqual keeps the encodings and revisions of an equal entry before.
func (e *entry) keepEqual(old *entry) {
	if old != nil && old.forms[0].data != nil && bytes.Equal(old.forms[0].data, e.forms[0].data) {
		e.forms = old.forms
		e.record = cmp.Or(old.record, e.record) // keep the pointer of an equal record
	}
}

// isOlderThan reports whether both are of one object and e has the lower generation.
func (e *entry) isOlderThan(other *entry) bool {
	return e != nil && other != nil && e.uid == other.uid && e.generation < other.generation
}

// encoded returns the record in the format at that position, or nil if the format cannot
// express it.
func (e *entry) encoded(slot int, f format) []byte {
	own := &e.forms[slot]
	if own.data != nil || own.inexpressible {
		return own.data
	}
	r := e.decoded()
	if r != nil && plan.KindOf(r.ID()) == plan.KindKeyGroup {
		r = e.decode()
	}
	if r != nil {
		own.data, _ = plan.EncodeAs(r, int(f))
	}
	own.inexpressible = own.data == nil
	return own.data
}

// keepsLast reports whether data, an earlier form of the record, stays in a format that cannot express the record: a plan
// of the same object and mode. An edit that lets a policy deny less must not leave the last plan behind.
func (e *entry) keepsLast(data []byte) bool {
	last, err := plan.DecodePlan(data)
	desired, isPlan := e.decoded().(*plan.Plan)
	return err == nil && isPlan && last.UID == desired.UID && last.Mode == desired.Mode
}

// isOf reports whether the form has the generation of the record r.
func (f *form) isOf(r plan.Record) bool {
	stored, err := plan.Decode(f.data)
	if err != nil {
		return false
	}
	uid, generation := stored.Source()
	wantUID, want := r.Source()
	return uid == wantUID && generation == want
}

// decoded returns the Outline of the record, or nil without an entry or if it was inherited and cannot be decoded.
func (e *entry) decoded() plan.Record {
	if e == nil {
		return nil
	}
	if e.record == nil {
		e.record = plan.Outline(e.decode())
	}
	return e.record
}

// decode returns the record of the first form that can be decoded, or nil.
func (e *entry) decode() plan.Record {
	for slot := range e.forms {
		if e.forms[slot].data == nil {
			continue
		}
		if r, err := plan.Decode(e.forms[slot].data); err == nil {
			return r
		}
	}
	return nil
}

// isPublished reports whether every format that holds the registry holds the record or cannot express it,
// and at least one holds it.
func (e *entry) isPublished(holding []bool) bool {
	if e == nil {
		return false
	}
	published := false
	for slot, holds := range holding {
		form := &e.forms[slot]
		if holds && form.revision == 0 && !form.inexpressible {
			return false
		}
		published = published || holds && form.revision > 0
	}
	return published
}
