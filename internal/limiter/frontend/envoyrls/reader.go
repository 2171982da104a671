// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package envoyrls

import (
	"errors"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// errMalformed reports bytes that do not encode a message. Its text is as in the protobuf
// library.
var errMalformed = errors.New("proto: cannot parse invalid wire-format data")

// field is one field of a message in the protobuf encoding
// (https://protobuf.dev/programming-guides/encoding).
type field struct {
	number protowire.Number
	kind   protowire.Type
	varint uint64 // the value of a protowire.VarintType
	// wire is the value of a protowire.BytesType, and start is its position in the request.
	wire  []byte
	start int
}

// is reports whether the field has the number and the type. A known number with another type
// is an unknown field.
func (f *field) is(number protowire.Number, kind protowire.Type) bool {
	return f.number == number && f.kind == kind
}

// reader reads the fields of one message.
type reader struct {
	wire []byte // the part of the message that is not read yet
	at   int    // the position of wire in the request
	text string // the whole request; its strings are substrings of it
	err  error  // errMalformed, or nil
}

// next reads the next field. It returns false at the end of the message and at the first
// error.
func (r *reader) next(f *field) bool {
	if len(r.wire) == 0 || r.err != nil {
		return false
	}
	tag, n := protowire.ConsumeVarint(r.wire)
	number := tag >> 3
	if n < 0 || number < uint64(protowire.MinValidNumber) || number > uint64(protowire.MaxValidNumber) {
		return r.fail()
	}
	r.skip(n)
	f.number, f.kind = protowire.Number(number), protowire.Type(tag&7)
	switch f.kind {
	case protowire.VarintType:
		f.varint, n = protowire.ConsumeVarint(r.wire)
	case protowire.BytesType:
		f.wire, n = protowire.ConsumeBytes(r.wire)
		f.start = r.at + n - len(f.wire)
	default:
		n = protowire.ConsumeFieldValue(f.number, f.kind, r.wire)
	}
	if n < 0 {
		return r.fail()
	}
	r.skip(n)
	return true
}

func (r *reader) fail() bool {
	r.err = errMalformed
	return false
}

func (r *reader) skip(n int) { r.wire, r.at = r.wire[n:], r.at+n }

// message returns a reader for the message in the field.
func (r *reader) message(f *field) reader { return reader{wire: f.wire, at: f.start, text: r.text} }

// string returns the string in the field. Bytes that are not UTF-8 are replaced, as the codec
// of package grpcserver does for other messages: an error would let the request pass.
func (r *reader) string(f *field) string {
	s := r.text[f.start : f.start+len(f.wire)]
	if utf8.ValidString(s) {
		return s
	}
	return replaceInvalidUTF8(s)
}

// replaceInvalidUTF8 replaces each invalid byte by a question mark.
func replaceInvalidUTF8(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			b.WriteByte('?')
		} else {
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}
