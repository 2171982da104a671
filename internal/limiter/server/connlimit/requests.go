// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connlimit

import "math"

// never is later than all events.
const never = math.MaxUint64

// requests finds since when the oldest request of a connection waits, in constant memory: it counts the requests
// in two generations, and begins a new one when the older has ended. So it may return an event that is older than
// the oldest request, by at most the time that one generation took: while a busy connection answers each of its
// requests in milliseconds, the result is milliseconds old.
type requests struct {
	older, younger generation
	// last is the highest number in older, newest the highest of all.
	last, newest uint32
}

// generation is a number of open requests, and the event with which the first of them began.
type generation struct {
	open  int
	since uint64
}

func (r *requests) begin(request uint32, event uint64) {
	g := &r.younger
	if r.older.open == 0 {
		r.last = max(r.newest, request)
	}
	if request <= r.last {
		g = &r.older
	}
	if g.open == 0 {
		g.since = event
	}
	g.open++
	r.newest = max(r.newest, request)
}

func (r *requests) end(request uint32, event uint64) {
	if request > r.last {
		r.younger.open--
		return
	}
	r.older.open--
	if r.older.open > 0 {
		return
	}
	r.older, r.last = r.younger, r.newest
	r.younger = generation{}
	if r.older.open == 0 {
		r.older.since = event // of bytes without a request
	}
}
