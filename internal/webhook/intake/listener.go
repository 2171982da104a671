// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/weir-dev/weir/internal/limiter/server/listen"
)

// listener accepts all connections at once and returns from Accept those to be served.
type listener struct {
	net.Listener
	in      *Intake
	serve   chan *conn // has room for every open connection
	failed  chan error
	done    chan struct{}
	mu      sync.Mutex
	sources map[netip.Addr]*source
	open    int
	closed  bool
}

// source holds the connections of one address.
type source struct {
	address netip.Addr
	served  int
	waiting []*conn
	bodies  *semaphore.Weighted // bytes
}

// conn is a connection that makes room for another one when it closes.
type conn struct {
	net.Conn
	listener  *listener
	source    *source
	requested atomic.Bool // headers were read
	close     sync.Once
}

func newListener(in *Intake, inner net.Listener) *listener {
	l := &listener{
		Listener: inner, in: in, sources: map[netip.Addr]*source{},
		serve: make(chan *conn, in.bounds.open), failed: make(chan error), done: make(chan struct{}),
	}
	go listen.AcceptAll(inner, l.add, l.failed, l.done)
	return l
}

// Accept implements net.Listener. It returns the next connection to be served.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.serve:
		return c, nil
	case err := <-l.failed:
		return nil, err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It also closes the connections that were not returned from
// Accept.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return net.ErrClosed
	}
	l.closed = true
	var unserved []*conn
	for _, s := range l.sources {
		unserved = append(unserved, s.waiting...)
		s.waiting = nil
	}
	l.mu.Unlock()
	close(l.done)
	err := l.Listener.Close()
	for _, c := range append(unserved, l.unaccepted()...) {
		_ = c.Conn.Close()
	}
	return err
}

// unaccepted returns the connections that Accept has not returned.
func (l *listener) unaccepted() (all []*conn) {
	for {
		select {
		case c := <-l.serve:
			all = append(all, c)
		default:
			return all
		}
	}
}

// add serves the connection, or lets it wait, or drops one if there are too many.
func (l *listener) add(inner net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = inner.Close()
		return
	}
	s := l.sourceOf(inner.RemoteAddr())
	s.waiting = append(s.waiting, &conn{Conn: inner, listener: l, source: s})
	l.open++
	// The newcomer waits until promote, so that a source with a waiting connection exists.
	if len(s.waiting) > l.in.bounds.waiting+l.in.bounds.served-s.served {
		l.dropNewest(s)
	} else if l.open > l.in.bounds.open {
		l.dropNewest(l.busiest())
	}
	l.promote(s)
}

// sourceOf returns the source of the address.
func (l *listener) sourceOf(address net.Addr) *source {
	var key netip.Addr // the zero value is the source of all that are not TCP
	if tcp, ok := address.(*net.TCPAddr); ok {
		key = tcp.AddrPort().Addr().Unmap()
	}
	s := l.sources[key]
	if s == nil {
		s = &source{address: key, bodies: semaphore.NewWeighted(l.in.bounds.fromSource)}
		l.sources[key] = s
	}
	return s
}

// promote serves connections of the source that wait, the oldest first.
func (l *listener) promote(s *source) {
	for len(s.waiting) > 0 && s.served < l.in.bounds.served {
		l.serve <- s.waiting[0]
		s.waiting = slices.Delete(s.waiting, 0, 1)
		s.served++
	}
	if s.served == 0 {
		delete(l.sources, s.address)
	}
}

// busiest returns the source with the most connections among those with a waiting one.
func (l *listener) busiest() (busiest *source) {
	for _, s := range l.sources {
		if len(s.waiting) > 0 && (busiest == nil || s.connections() > busiest.connections()) {
			busiest = s
		}
	}
	return busiest
}

func (s *source) connections() int { return s.served + len(s.waiting) }

func (l *listener) dropNewest(s *source) {
	last := len(s.waiting) - 1
	_ = s.waiting[last].Conn.Close()
	s.waiting = slices.Delete(s.waiting, last, last+1)
	l.open--
	l.in.rejected.WithLabelValues(reasonConnections).Inc()
	l.promote(s) // forgets the source without connections
}

// Close implements net.Conn. The next connection of the source is served.
func (c *conn) Close() error {
	c.close.Do(func() { c.listener.remove(c) })
	return c.Conn.Close()
}

// remove makes room for the next connection of the source.
func (l *listener) remove(c *conn) {
	if !c.requested.Load() {
		l.in.rejected.WithLabelValues(reasonIncomplete).Inc()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.source.served--
	l.open--
	l.promote(c.source)
}
