// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/weir-dev/weir/internal/limiter/server/connlimit"
)

// boundedCredentials bound each connection, above TLS if it has TLS.
type boundedCredentials struct {
	credentials.TransportCredentials
	connections *connlimit.Set
	port        string
	timeout     time.Duration // of a request to arrive
}

// ServerHandshake implements credentials.TransportCredentials.
func (b boundedCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	held := b.connections.Add(b.port, raw)
	conn, info, err := b.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		held.Remove()
		return nil, nil, err
	}
	return newBoundedConn(conn, held, b.timeout), info, nil
}

// Clone implements credentials.TransportCredentials.
func (b boundedCredentials) Clone() credentials.TransportCredentials {
	b.TransportCredentials = b.TransportCredentials.Clone()
	return b
}

// boundedConn is closed if its calls take too much memory, or its unfinished requests too much time.
type boundedConn struct {
	net.Conn
	held       *connlimit.Conn
	unfinished *unfinished
	timeout    time.Duration
	// canceling is closed when gRPC has processed the last read; nil if the client canceled no calls in it.
	canceling atomic.Pointer[chan struct{}]

	mu     sync.Mutex
	timer  *time.Timer // nil while nothing is unfinished
	closed bool
}

// newBoundedConn returns a net.Conn that lets gRPC wait for bytes without a buffer if conn can.
func newBoundedConn(conn net.Conn, held *connlimit.Conn, timeout time.Duration) net.Conn {
	c := &boundedConn{
		Conn: conn, held: held, timeout: timeout,
		unfinished: newUnfinished(time.Now, held), //nolint:forbidigo // the default of the injected clock
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		return withoutPinnedBuffer(c, tcp)
	}
	return c
}

// peerAddr is the address of a client, from which connOf gets the connection.
type peerAddr struct {
	net.Addr
	conn *boundedConn
}

// RemoteAddr implements net.Conn.
func (c *boundedConn) RemoteAddr() net.Addr { return peerAddr{c.Conn.RemoteAddr(), c} }

// connOf returns the connection of a call.
func connOf(ctx context.Context) *boundedConn {
	if client, ok := peer.FromContext(ctx); ok {
		if address, ok := client.Addr.(peerAddr); ok {
			return address.conn
		}
	}
	return nil
}

// Read implements net.Conn.
func (c *boundedConn) Read(p []byte) (int, error) {
	c.beginRead()
	n, err := c.Conn.Read(p)
	c.received(p[:n])
	return n, err
}

// beginRead notes that gRPC has processed the last read.
func (c *boundedConn) beginRead() {
	if processed := c.canceling.Load(); processed != nil {
		c.canceling.Store(nil)
		close(*processed)
	}
}

func (c *boundedConn) received(p []byte) {
	if c.unfinished.received(p) {
		c.startTimer()
	}
	if c.unfinished.hasResets {
		processed := make(chan struct{})
		c.canceling.Store(&processed)
	}
}

// awaitCancellations returns the error of a call that its client has canceled. gRPC may start the call before it processes a
// cancellation that arrived in the same read.
func (c *boundedConn) awaitCancellations(ctx context.Context) error {
	if processed := c.canceling.Load(); processed != nil {
		select {
		case <-*processed:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// Write implements net.Conn.
func (c *boundedConn) Write(p []byte) (int, error) {
	c.unfinished.sent(p)
	calls := &c.unfinished.calls
	calls.beginWrite()
	n, err := c.Conn.Write(p)
	c.held.Hold(-calls.endWrite())
	return n, err
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	c.mu.Lock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.held.Remove()
	return c.Conn.Close()
}

// startTimer checks for overdue requests later, unless it already will.
func (c *boundedConn) startTimer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil && !c.closed {
		c.timer = time.AfterFunc(c.timeout, c.closeIfOverdue)
	}
}

// closeIfOverdue closes the connection if a request or frame did not arrive in time. Otherwise it
// checks again when the oldest one is overdue, if there is one.
func (c *boundedConn) closeIfOverdue() {
	oldest := c.unfinished.oldest()
	left := c.timeout - c.unfinished.now().Sub(oldest)
	if !oldest.IsZero() && left <= 0 {
		c.held.Close(connlimit.ReasonTimeout)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = nil
	if !oldest.IsZero() && !c.closed {
		c.timer = time.AfterFunc(left, c.closeIfOverdue)
	}
}
