// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/server/connlimit"
)

func testFrame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	header := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	return append(binary.BigEndian.AppendUint32(header, stream), payload...)
}

// heldBytes is a holder that only adds the bytes.
type heldBytes int64

func (h *heldBytes) Apply(change *connlimit.Change) { *h += heldBytes(change.Bytes) }

// changes are the changes of a holder.
type changes []connlimit.Change

func (c *changes) Apply(change *connlimit.Change) {
	kept := *change
	kept.Begun, kept.Finished = slices.Clone(change.Begun), slices.Clone(change.Finished)
	kept.Abandoned = slices.Clone(change.Abandoned)
	*c = append(*c, kept)
}

// The lock of all connections is taken once for each read and write, whatever the number of calls in it.
func TestCallsOfOneReadAreHeldAtOnce(t *testing.T) {
	g := NewWithT(t)
	seen := &changes{}
	u := newUnfinished(time.Now, seen)
	var read, write []byte
	for stream := uint32(1); stream < 9; stream += 2 {
		read = append(read, testFrame(frameHeaders, flagEndHeaders|flagEndStream, stream, make([]byte, 50))...)
		write = append(write, testFrame(frameHeaders, flagEndHeaders|flagEndStream, stream, make([]byte, 9))...)
	}
	read = append(read, testFrame(frameReset, 0, 3, make([]byte, 4))...)
	u.received(append(make([]byte, prefaceBytes), read...))
	u.sent(write)
	g.Expect(*seen).To(Equal(changes{
		{Bytes: 3 * callBytes, Begun: []uint32{1, 3, 5, 7}, Abandoned: []uint32{3}},
		{Bytes: -3 * callBytes, Finished: []uint32{1, 5, 7}},
	}))
}

// A client may begin thousands of calls in one read, and then nothing.
func TestAnIdleConnectionKeepsNoRoomForManyCalls(t *testing.T) {
	g := NewWithT(t)
	held := heldBytes(0)
	u := newUnfinished(time.Now, &held)
	var read []byte
	for stream := uint32(1); stream < 4000; stream += 2 {
		read = append(read, testFrame(frameHeaders, flagEndHeaders|flagEndStream, stream, nil)...)
	}
	u.received(append(make([]byte, prefaceBytes), read...))
	g.Expect(held).To(BeEquivalentTo(2000 * callBytes))
	g.Expect(cap(u.arriving.Begun)).To(BeNumerically("<=", 64))
}

// feed passes the preface and the frames in parts of at most size bytes.
func feed(u *unfinished, size func() int, frames ...[]byte) (waits bool) {
	text := slices.Concat(append([][]byte{make([]byte, prefaceBytes)}, frames...)...)
	for len(text) > 0 {
		n := min(size(), len(text))
		waits = u.received(text[:n])
		text = text[n:]
	}
	return waits
}

