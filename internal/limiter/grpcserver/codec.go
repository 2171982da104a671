// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver

import (
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto" // registers the codec that codec builds upon
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// codec is the usual one, except that it reads messages whose strings are not
// UTF-8. Envoy fills strings with bytes that its clients chose, and Go refuses to
// read those; the call would end in an error, and Envoy lets a request pass when a
// call ends so. A client could then get round every limit with one byte.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	message, ok := v.(protobuf.Message)
	if !ok {
		return err
	}
	wire := data.Materialize()
	sanitize(wire, message.ProtoReflect().Descriptor(), maxDepth)
	return protobuf.Unmarshal(wire, message)
}

const (
	// maxDepth bounds how deep messages within messages are mended: as deep as they
	// are read. Metadata of a request may nest as deep as its client likes.
	maxDepth = protowire.DefaultRecursionLimit
	// replacement replaces a byte that belongs to no character. It takes as much room,
	// so no length changes.
	replacement = '?'
)

// mend replaces what is not UTF-8 in the strings of the message. What cannot be
// read it leaves to Unmarshal to complain about.
func sanitize(wire []byte, d protoreflect.MessageDescriptor, depth int) {
	for len(wire) > 0 && depth > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return
		}
		wire = wire[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, wire); n < 0 {
				return
			}
			wire = wire[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(wire)
		if n < 0 {
			return
		}
		wire = wire[n:]
		field := d.Fields().ByNumber(number)
		switch {
		case field == nil:
		case field.Kind() == protoreflect.StringKind:
			replaceInvalidUTF8(value)
		case field.Kind() == protoreflect.MessageKind:
			sanitize(value, field.Message(), depth-1)
		}
	}
}

func replaceInvalidUTF8(text []byte) {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			text[i] = replacement
		}
		i += size
	}
}
