// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/weir-dev/weir/internal/limiter/server/connlimit"
)

const (
	// baseBytes is what an unfinished request holds besides its text: buffers and the stack of a
	// goroutine.
	baseBytes = 16 << 10
	// headerFactor and bodyFactor are the memory of a byte of text. Short headers take most.
	headerFactor = 6
	bodyFactor   = 2
	// streamBytes is what a request with HTTP/2 holds until its response was sent, besides its headers.
	streamBytes = 12 << 10
	// http2Bytes is what a connection with HTTP/2 holds until it ends, besides its requests. Its frames are read by
	// net/http, so headers that do not end are not seen.
	http2Bytes = 32 << 10
	// servedFactor is the memory of a byte of headers, beyond littleBytes, until the response was sent.
	servedFactor = 2
	littleBytes  = 4 << 10
)

// rawConn is an accepted connection, below TLS.
type rawConn struct {
	net.Conn
	held *connlimit.Conn
}

func (s *Server) newRawConn(accepted net.Conn) *rawConn {
	return &rawConn{Conn: accepted, held: s.options.Connections.Add(s.options.Port, accepted)}
}

// Close implements net.Conn.
func (c *rawConn) Close() error {
	err := c.Conn.Close()
	c.held.Remove()
	return err
}

// CloseWrite is used by net/http, so that a client can read the response to a request that was not
// read to its end.
func (c *rawConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// conn is a connection with HTTP/1, above TLS. It holds the bytes of a request until its headers
// are complete, and large headers until its response was sent. It replaces the responses that net/http
// writes by itself.
type conn struct {
	net.Conn
	raw *rawConn
	// serving is true from the call of the handler until its response was written.
	serving atomic.Bool
	// open is true from the first byte of a request until its response was written. bytes is what it holds.
	open  atomic.Bool
	bytes atomic.Int64
	// served is what the request holds once it has arrived.
	served int64
}

// onlyRequest is the number of each request of a connection with HTTP/1, which has one at a time.
const onlyRequest = 1

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.serving.Load() {
		bytes := int64(n) * headerFactor
		if !c.open.Load() {
			bytes += baseBytes
		}
		c.hold(bytes)
	}
	return n, err
}

// hold adds bytes of the request, which may begin with them.
func (c *conn) hold(bytes int64) {
	c.bytes.Add(bytes)
	if c.open.Swap(true) {
		c.raw.held.Hold(bytes)
	} else {
		c.raw.held.Begin(onlyRequest, bytes)
	}
}

// Write implements net.Conn. While no handler serves a request, all that is written are the
// responses of net/http to malformed ones, each in one call.
func (c *conn) Write(p []byte) (int, error) {
	if !c.serving.Load() {
		if replaced := replaceError(p); replaced != nil {
			_, err := c.Conn.Write(replaced)
			return len(p), err
		}
	}
	return c.Conn.Write(p)
}

// CloseWrite is used by net/http, see rawConn.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

// arrived holds what a request that has arrived takes until its response was sent.
func (c *conn) arrived() { c.hold(c.served - c.bytes.Load()) }

// servedBytes returns the memory that headers of that length take while the request is served. The headers
// of usual requests count nothing.
func servedBytes(headers int64) int64 { return max(0, headers-littleBytes) * servedFactor }

// end expects the next request.
func (c *conn) end() {
	c.serving.Store(false)
	if c.open.Swap(false) {
		c.raw.held.Finish(onlyRequest, c.bytes.Swap(0))
	}
}

// securedConn is a conn with TLS.
type securedConn struct {
	*conn
	tls *tls.Conn
}

// ConnectionState lets net/http set http.Request.TLS.
func (c securedConn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// http1 returns the conn of a connection with HTTP/1; nil for HTTP/2.
func http1(c net.Conn) *conn {
	switch c := c.(type) {
	case *conn:
		return c
	case securedConn:
		return c.conn
	}
	return nil
}

// connOf returns the part of c that serves HTTP/1, nil for HTTP/2, and the one below TLS.
func connOf(c net.Conn) (*conn, *rawConn) {
	if one := http1(c); one != nil {
		return one, one.raw
	}
	return nil, c.(*tls.Conn).NetConn().(*rawConn)
}

// connState has the form of http.Server.ConnState.
func connState(c net.Conn, state http.ConnState) {
	if one := http1(c); one != nil && state == http.StateIdle {
		one.end()
	}
}

// connection is what serveHTTP needs of a connection.
type connection struct {
	http1   *conn // nil with HTTP/2
	held    *connlimit.Conn
	streams atomic.Uint32 // that began, with HTTP/2
}

// begin begins to serve a request with complete headers of that length. release is called after the handler.
func (c *connection) begin(w http.ResponseWriter, headers int64) (h holder, release func()) {
	if c.http1 != nil {
		c.http1.serving.Store(true)
		c.http1.served = servedBytes(headers)
		return c.http1, func() {}
	}
	s := &stream{held: c.held, bytes: streamBytes + servedBytes(headers)}
	number := c.streams.Add(1)
	s.unfinished.Store(baseBytes + headers*headerFactor)
	c.held.Begin(number, s.bytes+s.unfinished.Load())
	return s, func() {
		_ = http.NewResponseController(w).Flush() // fails if the stream has ended
		c.held.Finish(number, s.bytes)
	}
}

// stream is a request with HTTP/2. It holds bytes until its response was sent, since a client may give it no window, and
// unfinished ones until it has arrived.
type stream struct {
	held       *connlimit.Conn
	bytes      int64
	unfinished atomic.Int64
}

func (s *stream) hold(bytes int64) {
	s.unfinished.Add(bytes)
	s.held.Hold(bytes)
}

func (s *stream) arrived() { s.held.Hold(-s.unfinished.Swap(0)) }

type connectionKey struct{}

// connContext has the form of http.Server.ConnContext.
func (s *Server) connContext(ctx context.Context, c net.Conn) context.Context {
	one, raw := connOf(c)
	if s.options.ConnContext != nil {
		ctx = s.options.ConnContext(ctx, raw.Conn)
	}
	return context.WithValue(ctx, connectionKey{}, &connection{http1: one, held: raw.held})
}
