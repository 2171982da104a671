// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// connections opens the connections of one client and keeps track of them until they are
// closed, so that those to a server that is no longer the master can be closed.
type connections struct {
	files Files
	tls   *tls.Config // nil without TLS
	// first is called when the first connection opens, last when the last one has closed.
	// Both must not block.
	first, last func()

	generation atomic.Uint64 // of connections that are opened now

	mu   sync.Mutex
	open map[*conn]struct{}
}

func newConnections(files Files, base *tls.Config) *connections {
	return &connections{
		files: files, tls: base, first: func() {}, last: func() {},
		open: map[*conn]struct{}{},
	}
}

// dial connects to the address, with the certificates that the files hold now.
func (c *connections) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	raw, err := c.dialRaw(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	opened := &conn{Conn: raw, addr: addr, owner: c}
	c.add(opened)
	// The pool detects dead idle connections only on a connection that is a syscall.Conn,
	// which one with TLS must not be.
	if system, ok := raw.(syscall.Conn); ok {
		return plainConn{opened, system}, nil
	}
	return opened, nil
}

func (c *connections) dialRaw(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	if c.tls == nil {
		return plain.DialContext(ctx, network, addr)
	}
	config, err := c.files.tlsConfig(c.tls)
	if err != nil {
		return nil, err
	}
	opened, err := plain.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	return handshake(ctx, tls.Client(opened, config))
}

// handshakeTimeout bounds a handshake, so that its error is reported before the attempt to connect ends.
const handshakeTimeout = dialTimeout * 3 / 4

var errNoHandshake = errors.New("does not answer a TLS handshake; a port without TLS needs redis:// in place of rediss://")

// handshake completes the TLS handshake. A server without TLS does not answer it.
func handshake(ctx context.Context, opened *tls.Conn) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := opened.HandshakeContext(ctx); err != nil {
		_ = opened.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("%s %w: %w", opened.RemoteAddr(), errNoHandshake, err) // two, since the library unwraps one
		}
		return nil, err
	}
	return opened, nil
}

func (c *connections) add(opened *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	opened.generation = c.generation.Load()
	c.open[opened] = struct{}{}
	if len(c.open) == 1 {
		c.first()
	}
}

func (c *connections) remove(closed *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, found := c.open[closed]; !found {
		return
	}
	delete(c.open, closed)
	if len(c.open) == 0 {
		c.last()
	}
}

// closeUpTo closes the connections of that generation and of earlier ones. A command that is
// in flight on one of them fails; it is not sent again.
func (c *connections) closeUpTo(generation uint64) {
	c.generation.CompareAndSwap(generation, generation+1)
	c.closeIf(func(opened *conn) bool { return opened.generation <= generation })
}

// closeExcept closes the connections to other addresses.
func (c *connections) closeExcept(addr string) {
	c.closeIf(func(opened *conn) bool { return opened.addr != addr })
}

func (c *connections) closeIf(condition func(*conn) bool) {
	c.mu.Lock()
	var chosen []*conn
	for opened := range c.open {
		if condition(opened) {
			chosen = append(chosen, opened)
		}
	}
	c.mu.Unlock()
	for _, opened := range chosen {
		_ = opened.Close()
	}
}

// errTooManyClients is the reply of a server that has reached maxclients. The server then
// closes the connection, so without this error a command would only report the closed
// connection. With TLS the server closes the connection without this reply.
var errTooManyClients = errors.New("ERR max number of clients reached")

// conn is one connection of a client.
type conn struct {
	net.Conn
	addr       string
	owner      *connections
	generation uint64
	hasRead    bool // used by the reader only
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.hasRead && n > 0 {
		c.hasRead = true
		if bytes.HasPrefix(p[:n], []byte("-"+errTooManyClients.Error())) {
			return 0, errTooManyClients
		}
	}
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.owner.remove(c)
	return c.Conn.Close()
}

// plainConn is a connection without TLS.
type plainConn struct {
	*conn
	syscall.Conn
}

// withLateErrors returns a function that reports the errors of dial when the connection is first
// used. After failures in a row the pool of the library dials only once a second, and so finds a
// server that works again late. When to try again is up to the callers: the circuit breaker of
// decisions, and the registry with its backoff.
func withLateErrors(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		opened, err := dial(ctx, network, addr)
		if err != nil {
			return failedConn{err}, nil //nolint:nilerr // reported by the connection
		}
		return opened, nil
	}
}

// failedConn is a connection that could not be opened.
type failedConn struct{ err error }

// Read implements net.Conn.
func (c failedConn) Read([]byte) (int, error) { return 0, c.err }

// Write implements net.Conn.
func (c failedConn) Write([]byte) (int, error) { return 0, c.err }

// Close implements net.Conn.
func (failedConn) Close() error { return nil }

// LocalAddr implements net.Conn.
func (failedConn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements net.Conn.
func (failedConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline implements net.Conn.
func (failedConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (failedConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (failedConn) SetWriteDeadline(time.Time) error { return nil }
