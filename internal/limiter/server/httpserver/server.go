// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpserver serves HTTP on one address, with TLS, bounds on what a client can hold,
// and a drain at the end. It serves the HTTP frontend, the webhook, the probes and the metrics.
//
// Reading order: server.go (the server), listener.go and conn.go (its connections), body.go (what
// unfinished requests hold), problem.go (responses to malformed requests).
package httpserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/internal/limiter/server/connlimit"
	"github.com/weir-dev/weir/internal/limiter/server/listen"
)

// Bounds on what a slow or silent client can hold. A check is small and takes
// milliseconds.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 10 * time.Second
	// idleTimeout is longer than the usual timeout of proxies, so that the proxy closes
	// first. Otherwise it could send a request on a connection that was just closed.
	idleTimeout = 2 * time.Minute
	// maxHeaderBytes leaves room for the headers of a forwarded request.
	maxHeaderBytes = 64 << 10
	// maxFrameBytes bounds a frame of HTTP/2, for which net/http takes memory when its header has arrived. It is
	// the least that the protocol permits.
	maxFrameBytes = 16 << 10

	defaultDrainTimeout = 10 * time.Second
)

// Options configure a Server. Address and Handler are required.
type Options struct {
	// Address is the TCP address, as in ":8080"; port 0 takes any free port.
	Address string
	Handler http.Handler
	// TLS turns TLS on. It must provide a certificate.
	TLS *tls.Config
	// Listener wraps the listener; nil does not.
	Listener func(net.Listener) net.Listener
	// ConnContext changes the context of the requests of a connection; nil does not.
	ConnContext func(ctx context.Context, c net.Conn) context.Context
	// ReadTimeout bounds headers and body together; 0 is 5s for headers and 10s together.
	ReadTimeout time.Duration
	// Connections bounds what clients can hold; nil bounds only this server.
	Connections *connlimit.Set
	// Port names the server in metrics.
	Port string
	// SingleRequest closes each connection after one request, over HTTP/1.1.
	SingleRequest bool
	// Logger receives failed connections, at level Debug; nil is slog.Default().
	Logger *slog.Logger
	// OnDrain is called once, when draining begins, so that readiness can fail; nil does
	// nothing.
	OnDrain func()
	// DrainDelay is the time between OnDrain and the shutdown, in which load balancers can
	// notice.
	DrainDelay time.Duration
	// DrainTimeout bounds the requests in flight after that; 0 is 10s.
	DrainTimeout time.Duration
}

// Server serves HTTP until its context ends, then drains.
type Server struct {
	listener *listen.Listener
	options  Options
	http     *http.Server
	draining atomic.Bool
}

// New returns a server that does not listen yet.
func New(o Options) *Server {
	o.DrainTimeout = cmp.Or(o.DrainTimeout, defaultDrainTimeout)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Connections == nil {
		o.Connections = connlimit.New(connlimit.Options{Logger: o.Logger})
	}
	s := &Server{
		options: o,
		listener: listen.New(listen.Options{
			Address: o.Address, DrainDelay: o.DrainDelay, DrainTimeout: o.DrainTimeout,
		}),
	}
	s.http = s.server()
	return s
}

// Bind binds the address, unless it is bound.
func (s *Server) Bind(ctx context.Context) error { return s.listener.Bind(ctx) }

// Close releases the address of a server that does not run.
func (s *Server) Close() error { return s.listener.Close() }

// Start binds the address, unless Bind did, and serves until ctx ends, then drains. It returns nil after a complete
// drain.
func (s *Server) Start(ctx context.Context) error { return s.listener.Run(ctx, protocol{s}) }

// Addr returns the address in use; empty until it is bound.
func (s *Server) Addr() string { return s.listener.Addr() }

// server returns the standard server with these bounds.
func (s *Server) server() *http.Server {
	server := &http.Server{
		Handler:           http.HandlerFunc(s.serveHTTP),
		TLSConfig:         s.options.TLS.Clone(),
		ConnContext:       s.connContext,
		ConnState:         connState,
		ReadHeaderTimeout: cmp.Or(s.options.ReadTimeout, readHeaderTimeout),
		ReadTimeout:       cmp.Or(s.options.ReadTimeout, readTimeout),
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2:             http2Bounds(),
		ErrorLog:          slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
	}
	protocols := []string{"h2", "http/1.1"}
	if s.options.SingleRequest {
		protocols = protocols[1:]
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
		server.SetKeepAlivesEnabled(false)
	}
	if server.TLSConfig != nil {
		server.TLSConfig.NextProtos = protocols
	}
	return server
}

// http2Bounds bounds what a connection with HTTP/2 may send before a handler reads it.
func http2Bounds() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: 250, MaxReadFrameSize: maxFrameBytes,
		MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 64 << 10,
	}
}

// serveHTTP calls the handler. While draining it also asks the client to close the
// connection.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(connectionKey{}).(*connection)
	h, release := c.begin(w, headerBytes(r))
	defer release()
	if r.Body == nil || r.Body == http.NoBody {
		h.arrived()
	} else {
		defer h.arrived()
		r = withBody(r, h)
	}
	if s.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	s.options.Handler.ServeHTTP(w, r)
}

// protocol implements listen.Server.
type protocol struct{ *Server }

// Serve implements listen.Server.
func (p protocol) Serve(listener net.Listener) error {
	if p.options.Listener != nil {
		listener = p.options.Listener(listener)
	}
	listener, err := p.bound(listener)
	if err != nil {
		return err
	}
	if err := p.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// bound returns the listener with bounded connections and TLS.
func (s *Server) bound(inner net.Listener) (net.Listener, error) {
	config := s.http.TLSConfig
	if config == nil {
		return listener{inner, s}, nil
	}
	if len(config.Certificates) == 0 && config.GetCertificate == nil && config.GetConfigForClient == nil {
		return nil, errors.New("TLS without a certificate")
	}
	return newTLSListener(s, inner, config.Clone()), nil // Serve changes config
}

// Drain implements listen.Server.
func (p protocol) Drain() {
	p.draining.Store(true)
	if p.options.OnDrain != nil {
		p.options.OnDrain()
	}
}

// Shutdown implements listen.Server.
func (p protocol) Shutdown(ctx context.Context) error {
	if err := p.http.Shutdown(ctx); err != nil {
		return fmt.Errorf("requests on %s were cut off: %w", p.Addr(), errors.Join(err, p.http.Close()))
	}
	return nil
}