// What is held does not depend on how the bytes are divided.
func TestUnfinishedBytesAreExact(t *testing.T) {
	message := append([]byte{0, 0, 0, 0, 100}, make([]byte, 100)...)
	open := testFrame(frameHeaders, flagEndHeaders, 1, make([]byte, 50))
	for name, tc := range map[string]struct {
		frames [][]byte
		held   int64
		waits  bool // for a part of a first message, a frame or headers
		calls  int64
	}{
		"complete request":     {[][]byte{open, testFrame(frameData, flagEndStream, 1, message)}, 0, false, 1},
		"headers only":         {[][]byte{open}, requestBytes + 50, true, 1},
		"half a message":       {[][]byte{open, testFrame(frameData, 0, 1, message[:60])}, requestBytes + 50 + 60 + frameBytes, true, 1},
		"message without end":  {[][]byte{open, testFrame(frameData, 0, 1, message)}, requestBytes + 50 + 105 + frameBytes, false, 1},
		"empty end":            {[][]byte{open, testFrame(frameData, 0, 1, message), testFrame(frameData, flagEndStream, 1, nil)}, 0, false, 1},
		"large frame":          {[][]byte{open, testFrame(frameData, 0, 1, make([]byte, 5000))}, requestBytes + 50 + 16<<10 + frameBytes, false, 1},
		"padded":               {[][]byte{open, testFrame(frameData, flagPadded, 1, append(append([]byte{9}, message...), make([]byte, 9)...))}, requestBytes + 50 + 115 + frameBytes, false, 1},
		"padding is no data":   {[][]byte{open, testFrame(frameData, flagPadded, 1, append(append([]byte{9}, message[:104]...), make([]byte, 9)...))}, requestBytes + 50 + 114 + frameBytes, true, 1},
		"reset by the client":  {[][]byte{open, testFrame(frameReset, 0, 1, make([]byte, 4))}, 0, false, 0},
		"request without data": {[][]byte{testFrame(frameHeaders, flagEndHeaders|flagEndStream, 1, make([]byte, 50))}, 0, false, 1},
		"headers continue":     {[][]byte{testFrame(frameHeaders, flagEndStream, 1, make([]byte, 50)), testFrame(frameContinuation, 0, 1, make([]byte, 30))}, requestBytes + 80, true, 1},
		"headers end later":    {[][]byte{testFrame(frameHeaders, flagEndStream, 1, make([]byte, 50)), testFrame(frameContinuation, flagEndHeaders, 1, make([]byte, 30))}, 0, false, 1},
		"trailers":             {[][]byte{open, testFrame(frameHeaders, flagEndHeaders|flagEndStream, 1, make([]byte, 50))}, 0, false, 1},
		"empty trailers":       {[][]byte{open, testFrame(frameHeaders, flagEndHeaders|flagEndStream, 1, nil)}, 0, false, 1},
		"unknown stream":       {[][]byte{testFrame(frameData, 0, 7, message), testFrame(frameReset, 0, 7, make([]byte, 4))}, 0, false, 0},
		"interleaved": {[][]byte{
			open, testFrame(frameHeaders, flagEndHeaders, 3, make([]byte, 50)),
			testFrame(frameData, 0, 1, message[:60]), testFrame(frameData, 0, 3, message[:60]),
			testFrame(frameData, flagEndStream, 1, message[60:]), testFrame(frameData, 0, 3, message[60:70]),
		}, requestBytes + 50 + 70 + 2*frameBytes, true, 2},
		"half a frame":  {[][]byte{open[:20]}, requestBytes + 50, true, 1},
		"half a header": {[][]byte{open[:5]}, 0, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for range 50 {
				held := int64(0)
				u := newUnfinished(time.Now, (*heldBytes)(&held))
				most := 1 + rand.IntN(200)
				feed(u, func() int { return 1 + rand.IntN(most) }, tc.frames...)
				g.Expect(held).To(Equal(tc.held+tc.calls*callBytes), "parts of at most %d bytes", most)
				g.Expect(u.oldest().IsZero()).To(Equal(!tc.waits))
			}
		})
	}
}

func TestServerEndsUnfinishedRequests(t *testing.T) {
	for name, answer := range map[string][]byte{
		"with trailers": testFrame(frameHeaders, flagEndHeaders|flagEndStream, 1, make([]byte, 20)),
		"with a reset":  testFrame(frameReset, 0, 1, make([]byte, 4)),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			held := int64(0)
			u := newUnfinished(time.Now, (*heldBytes)(&held))
			feed(u, func() int { return 1000 }, testFrame(frameHeaders, flagEndHeaders, 1, nil), testFrame(frameData, 0, 1, make([]byte, 9)))
			u.sent(testFrame(frameHeaders, flagEndHeaders, 1, make([]byte, 20)))
			g.Expect(held).NotTo(BeZero())
			for _, b := range answer {
				u.sent([]byte{b})
			}
			g.Expect(held).To(BeZero())
			g.Expect(u.received(testFrame(frameData, 0, 1, make([]byte, 9)))).To(BeFalse())
			g.Expect(held).To(BeZero(), "gRPC discards what comes later")
		})
	}
}

