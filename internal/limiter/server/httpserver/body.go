// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"io"
	"net/http"
)

// holder holds the memory of a request until it has arrived.
type holder interface {
	// hold adds bytes of memory.
	hold(bytes int64)
	// arrived releases what only an unfinished request takes. It may be called again.
	arrived()
}

// body is the body of an unfinished request. It holds the memory of the request until its end.
type body struct {
	io.ReadCloser
	holder
	little int64 // bytes that are not yet held
}

// withBody returns a request whose body holds memory until it has arrived. It changes a copy: of a request whose own body
// was not read to its end, net/http delays the end of the connection, so that the client can read the response.
func withBody(r *http.Request, h holder) *http.Request {
	holding := new(http.Request)
	*holding = *r
	holding.Body = &body{ReadCloser: r.Body, holder: h}
	return holding
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
	b.little += int64(n) * bodyFactor
	switch {
	case err != nil:
		b.arrived()
	case b.little > littleBytes: // the memory of a small one is part of baseBytes
		b.hold(b.little)
		b.little = 0
	}
	return n, err
}
