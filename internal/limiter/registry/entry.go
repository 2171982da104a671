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

// entry is one desired plan.
type entry struct {
	plan       *plan.Plan // nil until it is decoded, and if it cannot be
	uid        string
	generation int64
	// inherited means that the previous leader published the plan and that it was not set
	// since.
	inherited bool
	size      int              // bytes of the plan in the format in which it became known
	forms     [maxFormats]form // by position of the format
}

// form is a desired plan in one format.
type form struct {
	data []byte // nil until it is encoded, and if the format cannot express the plan
	// inexpressible means that the format cannot express the plan.
	inexpressible bool
	// revision is a revision at which the registry holds data; 0 if none is known.
	revision int64
}

// newEntry returns the entry of a plan, with its encoding in the newest format.
func newEntry(p *plan.Plan, data []byte) *entry {
	e := &entry{plan: p, uid: p.UID, generation: p.Generation, size: len(data)}
	e.forms[0].data = data
	return e
}

// keepEqual keeps the encodings and revisions of an equal entry before.
func (e *entry) keepEqual(old *entry) {
	if old != nil && old.forms[0].data != nil && bytes.Equal(old.forms[0].data, e.forms[0].data) {
		e.forms = old.forms
		e.plan = cmp.Or(old.plan, e.plan) // keep the pointer of an equal plan
	}
}

// isOlderThan reports whether both are of one policy and e has the lower generation.
func (e *entry) isOlderThan(other *entry) bool {
	return e != nil && other != nil && e.uid == other.uid && e.generation < other.generation
}

// encoded returns the plan in the format at that position, or nil if the format cannot
// express it.
func (e *entry) encoded(slot int, f format) []byte {
	own := &e.forms[slot]
	if own.data != nil || own.inexpressible {
		return own.data
	}
	if p := e.decoded(); p != nil {
		own.data, _ = plan.EncodeAs(p, int(f))
	}
	own.inexpressible = own.data == nil
	return own.data
}

// decoded returns the plan, or nil without an entry or if it was inherited and cannot be decoded.
func (e *entry) decoded() *plan.Plan {
	if e == nil {
		return nil
	}
	for slot := range e.forms {
		if e.plan == nil && e.forms[slot].data != nil {
			e.plan, _ = plan.Decode(e.forms[slot].data)
		}
	}
	return e.plan
}

// isPublished reports whether every format that holds the registry holds the plan or cannot express it,
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
