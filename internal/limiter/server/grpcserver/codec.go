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

// codec is the standard protobuf codec, except that it also accepts strings that are not
// valid UTF-8. Envoy copies bytes that its clients chose into strings. The standard codec
// rejects those with an error, and Envoy allows a request when the call fails: one byte
// would evade every limit.
//
// A wireMarshaler encodes itself, and a wireUnmarshaler decodes itself.
type codec struct{ encoding.CodecV2 }

// wireMarshaler is a message that encodes itself in the protobuf encoding.
type wireMarshaler interface {
	// MarshalWire returns the message, which gRPC frees after it was sent.
	MarshalWire() mem.BufferSlice
}

// wireUnmarshaler is a message that decodes itself from the protobuf encoding.
type wireUnmarshaler interface {
	// UnmarshalWire replaces the message. It accepts strings that are not valid UTF-8, does
	// not keep or change wire, and returns an error for malformed bytes.
	UnmarshalWire(wire []byte) error
}

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if message, ok := v.(wireMarshaler); ok {
		return message.MarshalWire(), nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if message, ok := v.(wireUnmarshaler); ok {
		buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer buffer.Free()
		return message.UnmarshalWire(buffer.ReadOnlyData())
	}
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
	// maxDepth bounds the nesting of messages that sanitize descends into. It is the
	// limit of the decoder; clients choose how deep the metadata of a request nests.
	maxDepth = protowire.DefaultRecursionLimit
	// replacement replaces each invalid byte. It is one byte, so no length changes.
	replacement = '?'
)

// sanitize replaces invalid UTF-8 in the strings of the message, in place. It stops at
// malformed bytes, which Unmarshal then rejects.
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
