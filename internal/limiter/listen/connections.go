// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package listen

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

// ConnectionBounds bound what clients can hold. A request is unfinished until it arrived completely.
type ConnectionBounds struct {
	// Bytes bounds the memory of unfinished requests in all. Beyond it the connection with the
	// most is closed.
	Bytes int64
	// BytesEach bounds the memory of the unfinished requests of one connection.
	BytesEach int64
	// Open bounds the connections of one port, Unserved those without a finished request. Beyond
	// it the client address with the most connections loses one.
	Open, Unserved int
}

// littleBytes are what a connection may add while closed ones still have their memory.
const littleBytes = 256 << 10

// DefaultConnectionBounds hold in all ports of a process together, Open and Unserved in each.
var DefaultConnectionBounds = ConnectionBounds{Bytes: 44 << 20, BytesEach: 40 << 20, Open: 4096, Unserved: 512}

// ConnectionOptions configure Connections. All are optional.
type ConnectionOptions struct {
	// Bounds are DefaultConnectionBounds if nil.
	Bounds     *ConnectionBounds
	Registerer prometheus.Registerer
	// Logger is slog.Default() if nil.
	Logger *slog.Logger
}

// Connections bounds what the clients of a process can hold in connections and unfinished
// requests. The ports of a process share it.
type Connections struct {
	bounds ConnectionBounds
	bytes  atomic.Int64
	closed *prometheus.CounterVec
	logger *slog.Logger
	logs   *rate.Limiter
	mu     sync.Mutex
	room   *sync.Cond // of mu: bytes were released by Remove
	open   map[*Connection]struct{}
	added  uint64
}

// NewConnections returns Connections and registers the metric.
func NewConnections(o ConnectionOptions) *Connections {
	c := &Connections{
		bounds: *cmp.Or(o.Bounds, &DefaultConnectionBounds),
		logger: cmp.Or(o.Logger, slog.Default()),
		logs:   rate.NewLimiter(rate.Every(time.Second), 1),
		open:   map[*Connection]struct{}{},
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

// Connection is an open connection of a client. Its methods may be called at the same time.
type Connection struct {
	all    *Connections
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
func (c *Connections) Add(port string, conn net.Conn) *Connection {
	added := &Connection{all: c, port: port, conn: conn}
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		added.source = tcp.AddrPort().Addr().Unmap()
	}
	c.mu.Lock()
	c.added++
	added.order = c.added
	c.open[added] = struct{}{}
	surplus := c.surplus(port)
	c.mu.Unlock()
	if surplus != nil {
		surplus.Close(ReasonConnections)
	}
	return added
}

// surplus returns the connection to close if too many of the port are open, else nil: one without a
// finished request if there is one, of the address with the most of them, the oldest.
func (c *Connections) surplus(port string) (surplus *Connection) {
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
	isCandidate := func(c *Connection) bool { return unserved == 0 || !c.served.Load() }
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
func (c *Connections) of(port string) iter.Seq[*Connection] {
	return func(yield func(*Connection) bool) {
		for connection := range c.open {
			if connection.port == port && !connection.closed.Load() && !yield(connection) {
				return
			}
		}
	}
}

// Served records that a request of the connection has finished.
func (c *Connection) Served() {
	if !c.served.Load() {
		c.served.Store(true)
	}
}

// Hold adds bytes of memory that an unfinished request takes; a negative number releases them. It
// may close this connection or another one, and then waits until the memory is free if this
// connection has more than a little.
func (c *Connection) Hold(bytes int64) {
	if bytes == 0 || c.closed.Load() {
		return
	}
	own, all := c.bytes.Add(bytes), c.all.bytes.Add(bytes)
	switch {
	case c.removed.Load():
		c.release()
	case bytes < 0:
	case own > c.all.bounds.BytesEach:
		c.Close(ReasonMemory)
	case all > c.all.bounds.Bytes:
		c.all.closeLargest()
		if own > littleBytes {
			c.awaitRoom()
		}
	}
}

// closeLargest closes connections with the most unfinished bytes until the others are within the
// bound.
func (c *Connections) closeLargest() {
	for {
		largest, total := c.largest()
		if largest == nil || total <= c.bounds.Bytes {
			return
		}
		largest.Close(ReasonMemory)
	}
}

// largest returns the connection with the most unfinished bytes, nil if none has any, and the bytes
// of all that were not closed.
func (c *Connections) largest() (largest *Connection, total int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := int64(0)
	for connection := range c.open {
		if connection.closed.Load() {
			continue
		}
		n := connection.bytes.Load()
		total += n
		if n > most {
			largest, most = connection, n
		}
	}
	return largest, total
}

// awaitRoom waits until closed connections have released enough.
func (c *Connection) awaitRoom() {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	for c.all.bytes.Load() > c.all.bounds.Bytes && !c.closed.Load() {
		c.all.room.Wait()
	}
}

// Close closes the connection for the reason, unless it was closed. The server then calls Remove.
func (c *Connection) Close(reason Reason) {
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
func (c *Connection) Remove() {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	delete(c.all.open, c)
	c.closed.Store(true)
	c.removed.Store(true)
	c.release()
	c.all.room.Broadcast()
}

// release releases all that the connection holds.
func (c *Connection) release() { c.all.bytes.Add(-c.bytes.Swap(0)) }
