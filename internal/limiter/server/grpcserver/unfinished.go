// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/internal/limiter/server/connlimit"
)

const (
	// requestBytes is what a request holds besides its frames and callBytes: its metadata up to
	// lightMetadataBytes.
	requestBytes = 4 << 10
	// frameBytes is what gRPC holds for a DATA frame besides its payload.
	frameBytes = 96
	// maxFrameBytes is the length of the longest frame that gRPC reads.
	maxFrameBytes = 16 << 10
	// prefaceBytes is the length of the text that begins each HTTP/2 connection.
	prefaceBytes = 24
)

// unfinished follows the frames of one connection to find how much memory its unfinished requests
// take, and its calls in flight. A request is unfinished until its client or the server ends the stream.
// received and sent may be called at the same time.
//
// A request that begins and ends in one read, as most do, costs no lock and no entry of the map.
type unfinished struct {
	now  func() time.Time
	held holder

	// Only received uses these.
	preface    int // bytes that arrived
	in         frameReader
	padding    int    // bytes of the DATA frame without data; -1 until its length arrived
	newest     uint32 // stream that began in this read; 0 if none did or it ended
	current    request
	block      uint32 // stream whose headers arrive; 0 if none
	blockEnds  bool   // the stream ends with its headers
	blockIsNew bool   // the headers began in this read
	hasResets  bool   // the client reset streams in this read
	frames     int64  // other than DATA, that began in this read
	kept       int    // length of the longest frame other than DATA, whose buffer gRPC keeps; 0 for short ones
	data       *request
	arriving   connlimit.Change // by this read; empty between two

	// Only sent uses these.
	out     frameReader
	leaving connlimit.Change // by this write; empty between two

	calls inFlight

	mu sync.Mutex
	// requests are the unfinished ones by stream.
	requests map[uint32]*request
	count    atomic.Int64 // of requests
	inside   time.Time    // since when a frame or headers are incomplete; zero if they are not
}

// request is an unfinished request.
type request struct {
	since    time.Time
	bytes    int64
	message  messageReader
	complete bool // its first message arrived
}

// holder counts the memory of a connection, as connlimit.Conn does.
type holder interface {
	Apply(change *connlimit.Change)
}

func newUnfinished(now func() time.Time, held holder) *unfinished {
	return &unfinished{now: now, held: held, requests: map[uint32]*request{}}
}

// received follows bytes from the client, before gRPC reads them. It reports whether a request is
// unfinished or a frame incomplete.
func (u *unfinished) received(p []byte) (waits bool) {
	p = u.skipPreface(p)
	wasInside, begun := u.in.isInside() || u.block != 0, false
	u.blockIsNew, u.hasResets, u.frames = false, false, 0
	for len(p) > 0 {
		rest, begins := u.next(p)
		p, begun = rest, begun || begins
	}
	u.keep()
	isInside := u.in.isInside() || u.block != 0
	if isInside != wasInside || (isInside && begun) {
		u.setInside(isInside)
	}
	u.arriving.Bytes += u.calls.received(u.frames)
	u.held.Apply(&u.arriving)
	u.arriving.Reset()
	return isInside || u.count.Load() > 0
}

func (u *unfinished) skipPreface(p []byte) []byte {
	n := min(prefaceBytes-u.preface, len(p))
	u.preface += n
	return p[n:]
}

// next processes a part of p, and reports whether a frame begins.
func (u *unfinished) next(p []byte) (rest []byte, begins bool) {
	payload, rest, begins, ends := u.in.next(p)
	if begins {
		u.begin(u.in.frame)
	}
	if u.data != nil && len(payload) > 0 {
		u.read(payload)
	}
	if ends {
		u.end(u.in.frame)
	}
	return rest, begins
}

func (u *unfinished) setInside(is bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case !is:
		u.inside = time.Time{}
	case u.block == 0 || u.blockIsNew || u.inside.IsZero(): // else the same headers continue
		u.inside = u.now()
	}
}

// begin processes the header of a frame.
func (u *unfinished) begin(f frame) {
	u.data = nil
	if f.kind != frameData {
		u.frames++
		u.keepBuffer(f.length)
	}
	switch f.kind {
	case frameHeaders:
		u.beginHeaders(f)
	case frameContinuation:
		if u.block != 0 && u.newest == u.block {
			u.current.bytes += int64(f.length)
		} else {
			u.addTo(u.block, int64(f.length))
		}
	case frameData:
		u.padding = 0
		if f.has(flagPadded) {
			u.padding = -1
		}
		cost := bufferBytesOf(f.length)
		if u.newest == f.stream {
			u.current.bytes += cost
			u.data = &u.current
		} else {
			u.data = u.addTo(f.stream, cost)
		}
	}
}

