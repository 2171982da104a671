// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connlimit bounds what clients can hold in connections and in requests whose responses have not
// been sent. All ports of a process share one Set.
//
// A connection without a finished request and one with finished requests never close each other: both classes
// have bounds of their own. Beyond a bound the client address with the most loses a connection, so an address
// that holds less than an equal part of the bound loses nothing. Each event takes logarithmic time.
//
// Reading order: connlimit.go (the connections), hold.go (what they hold), requests.go (since when the oldest
// request waits), account.go (which connection is closed).
package connlimit

import (
	"cmp"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"
)

// Reason is why a connection was closed, as in docs/metrics.md.
type Reason string

const (
	// ReasonMemory is that unfinished requests took too much memory.
	ReasonMemory Reason = "memory"
	// ReasonTimeout is that a request did not arrive in time.
	ReasonTimeout Reason = "timeout"
	// ReasonConnections is that too many connections were open.
	ReasonConnections Reason = "connections"
)

// Bounds bound what the clients of a process can hold on all ports together.
type Bounds struct {
	// Unserved bounds the connections without a finished request, Served all others.
	Unserved, Served ClassBounds
	// BytesEach bounds the memory of the requests of one connection.
	BytesEach int64
	// UnservedBytes is the memory of each connection without a finished request, beside its requests.
	UnservedBytes int64
}

// ClassBounds bound the connections of one class and the bytes of memory that their requests hold.
type ClassBounds struct{ Connections, Bytes int64 }

// DefaultBounds hold on all ports of a process together.
var DefaultBounds = Bounds{
	Unserved:  ClassBounds{Connections: 400, Bytes: 16 << 20},
	Served:    ClassBounds{Connections: 4096, Bytes: 44 << 20},
	BytesEach: 40 << 20, UnservedBytes: 40 << 10,
}

// Options configure a Set. All are optional.
type Options struct {
	// Bounds are DefaultBounds if nil.
	Bounds     *Bounds
	Registerer prometheus.Registerer
	// Logger is slog.Default() if nil.
	Logger *slog.Logger
}

// Set bounds what the clients of a process can hold. The ports of a process share it.
type Set struct {
	bounds Bounds
	closed *prometheus.CounterVec
	logger *slog.Logger
	logs   *rate.Limiter

	mu               sync.Mutex
	unserved, served class
	freed            *sync.Cond // of mu: the memory of a closed connection is free
	// event numbers what happens, so that the set needs no clock to find what is oldest.
	event uint64
	// steps counts comparisons of connections, for tests.
	steps int
}

// New returns a Set and registers the metric.
func New(o Options) *Set {
	s := &Set{
		bounds: *cmp.Or(o.Bounds, &DefaultBounds),
		logger: cmp.Or(o.Logger, slog.Default()),
		logs:   rate.NewLimiter(rate.Every(time.Second), 1),
		closed: promauto.With(o.Registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "weir_closed_connections_total",
			Help: "Connections that Weir closed because the client held too much, by port and reason.",
		}, []string{"port", "reason"}),
	}
	s.unserved, s.served = newClass(s.bounds.Unserved), newClass(s.bounds.Served)
	s.freed = sync.NewCond(&s.mu)
	return s
}

// Conn is an open connection of a client. Its methods may be called at the same time.
type Conn struct {
	all    *Set
	port   string
	conn   net.Conn
	source netip.Addr

	// The fields below belong to the lock of all.

	class *class
	// connection and memory are what it holds in the accounts of its class.
	connection, memory holding
	bytes              int64 // of its requests
	requests           requests
	closed             bool
}

// Add adds a connection of the port, which is part of the metric. It closes another one if too many are open.
// The caller calls Remove when conn is closed.
func (s *Set) Add(port string, conn net.Conn) *Conn {
	added := &Conn{all: s, port: port, conn: conn}
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		added.source = tcp.AddrPort().Addr().Unmap()
	}
	s.add(added).close()
	return added
}

// add adds a connection, and returns the connections to close.
func (s *Set) add(added *Conn) (taken closings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.event++
	s.unserved.enter(added, s.event)
	added.update()
	s.unserved.takeSurplus(&taken)
	return taken
}

// Close closes the connection for the reason, unless it was closed. The server then calls Remove.
func (c *Conn) Close(reason Reason) { c.take(reason).close() }

// take takes the connection out of its class, and returns it unless it was closed.
func (c *Conn) take(reason Reason) (taken closings) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.leaveInto(&taken, reason)
	return taken
}

// leaveInto takes the connection out of its class and adds it to taken, unless it was closed. The caller holds the lock.
func (c *Conn) leaveInto(taken *closings, reason Reason) {
	if c.leave() {
		*taken = append(*taken, closing{Conn: c, reason: reason, bytes: c.memory.amount})
	}
}

// leave takes a connection that is to be closed out of its class, and reports whether it was in it. Its memory
// counts until Remove. The caller holds the lock.
func (c *Conn) leave() bool {
	if c.closed {
		return false
	}
	c.closed = true
	c.class.leave(c)
	c.class.leaving += c.memory.amount
	c.all.freed.Broadcast() // this connection may wait for memory
	return true
}

// Remove forgets the connection, which is closed and whose memory is free.
func (c *Conn) Remove() {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.leave()
	c.class.leaving -= c.memory.amount
	c.memory.amount = 0
	c.all.freed.Broadcast()
}

// closings are connections that left their class and are to be closed.
type closings []closing

type closing struct {
	*Conn
	reason Reason
	bytes  int64 // that it held
}

// close closes the connections. The caller does not hold the lock.
func (cs closings) close() {
	for _, c := range cs {
		c.all.closed.WithLabelValues(c.port, string(c.reason)).Inc() // before the client can see it
		_ = c.conn.Close()
		if c.all.logs.Allow() {
			c.all.logger.Warn("Closed a connection that held too much", "port", c.port, "reason", c.reason,
				"peer", c.conn.RemoteAddr().String(), "unfinishedBytes", c.bytes)
		}
	}
}
