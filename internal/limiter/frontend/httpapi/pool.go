// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"sync"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// maxPooledHeaders bounds the map of headers that a pooled request keeps: clearing a map takes
// as long as it once was large.
const maxPooledHeaders = 32

// bodies pools buffers for request bodies.
var bodies = sync.Pool{New: func() any { return &bytes.Buffer{} }}

func takeBody() *bytes.Buffer { return bodies.Get().(*bytes.Buffer) }

func releaseBody(b *bytes.Buffer) {
	b.Reset()
	bodies.Put(b)
}

// request is a check with the memory of its lists and headers.
type request struct {
	check    limiter.Check
	policies [limiter.MaxChain]string
	key      [plan.MaxKeyParts]string
	headers  map[string]string // empty
}

var requests = sync.Pool{New: func() any { return &request{headers: map[string]string{}} }}

// newRequest returns a request of cost 1 without policies, key and attributes.
func newRequest() *request {
	q := requests.Get().(*request)
	q.check.Cost = 1
	return q
}

// release returns the request to the pool. It must not be called while the engine may still
// use the check: after an error or a degraded decision.
func (q *request) release() {
	if len(q.headers) > maxPooledHeaders {
		return
	}
	clear(q.headers)
	*q = request{headers: q.headers}
	requests.Put(q)
}
