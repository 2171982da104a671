// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver

import "encoding/binary"

// Types and flags of HTTP/2 frames (RFC 9113, section 6).
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameContinuation = 0x9

	flagEndStream  = 0x1 // of DATA and HEADERS
	flagEndHeaders = 0x4 // of HEADERS and CONTINUATION
	flagPadded     = 0x8 // of DATA

	frameHeaderBytes = 9
)

// frame is the header of a frame.
type frame struct {
	length      int // of the payload
	kind, flags byte
	stream      uint32
}

func (f frame) has(flag byte) bool { return f.flags&flag != 0 }

// frameReader follows the frames in a stream of bytes, whose parts it sees in turn.
type frameReader struct {
	header [frameHeaderBytes]byte
	filled int // bytes of header
	left   int // bytes of the payload that did not arrive
	frame  frame
}

// next consumes the rest of the header of a frame, or a part of a payload, from p. begins reports
// that the header is complete, ends that the frame is; both may be true. payload is the part that
// was consumed.
func (r *frameReader) next(p []byte) (payload, rest []byte, begins, ends bool) {
	if r.filled < frameHeaderBytes {
		n := copy(r.header[r.filled:], p)
		r.filled += n
		if r.filled < frameHeaderBytes {
			return nil, nil, false, false
		}
		r.frame = frame{
			length: int(r.header[0])<<16 | int(r.header[1])<<8 | int(r.header[2]),
			kind:   r.header[3], flags: r.header[4],
			stream: binary.BigEndian.Uint32(r.header[5:]) & 0x7fffffff,
		}
		r.left = r.frame.length
		begins, p = true, p[n:]
	}
	n := min(r.left, len(p))
	r.left -= n
	if r.left == 0 {
		r.filled = 0
	}
	return p[:n], p[n:], begins, r.left == 0
}

// isInside reports whether the bytes so far end inside of a frame.
func (r *frameReader) isInside() bool { return r.filled > 0 }

// messageReader finds the end of the first message in the payloads of DATA frames.
type messageReader struct {
	prefix [5]byte // a flag and the length of the message
	filled int
	left   int // bytes of the message that did not arrive
}

// read consumes data. It reports whether the message is complete.
func (r *messageReader) read(data []byte) bool {
	if r.filled < len(r.prefix) {
		n := copy(r.prefix[r.filled:], data)
		r.filled += n
		if r.filled < len(r.prefix) {
			return false
		}
		data = data[n:]
		r.left = int(binary.BigEndian.Uint32(r.prefix[1:]))
	}
	r.left -= min(r.left, len(data))
	return r.left == 0
}
