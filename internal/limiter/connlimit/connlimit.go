// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connlimit bounds what clients can hold in connections and in requests that have not
// arrived completely. All ports of a process share one Set.
//
// Reading order: connlimit.go (connections), ranking.go (which one is closed), hold.go (the memory of their
// requests).
package connlimit

import (
	"cmp"
	"container/list"
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
	ports  map[string]*port
}

// New returns a Set and registers the metric.
func New(o Options) *Set {
	c := &Set{
		bounds: *cmp.Or(o.Bounds, &DefaultBounds),
		logger: cmp.Or(o.Logger, slog.Default()),
		logs:   rate.NewLimiter(rate.Every(time.Second), 1),
		open:   map[*Conn]struct{}{},
		ports:  map[string]*port{},
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
	served atomic.Bool
	// ofOpen and ofUnserved are the places in the port's rankings; nil if it is not there.
	ofOpen, ofUnserved *list.Element
	bytes              atomic.Int64
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
	surplus := c.add(added)
	added.Hold(c.bounds.UnservedBytes)
	if surplus != nil {
		surplus.Close(ReasonConnections)
	}
	return added
}

// add adds a connection, and returns the one to close instead, if any.
func (c *Set) add(added *Conn) (surplus *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[added] = struct{}{}
	p := c.ports[added.port]
	if p == nil {
		p = &port{}
		c.ports[added.port] = p
	}
	added.ofOpen, added.ofUnserved = p.open.add(added), p.unserved.add(added)
	if surplus = p.surplus(&c.bounds); surplus != nil {
		surplus.leave()
	}
	return surplus
}

// leave takes the connection, which is to be closed, out of the Set. The caller holds the lock.
func (c *Conn) leave() {
	delete(c.all.open, c)
	p := c.all.ports[c.port]
	if c.ofUnserved != nil {
		p.unserved.remove(c, c.ofUnserved)
	}
	if c.ofOpen != nil {
		p.open.remove(c, c.ofOpen)
	}
	c.ofOpen, c.ofUnserved = nil, nil
}

// Served records that a request of the connection has finished.
func (c *Conn) Served() {
	if c.served.Load() || c.served.Swap(true) {
		return
	}
	c.Hold(-c.all.bounds.UnservedBytes)
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.ofUnserved != nil {
		c.all.ports[c.port].unserved.remove(c, c.ofUnserved)
		c.ofUnserved = nil
	}
}

// Close closes the connection for the reason, unless it was closed. The server then calls Remove.
func (c *Conn) Close(reason Reason) {
	c.all.mu.Lock()
	was := c.closed.Swap(true)
	c.leave()
	c.all.room.Broadcast() // this connection may wait for room
	c.all.mu.Unlock()
	if was {
		return
	}
	c.all.closed.WithLabelValues(c.port, string(reason)).Inc() // before the client can see it
	_ = c.conn.Close()
	if c.all.logs.Allow() {
		c.all.logger.Warn("Closed a connection that held too much", "port", c.port, "reason", reason,
			"peer", c.conn.RemoteAddr().String(), "unfinishedBytes", c.bytes.Load())
	}
}

// Remove forgets the connection, which is closed and whose memory is free.
func (c *Conn) Remove() {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.leave()
	c.closed.Store(true)
	c.removed.Store(true)
	c.release()
	c.all.room.Broadcast()
}
