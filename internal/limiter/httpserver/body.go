// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/weir-dev/weir/internal/limiter/connlimit"
)

// body is the body of an unfinished request. It holds the memory of the request until its end.
type body struct {
	io.ReadCloser
	held  *connlimit.Conn
	bytes atomic.Int64
}

// holdBody returns a request that holds memory of its connection, also for headers of that length, until its
// body has arrived or release is called. A request without a body has arrived. It changes a copy: of a request whose own body was not read
// to its end, net/http delays the end of the connection, so that the client can read the response.
func holdBody(r *http.Request, headers int64, held *connlimit.Conn) (holding *http.Request, release func()) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, func() {}
	}
	b := &body{ReadCloser: r.Body, held: held}
	b.hold(baseBytes + headers*headerFactor)
	holding = new(http.Request)
	*holding = *r
	holding.Body = b
	return holding, b.release
}

func headerBytes(r *http.Request) (bytes int64) {
	bytes = int64(len(r.RequestURI))
	for name, values := range r.Header {
		for _, value := range values {
			bytes += int64(len(name) + len(value))
		}
	}
	return bytes
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.release()
	} else {
		b.hold(int64(n) * bodyFactor)
	}
	return n, err
}

func (b *body) hold(bytes int64) {
	b.bytes.Add(bytes)
	b.held.Hold(bytes)
}

func (b *body) release() { b.held.Hold(-b.bytes.Swap(0)) }
