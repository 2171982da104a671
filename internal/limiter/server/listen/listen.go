// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listen runs a server on a TCP address until a context ends, then drains it.
// httpserver and grpcserver are built on it.
//
// Reading order: listen.go (one server), ports.go (the ports of a process).
package listen

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// Server is a protocol that a Listener runs.
type Server interface {
	// Serve accepts connections until Shutdown or an error. It returns nil after
	// Shutdown.
	Serve(listener net.Listener) error
	// Drain is called once, when draining begins. The server continues to accept, and
	// should ask its clients to connect elsewhere.
	Drain()
	// Shutdown stops accepting and finishes the requests in flight. When ctx ends, it
	// closes the remaining connections.
	Shutdown(ctx context.Context) error
}

// Options configure a Listener. Address is required.
type Options struct {
	// Address is the TCP address, as in ":8080"; port 0 takes any free port.
	Address string
	// DrainDelay is the time between Drain and Shutdown, in which load balancers can
	// notice that the server drains.
	DrainDelay time.Duration
	// DrainTimeout bounds Shutdown.
	DrainTimeout time.Duration
	// After is the clock of DrainDelay; nil is time.After.
	After func(time.Duration) <-chan time.Time
}

// Listener runs one Server.
type Listener struct {
	options Options
	bound   net.Listener // nil before Bind
	address atomic.Pointer[string]
}

// New returns a Listener that does not listen yet.
func New(o Options) *Listener {
	if o.After == nil {
		o.After = time.After
	}
	return &Listener{options: o}
}

// Addr returns the address in use; empty until it is bound.
func (l *Listener) Addr() string {
	if address := l.address.Load(); address != nil {
		return *address
	}
	return ""
}

// Bind binds the address, unless it is bound. Clients can then connect; Run answers them.
func (l *Listener) Bind(ctx context.Context) error {
	if l.bound != nil {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", l.options.Address)
	if err != nil {
		return err
	}
	l.bound = listener
	l.address.Store(new(listener.Addr().String()))
	return nil
}

// Close releases the address of a Listener that does not run.
func (l *Listener) Close() error {
	if l.bound == nil {
		return nil
	}
	return l.bound.Close()
}

// Run binds the address, unless Bind did, and serves until ctx ends, then drains: it calls Drain,
// waits DrainDelay, and calls Shutdown with DrainTimeout. It returns nil after a complete drain.
func (l *Listener) Run(ctx context.Context, server Server) error {
	if err := l.Bind(ctx); err != nil {
		return err
	}
	// Serve closes the listener, unless it fails before it accepts.
	defer func() { _ = l.bound.Close() }()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l.bound) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	server.Drain()
	select {
	case err := <-served:
		return err
	case <-l.options.After(l.options.DrainDelay):
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.options.DrainTimeout)
	defer cancel()
	return errors.Join(server.Shutdown(ctx), <-served)
}

// AcceptAll passes each connection to use until the listener is closed. It sends other errors to failed, and accepts again
// after each, unless done is closed.
func AcceptAll(from net.Listener, use func(net.Conn), failed chan<- error, done <-chan struct{}) {
	for {
		accepted, err := from.Accept()
		if err == nil {
			use(accepted)
			continue
		}
		select {
		case failed <- err:
		case <-done:
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}
