// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls

import (
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// request is a RateLimitRequest, and the check that it asks for. Requests are pooled: a
// decoded request costs one string, of which its strings are parts.
//
// The numbers of fields come from
// https://github.com/envoyproxy/envoy/blob/main/api/envoy/service/ratelimit/v3/rls.proto and
// https://github.com/envoyproxy/envoy/blob/main/api/envoy/extensions/common/ratelimit/v3/ratelimit.proto.
type request struct {
	domain      string
	hits        uint32
	count       int          // the number of descriptors
	descriptors []descriptor // the descriptors, at most limiter.MaxDescriptors
	entries     []plan.Entry // the entries of all descriptors, in order

	action        limiter.HitsAction // of the descriptors about a reservation
	reservationID string
	targets       []plan.Target

	responseCode    int
	hasResponseCode bool

	check   limiter.Check
	lists   []plan.Descriptor        // memory of check.Attributes.Descriptors
	allHits []limiter.Hits           // memory of check.Hits
	limits  []limiter.RequestedLimit // memory of the limits in allHits

	decision *limiter.DecisionMemory // memory of the decision
}

// descriptor is a RateLimitDescriptor without its entries.
type descriptor struct {
	end      int // the index in request.entries after its last entry
	hits     uint64
	hasHits  bool
	negative bool
	hasLimit bool
	units    uint32
	unit     int32
	action   limiter.HitsAction // set by takeEntry
}

// maxPooledEntries is the largest number of entries whose memory is kept for later requests.
const maxPooledEntries = 1024

var requests = sync.Pool{New: func() any {
	return &request{
		descriptors: make([]descriptor, 0, 4), entries: make([]plan.Entry, 0, 16),
		lists: make([]plan.Descriptor, 0, 4), allHits: make([]limiter.Hits, 0, 4), decision: new(limiter.DecisionMemory),
	}
}}

// release returns the request to the pool. It must not be used afterwards.
func (r *request) release() {
	if cap(r.entries) > maxPooledEntries {
		return
	}
	r.reset()
	requests.Put(r)
}

// reset forgets all content, and keeps memory.
func (r *request) reset() {
	clear(r.entries)
	clear(r.lists)
	clear(r.allHits)
	clear(r.targets)
	*r = request{
		descriptors: r.descriptors[:0], entries: r.entries[:0],
		lists: r.lists[:0], allHits: r.allHits[:0], limits: r.limits[:0], targets: r.targets[:0],
		decision: r.decision,
	}
}

// UnmarshalWire decodes the request. Like the generated code it skips unknown fields, merges
// repeated messages of a singular field, and returns an error for malformed bytes. It does
// not keep wire.
func (r *request) UnmarshalWire(wire []byte) error {
	if r.count > 0 || r.domain != "" || r.hits > 0 { // one from the pool is empty
		r.reset()
	}
	in := reader{wire: wire, text: string(wire)}
	for f := (field{}); in.next(&f); {
		switch {
		case f.is(1, protowire.BytesType):
			r.domain = in.string(&f)
		case f.is(2, protowire.BytesType):
			if err := r.addDescriptor(in.message(&f)); err != nil {
				return err
			}
		case f.is(3, protowire.VarintType):
			r.hits = uint32(f.varint) //nolint:gosec // decoders of protobuf truncate
		}
	}
	return in.err
}

// addDescriptor decodes a descriptor. Those above the bound are decoded to find malformed
// bytes, but not kept.
func (r *request) addDescriptor(in reader) error {
	var d descriptor
	r.count++
	keep := r.count <= limiter.MaxDescriptors
	for f := (field{}); in.next(&f); {
		var err error
		switch {
		case f.is(1, protowire.BytesType):
			err = r.addEntry(in.message(&f), keep)
		case f.is(2, protowire.BytesType):
			err = d.readLimit(in.message(&f))
		case f.is(3, protowire.BytesType):
			d.hasHits = true
			err = readNumber(in.message(&f), &d.hits)
		case f.is(4, protowire.VarintType):
			d.negative = f.varint != 0
		}
		if err != nil {
			return err
		}
	}
	if keep {
		d.end = len(r.entries)
		r.descriptors = append(r.descriptors, d)
	}
	return in.err
}

func (r *request) addEntry(in reader, keep bool) error {
	var e plan.Entry
	for f := (field{}); in.next(&f); {
		switch {
		case f.is(1, protowire.BytesType):
			e.Key = in.string(&f)
		case f.is(2, protowire.BytesType):
			e.Value = plan.TrimValue(in.string(&f)) // often the value of a header
		}
	}
	if keep {
		r.entries = append(r.entries, e)
	}
	return in.err
}

// readLimit decodes a RateLimitOverride.
func (d *descriptor) readLimit(in reader) error {
	d.hasLimit = true
	for f := (field{}); in.next(&f); {
		switch {
		case f.is(1, protowire.VarintType):
			d.units = uint32(f.varint) //nolint:gosec // decoders of protobuf truncate
		case f.is(2, protowire.VarintType):
			d.unit = int32(f.varint) //nolint:gosec // decoders of protobuf truncate
		case f.is(3, protowire.BytesType): // unit_multiplier, which is not supported
			var multiplier uint64
			if err := readNumber(in.message(&f), &multiplier); err != nil {
				return err
			}
		}
	}
	return in.err
}

// readNumber decodes a wrapper of an integer, such as google.protobuf.UInt64Value. A wrapper
// without a value leaves the number.
func readNumber(in reader, number *uint64) error {
	for f := (field{}); in.next(&f); {
		if f.is(1, protowire.VarintType) {
			*number = f.varint
		}
	}
	return in.err
}