// shortFrameBytes is the longest frame whose buffer is part of what each connection takes.
const shortFrameBytes = 1 << 10

// keepBuffer holds, until the connection ends, the buffer of a frame of that length, which gRPC takes
// when the header of the frame has arrived.
func (u *unfinished) keepBuffer(length int) {
	if length <= max(shortFrameBytes, u.kept) || length > maxFrameBytes {
		return
	}
	u.arriving.Bytes += int64(length - u.kept)
	u.kept = length
}

func (u *unfinished) beginHeaders(f frame) {
	u.block, u.blockEnds, u.blockIsNew = f.stream, f.has(flagEndStream), true
	if u.newest == f.stream || u.addTo(f.stream, int64(f.length)) != nil { // trailers
		return
	}
	u.keep()
	u.calls.begin(f.stream)
	u.arriving.Begun = append(u.arriving.Begun, f.stream)
	u.arriving.Bytes += callBytes
	u.newest, u.current = f.stream, request{bytes: requestBytes + int64(f.length)}
}

// addTo adds bytes to a request of the map. It returns the request, or nil without one.
func (u *unfinished) addTo(stream uint32, bytes int64) *request {
	if u.count.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.requests[stream]
	if r != nil {
		r.bytes += bytes
		u.arriving.Bytes += bytes
	}
	return r
}

// read processes a part of the payload of a DATA frame.
func (u *unfinished) read(payload []byte) {
	if u.padding < 0 {
		u.padding = int(payload[0])
		payload = payload[1:]
	}
	// left is what of the frame did not arrive; the padding is at its end.
	data := payload[:max(0, len(payload)-max(0, u.padding-u.in.left))]
	if u.data.complete || !u.data.message.read(data) {
		return
	}
	u.mu.Lock()
	u.data.complete = true
	u.mu.Unlock()
}

// end processes the end of a frame.
func (u *unfinished) end(f frame) {
	ends := false
	switch f.kind {
	case frameHeaders, frameContinuation:
		if !f.has(flagEndHeaders) {
			return
		}
		ends = u.blockEnds
		u.block = 0
	case frameData:
		u.data = nil
		ends = f.has(flagEndStream)
	case frameReset:
		ends, u.hasResets = true, true
		if u.calls.end(f.stream) {
			u.arriving.Abandoned = append(u.arriving.Abandoned, f.stream)
			u.arriving.Bytes -= callBytes
		}
	}
	switch {
	case !ends:
	case u.newest == f.stream:
		u.newest = 0
	default:
		u.arriving.Bytes -= u.remove(f.stream)
	}
}

// keep moves the newest request to the map, since it did not end, and holds its memory.
func (u *unfinished) keep() {
	if u.newest == 0 {
		return
	}
	r := u.current
	r.since = u.now()
	u.arriving.Bytes += r.bytes
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests[u.newest] = &r
	u.count.Add(1)
	if u.data == &u.current {
		u.data = &r
	}
	u.newest = 0
}

// remove forgets a request. It returns the memory that it held.
func (u *unfinished) remove(stream uint32) int64 {
	if u.count.Load() == 0 {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.requests[stream]
	if r == nil {
		return 0
	}
	delete(u.requests, stream)
	u.count.Add(-1)
	return r.bytes
}

// sent follows bytes to the client: the server may end a request that is unfinished.
func (u *unfinished) sent(p []byte) {
	for len(p) > 0 {
		var begins bool
		_, p, begins, _ = u.out.next(p)
		f := u.out.frame
		answered := f.kind == frameHeaders && f.has(flagEndStream)
		if !begins || !answered && f.kind != frameReset {
			continue
		}
		u.leaving.Bytes -= u.remove(f.stream)
		if !u.calls.end(f.stream) {
			continue
		}
		u.leaving.Bytes -= callBytes
		if answered {
			u.leaving.Finished = append(u.leaving.Finished, f.stream)
		} else {
			u.leaving.Abandoned = append(u.leaving.Abandoned, f.stream)
		}
	}
	u.held.Apply(&u.leaving)
	u.leaving.Reset()
}

// oldest returns since when the longest of the first messages, frames and headers is incomplete;
// the zero time if none is.
func (u *unfinished) oldest() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	oldest := u.inside
	for _, r := range u.requests {
		if !r.complete && (oldest.IsZero() || r.since.Before(oldest)) {
			oldest = r.since
		}
	}
	return oldest
}

// bufferBytesOf returns the memory that gRPC takes for a DATA frame: payloads above 1 KiB are in
// buffers of a few sizes.
func bufferBytesOf(length int) int64 {
	switch {
	case length == 0:
		return 0
	case length > 4<<10:
		length = maxFrameBytes
	case length > 1<<10:
		length = 4 << 10
	}
	return int64(length) + frameBytes
}
