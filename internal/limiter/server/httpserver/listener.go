// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/weir-dev/weir/internal/limiter/server/listen"
)

// listener returns connections whose bytes are counted.
type listener struct {
	net.Listener
	server *Server
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	raw := l.server.newRawConn(accepted)
	return &conn{Conn: raw, raw: raw}, nil
}

// tlsListener returns connections after the TLS handshake, since what net/http writes by itself can
// only be replaced above TLS.
type tlsListener struct {
	net.Listener
	server *Server
	config *tls.Config
	ready  chan net.Conn
	failed chan error
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

func newTLSListener(s *Server, inner net.Listener, config *tls.Config) *tlsListener {
	l := &tlsListener{Listener: inner, server: s, config: config, ready: make(chan net.Conn), failed: make(chan error)}
	l.ctx, l.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // it ends with Close
	go listen.AcceptAll(inner, func(accepted net.Conn) { go l.shake(s.newRawConn(accepted)) }, l.failed, l.ctx.Done())
	return l
}

// Accept implements net.Listener.
func (l *tlsListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case err := <-l.failed:
		return nil, err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It ends the handshakes.
func (l *tlsListener) Close() error {
	l.cancel()
	return l.Listener.Close()
}

// shake returns the connection from Accept after its handshake.
func (l *tlsListener) shake(raw *rawConn) {
	secured := tls.Server(raw, l.config)
	ctx, cancel := context.WithTimeout(l.ctx, l.server.http.ReadHeaderTimeout)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader) {
			_, _ = plain.Conn.Write(newProblem(400, "The port serves HTTPS, and the client sent HTTP."))
		}
		l.server.options.Logger.Debug("TLS handshake failed", "peer", raw.RemoteAddr().String(), "error", err)
		_ = raw.Close()
		return
	}
	var c net.Conn = secured
	if secured.ConnectionState().NegotiatedProtocol != "h2" {
		c = securedConn{&conn{Conn: secured, raw: raw}, secured}
	} else {
		raw.held.Hold(http2Bytes)
	}
	select {
	case l.ready <- c:
	case <-l.ctx.Done():
		_ = raw.Close()
	}
}

// looksLikeHTTP reports whether the first bytes of a connection are a method of HTTP.
func looksLikeHTTP(first [5]byte) bool {
	switch string(first[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		return true
	}
	return false
}
