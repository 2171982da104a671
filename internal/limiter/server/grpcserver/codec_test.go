// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// wireOf encodes the message with other bytes, which need not be UTF-8, in place of marker.
func wireOf(g *WithT, m proto.Message, marker, replacement string) []byte {
	wire, err := proto.Marshal(m)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(replacement).To(HaveLen(len(marker)), "the encoded lengths must stay valid")
	return bytes.ReplaceAll(wire, []byte(marker), []byte(replacement))
}

func (c codec) read(wire []byte, m proto.Message) error {
	return c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, m)
}

func TestCodecReplacesBytesThatAreNotUTF8(t *testing.T) {
	g := NewWithT(t)
	wire := wireOf(g, &ratelimitv3.RateLimitRequest{Domain: "edge", Descriptors: []*commonv3.RateLimitDescriptor{
		{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: "ä####ö"}}},
	}}, "####", "\xff☃")
	r := &ratelimitv3.RateLimitRequest{}
	g.Expect(proto.Unmarshal(wire, r)).NotTo(Succeed(), "the usual codec rejects the message")
	g.Expect(newCodec().read(wire, r)).To(Succeed())
	g.Expect(r.GetDomain()).To(Equal("edge"))
	g.Expect(r.GetDescriptors()[0].GetEntries()[0].GetValue()).To(Equal("ä?☃ö"))
}

func TestCodecSanitizesMapsButNotBytes(t *testing.T) {
	g := NewWithT(t)
	wire := wireOf(g, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Path: "/##", Headers: map[string]string{"user": "##"}, RawBody: []byte("##"),
		}},
	}}, "##", "\xc3\x28")
	r := &authv3.CheckRequest{}
	g.Expect(newCodec().read(wire, r)).To(Succeed())
	http := r.GetAttributes().GetRequest().GetHttp()
	g.Expect(http.GetPath()).To(Equal("/?("))
	g.Expect(http.GetHeaders()).To(Equal(map[string]string{"user": "?("}))
	g.Expect(http.GetRawBody()).To(Equal([]byte("\xc3\x28")))
}

func TestCodecRejectsMalformedMessages(t *testing.T) {
	g := NewWithT(t)
	for _, wire := range []string{"\xff", "\x0a\x05ab", "\x0b", strings.Repeat("\x12\x7f", 60)} {
		g.Expect(newCodec().read([]byte(wire), &ratelimitv3.RateLimitRequest{})).NotTo(Succeed(), "%q", wire)
	}
}

// selfCoded is a message that encodes and decodes itself.
type selfCoded struct{ wire string }

func (m *selfCoded) MarshalWire() mem.BufferSlice {
	return mem.BufferSlice{mem.SliceBuffer(m.wire)}
}

func (m *selfCoded) UnmarshalWire(wire []byte) error {
	m.wire = string(wire)
	if m.wire == "malformed" {
		return errors.New("malformed")
	}
	return nil
}

func TestCodecLeavesMessagesToThemselves(t *testing.T) {
	g := NewWithT(t)
	m := &selfCoded{}
	g.Expect(newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer("a\xff"), mem.SliceBuffer("b")}, m)).To(Succeed())
	g.Expect(m.wire).To(Equal("a\xffb"))
	encoded, err := newCodec().Marshal(m)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(encoded.Materialize())).To(Equal("a\xffb"))
	g.Expect(newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer("malformed")}, m)).To(MatchError("malformed"))
}

// Envoy can be configured to send metadata that its filters read from a body.
func TestCodecReadsDeepMetadata(t *testing.T) {
	g := NewWithT(t)
	value := structpb.NewStringValue("##")
	for range 100 {
		value = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a": value}})
	}
	wire := wireOf(g, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		MetadataContext: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"body": value.GetStructValue()}},
	}}, "##", "\xc3\x28")
	g.Expect(newCodec().read(wire, &authv3.CheckRequest{})).To(Succeed())
}

// The codec sanitizes nested messages up to a bound, which limits its time and stack.
func TestCodecBoundsDepth(t *testing.T) {
	g := NewWithT(t)
	d := (&commonv3.RateLimitDescriptor{}).ProtoReflect().Descriptor()
	wire := protowire.AppendTag(nil, 1, protowire.BytesType)
	wire = protowire.AppendBytes(wire, append(protowire.AppendTag(nil, 2, protowire.BytesType), 1, 0xff))
	kept := bytes.Clone(wire)
	sanitize(wire, d, 1)
	g.Expect(wire).To(Equal(kept))
	sanitize(wire, d, 2)
	g.Expect(wire).NotTo(Equal(kept))
}

// FuzzCodec expects the codec to read every message of the usual codec as the same message, and
// every string it reads to be UTF-8.
func FuzzCodec(f *testing.F) {
	f.Add([]byte("\x0a\x04edge\x12\x0e\x0a\x0c\x0a\x04user\x12\x04\xff\xfe\xc3\x28"))
	f.Add([]byte("\x0a\x01\xff"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, wire []byte) {
		g := NewWithT(t)
		usual, ours := &ratelimitv3.RateLimitRequest{}, &ratelimitv3.RateLimitRequest{}
		usualErr := proto.Unmarshal(wire, usual)
		err := newCodec().read(bytes.Clone(wire), ours)
		if usualErr == nil {
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(proto.Equal(usual, ours)).To(BeTrue())
		}
		if err == nil {
			g.Expect(utf8.ValidString(ours.GetDomain())).To(BeTrue())
			_, err = proto.Marshal(ours)
			g.Expect(err).NotTo(HaveOccurred())
		}
	})
}
