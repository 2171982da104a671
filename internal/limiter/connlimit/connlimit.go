// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connlimit bounds what clients can hold in connections and in requests that have not
// arrived completely. All ports of a process share one Set.
//
// Reading order: connlimit.go (connections), hold.go (the memory of their requests).
package connlimit

import (
	"cmp"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// Bounds bound what clients can hold. A request is unfinished until it arrived completely.
type Bounds struct {
	// Bytes bounds the memory of unfinished requests in all. Beyond it the connection with the
	// most is closed.
	Bytes int64
	// BytesEach bounds the memory of the unfinished requests of one connection.
	BytesEach int64
	// Open bounds the connections of one port, Unserved those without a finished request. Beyond
	// it the client address with the most connections loses one.
	Open, Unserved int
	// UnservedBytes is the memory of each connection without a finished request, as part of Bytes and
	// BytesEach.
	UnservedBytes int64
}

// DefaultBounds hold in all ports of a process together, Open and Unserved in each.
var DefaultBounds = Bounds{Bytes: 44 << 20, BytesEach: 40 << 20, Open: 4096, Unserved: 512, UnservedBytes: 40 << 10}

// Options configure a Set. All are optional.
type Options struct {
	// Bounds are DefaultBounds if nil.
	Bounds     *Bounds
	Registerer prometheus.Registerer
	// Logger is slog.Default() if nil.
	Logger *slog.Logger
}

// Set bounds what the clients of a process can hold in connections and unfinished
// requests. The ports of a process share it.
type Set struct {
	bounds Bounds
	bytes  atomic.Int64
	closed *prometheus.CounterVec
	logger *slog.Logger
	logs   *rate.Limiter
	mu     sync.Mutex
	room   *sync.Cond // of mu: bytes were released by Remove
	open   map[*Conn]struct{}
	added  uint64
}

// New returns a Set and registers the metric.
func New(o Options) *Set {
	c := &Set{
		bounds: *cmp.Or(o.Bounds, &DefaultBounds),
		logger: cmp.Or(o.Logger, slog.Default()),
		logs:   rate.NewLimiter(rate.Every(time.Second), 1),
		open:   map[*Conn]struct{}{},
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_closed_connections_total",
			Help: "Connections of clients that were closed because they held too much, by port and reason.",
		}, []string{"port", "reason"}),
	}
	c.room = sync.NewCond(&c.mu)
	if o.Registerer != nil {
		o.Registerer.MustRegister(c.closed)
	}
	return c
}

// Conn is an open connection of a client. Its methods may be called at the same time.
type Conn struct {
	all    *Set
	port   string
	conn   net.Conn
	source netip.Addr
	order  uint64 // of Add
	served atomic.Bool
	bytes  atomic.Int64
	// closed is that Close or Remove was called, removed that Remove was.
	closed, removed atomic.Bool
}

// Add adds a connection of the port, which is part of the metric. If too many are open, it closes
// one. The caller calls Remove when conn is closed.
func (c *Set) Add(port string, conn net.Conn) *Conn {
	added := &Conn{all: c, port: port, conn: conn}
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		added.source = tcp.AddrPort().Addr().Unmap()
	}
	c.mu.Lock()
	c.added++
	added.order = c.added
	c.open[added] = struct{}{}
	surplus := c.surplus(port)
	c.mu.Unlock()
	added.Hold(c.bounds.UnservedBytes)
	if surplus != nil {
		surplus.Close(ReasonConnections)
	}
	return added
}

// surplus returns the connection to close if too many of the port are open, else nil. If too many
// have no finished request, it is one of those. It is the oldest of the address with the most.
func (c *Set) surplus(port string) (surplus *Conn) {
	open, unserved := 0, 0
	for connection := range c.of(port) {
		open++
		if !connection.served.Load() {
			unserved++
		}
	}
	if unserved <= c.bounds.Unserved && open <= c.bounds.Open {
		return nil
	}
	sources := map[netip.Addr]int{}
	isCandidate := func(candidate *Conn) bool { return unserved <= c.bounds.Unserved || !candidate.served.Load() }
	for connection := range c.of(port) {
		if isCandidate(connection) {
			sources[connection.source]++
		}
	}
	for connection := range c.of(port) {
		if isCandidate(connection) && (surplus == nil || cmp.Or(
			cmp.Compare(sources[connection.source], sources[surplus.source]),
			cmp.Compare(surplus.order, connection.order),
		) > 0) {
			surplus = connection
		}
	}
	return surplus
}

// of returns the connections of the port that were not closed.
func (c *Set) of(port string) iter.Seq[*Conn] {
	return func(yield func(*Conn) bool) {
		for connection := range c.open {
			if connection.port == port && !connection.closed.Load() && !yield(connection) {
				return
			}
		}
	}
}

// Served records that a request of the connection has finished.
func (c *Conn) Served() {
	if !c.served.Load() && !c.served.Swap(true) {
		c.Hold(-c.all.bounds.UnservedBytes)
	}
}

// Close closes the connection for the reason, unless it was closed. The server then calls Remove.
func (c *Conn) Close(reason Reason) {
	c.all.mu.Lock()
	was := c.closed.Swap(true)
	c.all.room.Broadcast() // this connection may wait for room
	c.all.mu.Unlock()
	if was {
		return
	}
	_ = c.conn.Close()
	c.all.closed.WithLabelValues(c.port, string(reason)).Inc()
	if c.all.logs.Allow() {
		c.all.logger.Warn("Closed a connection that held too much", "port", c.port, "reason", reason,
			"peer", c.conn.RemoteAddr().String(), "unfinishedBytes", c.bytes.Load())
	}
}

// Remove forgets the connection, which is closed and whose memory is free.
func (c *Conn) Remove() {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	delete(c.all.open, c)
	c.closed.Store(true)
	c.removed.Store(true)
	c.release()
	c.all.room.Broadcast()
}