// Calls hold memory until they are answered or reset, each once.
func TestCallsInFlightAreCounted(t *testing.T) {
	g := NewWithT(t)
	held := int64(0)
	u := newUnfinished(time.Now, (*heldBytes)(&held))
	calls := func(first, count uint32) (frames []byte) {
		for i := range count {
			frames = append(frames, testFrame(frameHeaders, flagEndHeaders|flagEndStream, first+2*i, nil)...)
		}
		return frames
	}
	feed(u, func() int { return 1000 }, calls(1, 10))
	g.Expect(held).To(Equal(int64(10 * callBytes)))
	answer := testFrame(frameHeaders, flagEndHeaders|flagEndStream, 1, nil)
	reset := testFrame(frameReset, 0, 1, make([]byte, 4))
	for range 2 {
		u.sent(answer)
		u.sent(reset)
		u.received(reset)
	}
	u.received(testFrame(frameReset, 0, 3, make([]byte, 4)))
	u.sent(testFrame(frameHeaders, flagEndHeaders|flagEndStream, 3, nil))
	g.Expect(held).To(Equal(int64(8 * callBytes)))
	u.received(calls(1000, 2*rememberedCalls))
	for i := range uint32(2 * rememberedCalls) {
		u.sent(testFrame(frameHeaders, flagEndHeaders|flagEndStream, 1000+2*i, nil))
	}
	g.Expect(held).To(Equal(int64(8+rememberedCalls)*callBytes), "only the newest can end")
}

// gRPC keeps the buffer of the longest frame other than DATA, also of a frame that does not arrive completely.
func TestKeptBuffersAreCounted(t *testing.T) {
	g := NewWithT(t)
	held := int64(0)
	u := newUnfinished(time.Now, (*heldBytes)(&held))
	feed(u, func() int { return 1000 }, testFrame(4, 0, 0, make([]byte, shortFrameBytes)))
	g.Expect(held).To(BeZero())
	u.received(testFrame(4, 0, 0, make([]byte, 6000)))
	g.Expect(held).To(Equal(int64(6000)))
	u.received(testFrame(4, 0, 0, make([]byte, 5000)))
	u.received(testFrame(4, 0, 0, make([]byte, 9000))[:20])
	g.Expect(held).To(Equal(int64(9000)))
}

// A reset of a call that never began, whose place an open call has, releases nothing.
func TestOnlyRememberedCallsEnd(t *testing.T) {
	g := NewWithT(t)
	held := int64(0)
	u := newUnfinished(time.Now, (*heldBytes)(&held))
	feed(u, func() int { return 1000 }, testFrame(frameHeaders, flagEndHeaders|flagEndStream, 5, nil))
	u.received(testFrame(frameReset, 0, 5+2*rememberedCalls, make([]byte, 4)))
	g.Expect(held).To(Equal(int64(callBytes)))
	u.received(testFrame(frameHeaders, flagEndHeaders|flagEndStream, 5+2*rememberedCalls, nil))
	u.received(testFrame(frameReset, 0, 5, make([]byte, 4)))
	g.Expect(held).To(Equal(int64(2*callBytes)), "the place is that of the newer call")
	u.received(testFrame(frameReset, 0, 5+2*rememberedCalls, make([]byte, 4)))
	g.Expect(held).To(Equal(int64(callBytes)))
}

// What arrives while the client does not read waits in memory.
func TestFramesAreCountedDuringAWrite(t *testing.T) {
	g := NewWithT(t)
	held := int64(0)
	u := newUnfinished(time.Now, (*heldBytes)(&held))
	feed(u, func() int { return 1000 })
	pings := bytes.Repeat(testFrame(6, 0, 0, make([]byte, 8)), 10)
	u.received(pings)
	g.Expect(held).To(BeZero())
	u.calls.beginWrite()
	u.received(pings)
	g.Expect(held).To(Equal(int64(10 * queuedBytes)))
	g.Expect(u.calls.endWrite()).To(Equal(held))
	g.Expect(u.calls.endWrite()).To(BeZero())
}

// A frame that is incomplete at the end of each read is not one that takes long.
func TestBusyConnectionIsNotOverdue(t *testing.T) {
	g := NewWithT(t)
	now := time.Unix(0, 0)
	u := newUnfinished(func() time.Time { return now }, new(heldBytes))
	feed(u, func() int { return 1000 }, nil)
	ping := testFrame(6, 0, 0, make([]byte, 8))
	u.received(ping[:5])
	for range 10 {
		now = now.Add(time.Second)
		u.received(append(append([]byte{}, ping[5:]...), ping[:5]...))
		g.Expect(u.oldest()).To(Equal(now))
	}
}

func TestTrimMetadata(t *testing.T) {
	g := NewWithT(t)
	md := map[string][]string{"traceparent": {"00-1-2-01"}, "tracestate": {string(make([]byte, 5000))}}
	trimMetadata(md)
	g.Expect(md).To(HaveLen(1))
	md["a"] = make([]string, 1000)
	trimMetadata(md)
	g.Expect(md).To(HaveKey("traceparent"))
}
