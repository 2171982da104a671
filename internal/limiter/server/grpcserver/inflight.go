// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver

import "sync/atomic"

const (
	// callBytes is what a call holds from its headers until its response has been sent, besides its
	// frames.
	callBytes = 4 << 10
	// queuedBytes is what a frame other than DATA holds until gRPC has sent what was before it.
	queuedBytes = 1 << 10
	// rememberedCalls is how many of the newest calls of a connection can end.
	rememberedCalls = 4096
)

// inFlight finds how much memory the calls of one connection hold whose responses have not been sent:
// their client may not read, or give the server no window. Its methods may be called at the same time.
type inFlight struct {
	// open has a bit for each of the newest calls that is set until it ends. Calls that are in flight
	// while rememberedCalls others begin hold their memory until the connection ends.
	open   [rememberedCalls / 64]atomic.Uint64
	newest atomic.Uint32 // stream of the newest call
	// writing is true while the connection waits in a write. queued are the bytes that arrived meanwhile.
	writing atomic.Bool
	queued  atomic.Int64
}

// begin adds a call, which holds callBytes.
func (c *inFlight) begin(stream uint32) {
	word, bit := c.bitOf(stream)
	word.Or(bit)
	c.newest.Store(stream)
}

// end removes a call that has been answered or reset. It reports whether the call was open and is remembered.
func (c *inFlight) end(stream uint32) bool {
	if newest := c.newest.Load(); stream > newest || newest-stream >= 2*rememberedCalls {
		return false // the bit is another call's
	}
	word, bit := c.bitOf(stream)
	return word.And(^bit)&bit != 0
}

// bitOf returns where the bit of a call is. Streams of clients have odd numbers.
func (c *inFlight) bitOf(stream uint32) (*atomic.Uint64, uint64) {
	i := stream / 2 % rememberedCalls
	return &c.open[i/64], 1 << (i % 64)
}

// received notes the number of frames that arrived, other than DATA. It returns the memory to hold.
func (c *inFlight) received(frames int64) int64 {
	if !c.writing.Load() {
		return 0
	}
	c.queued.Add(frames * queuedBytes)
	return frames * queuedBytes
}

func (c *inFlight) beginWrite() { c.writing.Store(true) }

// endWrite returns the memory to release.
func (c *inFlight) endWrite() int64 {
	c.writing.Store(false)
	return c.queued.Swap(0)
}
