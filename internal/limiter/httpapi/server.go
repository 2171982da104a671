// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

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
)

// How long a client may take. A check is small and decided within
// milliseconds; these bound what a slow or silent client can hold.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 10 * time.Second
	// idleTimeout is longer than the usual ones of proxies, so that the proxy
	// is the one to close: otherwise it may send on a connection just closed.
	idleTimeout = 2 * time.Minute
	// maxHeaderBytes leaves room for the forwarded headers of a request.
	maxHeaderBytes = 64 << 10

	defaultDrainTimeout = 10 * time.Second
)

// ServerOptions are what a server needs. Address and Handler are required.
type ServerOptions struct {
	// Address is what to listen on, as in ":8080"; port 0 takes any.
	Address string
	Handler http.Handler
	// TLS turns TLS on; it must be able to find a certificate.
	TLS *tls.Config
	// Logger hears of connections that failed, at level Debug; nil is
	// slog.Default().
	Logger *slog.Logger
	// LameDuck is how long the server goes on accepting after it was told to
	// stop, with /readyz failing, so that those who send to it can notice.
	LameDuck time.Duration
	// DrainTimeout is how long requests in flight may take after that; 0 is 10s.
	DrainTimeout time.Duration
}

// Server serves HTTP until its context ends, then drains.
type Server struct {
	options  ServerOptions
	address  atomic.Pointer[string]
	draining atomic.Bool
	after    func(time.Duration) <-chan time.Time
}

// NewServer returns a server that does not listen yet.
func NewServer(o ServerOptions) *Server {
	o.DrainTimeout = cmp.Or(o.DrainTimeout, defaultDrainTimeout)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return &Server{options: o, after: time.After}
}

// NewMetricsServer returns a server that serves the handler at /metrics and
// nothing else.
func NewMetricsServer(o ServerOptions) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", o.Handler)
	o.Handler = mux
	return NewServer(o)
}

// Addr returns the address the server listens on; empty until it does.
func (s *Server) Addr() string {
	if address := s.address.Load(); address != nil {
		return *address
	}
	return ""
}

// Start listens and serves until the context ends, then fails /readyz for the
// lame-duck time, stops accepting and finishes the requests in flight. It
// returns nil after a complete drain.
func (s *Server) Start(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.options.Address)
	if err != nil {
		return err
	}
	// Serving closes it, unless it could not even begin.
	defer func() { _ = listener.Close() }()
	s.address.Store(new(listener.Addr().String()))
	server := s.server()
	served := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			served <- server.ServeTLS(listener, "", "")
		} else {
			served <- server.Serve(listener)
		}
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.draining.Store(true)
	select {
	case err := <-served:
		return err
	case <-s.after(s.options.LameDuck):
	}
	return s.shutdown(context.WithoutCancel(ctx), server, served)
}

// shutdown finishes the requests in flight, or cuts them off when they take
// too long.
func (s *Server) shutdown(ctx context.Context, server *http.Server, served <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.DrainTimeout)
	defer cancel()
	err := server.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("requests on %s were cut off: %w", s.Addr(), errors.Join(err, server.Close()))
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// server returns the standard server with our bounds.
func (s *Server) server() *http.Server {
	return &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		TLSConfig:         s.options.TLS.Clone(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
	}
}

// serve is the handler, except that a draining server is not ready and asks
// every client to connect elsewhere.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		w.Header().Set(headerConnection, "close")
		if r.URL.Path == pathReady {
			writeText(w, http.StatusServiceUnavailable, "the server is draining")
			return
		}
	}
	s.options.Handler.ServeHTTP(w, r)
}
