// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// fakeConn is a connection of an address.
type fakeConn struct {
	net.Conn
	address string
	closed  atomic.Bool
	removed func() // is called by Close; may be nil
}

func (c *fakeConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.address), Port: 1}
}

func (c *fakeConn) Close() error {
	c.closed.Store(true)
	if c.removed != nil {
		c.removed()
	}
	return nil
}

func newSet(b Bounds) (set *Set, log *bytes.Buffer) {
	log = &bytes.Buffer{}
	return New(Options{Bounds: &b, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(log, nil))}), log
}

func add(s *Set, address string) (*Conn, *fakeConn) {
	c := &fakeConn{address: address}
	return s.Add("http", c), c
}

// addServed adds a connection that has finished one request.
func addServed(s *Set, address string) (*Conn, *fakeConn) {
	c, conn := add(s, address)
	c.Begin(1, 0)
	c.Finish(1, 0)
	return c, conn
}

// roomy are bounds that are reached in no test that does not change them.
var roomy = ClassBounds{Connections: 1000, Bytes: 1 << 40}

func boundsOf(unserved, served ClassBounds) Bounds {
	return Bounds{Unserved: unserved, Served: served, BytesEach: 1 << 40}
}

// Of the address with the most bytes, the connection whose oldest request waits longest is closed, even if another one holds more.
func TestServedConnectionThatWaitsLongestIsClosed(t *testing.T) {
	g := NewWithT(t)
	s, log := newSet(boundsOf(roomy, ClassBounds{Connections: 10, Bytes: 100}))
	stuck, stuckConn := addServed(s, "192.0.2.1")
	busy, busyConn := addServed(s, "192.0.2.1")
	other, otherConn := addServed(s, "192.0.2.2")
	other.Begin(1, 30)
	stuck.Begin(1, 10)
	busy.Begin(1, 50)
	for request := uint32(2); request < 100; request++ {
		busy.Begin(request, 10)
		busy.Finish(request-1, 10)
	}
	g.Expect(stuckConn.closed.Load()).To(BeFalse())
	busy.Hold(11)
	g.Expect(stuckConn.closed.Load()).To(BeTrue())
	g.Expect(busyConn.closed.Load()).To(BeFalse())
	g.Expect(otherConn.closed.Load()).To(BeFalse(), "its address holds less")
	g.Expect(testutil.ToFloat64(s.closed.WithLabelValues("http", "memory"))).To(Equal(1.0))
	g.Expect(strings.Count(log.String(), "\n")).To(Equal(1))
	g.Expect(log.String()).To(ContainSubstring("unfinishedBytes=10"))
}

func TestBytesOfOneConnectionAreBounded(t *testing.T) {
	g := NewWithT(t)
	b := boundsOf(roomy, roomy)
	b.BytesEach = 90
	s, _ := newSet(b)
	c, conn := addServed(s, "192.0.2.1")
	c.Begin(1, 90)
	g.Expect(conn.closed.Load()).To(BeFalse())
	c.Hold(1)
	g.Expect(conn.closed.Load()).To(BeTrue())
	c.Hold(5)
	c.Finish(1, 90)
	g.Expect(s.served.leaving).To(Equal(int64(91)))
	c.Remove()
	c.Remove()
	c.Hold(5)
	g.Expect(s.served.leaving).To(BeZero())
	g.Expect(s.served.bytes.total).To(BeZero())
	g.Expect(s.served.connections.total).To(BeZero())
}

// A connection with much waits until closed ones have released their memory.
func TestHoldWaitsForClosedConnections(t *testing.T) {
	g := NewWithT(t)
	s, _ := newSet(boundsOf(roomy, ClassBounds{Connections: 10, Bytes: 4 << 20}))
	oldest, oldestConn := addServed(s, "192.0.2.1")
	waiting, _ := addServed(s, "192.0.2.1")
	oldest.Begin(1, 3<<20)
	done := make(chan struct{})
	go func() {
		waiting.Begin(1, 2<<20)
		close(done)
	}()
	g.Eventually(oldestConn.closed.Load, "30s").Should(BeTrue())
	g.Consistently(done, "50ms").ShouldNot(BeClosed())
	oldest.Remove()
	g.Eventually(done, "30s").Should(BeClosed())
}

// Connections without a finished request are bounded on all ports together, and close no other ones.
func TestUnservedConnectionsCloseUnservedOnes(t *testing.T) {
	g := NewWithT(t)
	b := boundsOf(ClassBounds{Connections: 3, Bytes: 1000}, ClassBounds{Connections: 2, Bytes: 100})
	b.UnservedBytes = 300
	s, _ := newSet(b)
	served, servedConn := addServed(s, "192.0.2.1")
	served.Begin(1, 100)
	_, lone := add(s, "192.0.2.2")
	_, oldest := add(s, "192.0.2.1")
	s.Add("grpc", &fakeConn{address: "192.0.2.1"})
	g.Expect(oldest.closed.Load()).To(BeFalse())
	newest, newestConn := add(s, "192.0.2.1")
	g.Expect(oldest.closed.Load()).To(BeTrue(), "of the address with the most, the oldest")
	newest.Hold(101)
	g.Expect(testutil.ToFloat64(s.closed.WithLabelValues("grpc", "memory"))).To(Equal(1.0), "then the next oldest")
	for _, c := range []*fakeConn{servedConn, lone, newestConn} {
		g.Expect(c.closed.Load()).To(BeFalse())
	}
}

// Of the address with the most connections, the one that finished no request for longest is closed.
func TestIdleServedConnectionIsClosed(t *testing.T) {
	g := NewWithT(t)
	s, _ := newSet(boundsOf(roomy, ClassBounds{Connections: 3, Bytes: 100}))
	_, lone := addServed(s, "192.0.2.2")
	busy, busyConn := addServed(s, "192.0.2.1")
	_, idle := addServed(s, "192.0.2.1")
	busy.Begin(1, 5)
	busy.Finish(1, 5)
	_, newcomer := addServed(s, "192.0.2.3")
	g.Expect(idle.closed.Load()).To(BeTrue())
	for _, c := range []*fakeConn{lone, busyConn, newcomer} {
		g.Expect(c.closed.Load()).To(BeFalse())
	}
}

// simulated is a connection of a simulation, with what it should hold.
type simulated struct {
	*Conn
	fake    *fakeConn
	since   int // the event with which it came or finished its last request
	next    uint32
	waiting map[uint32]int64 // bytes by request
}

// simulation makes random events, and knows what the connections should hold.
type simulation struct {
	set    *Set
	events int
	open   []*simulated
}

// step makes one event. It returns the connections that it closed, which are still in open.
func (s *simulation) step() (closed []*simulated) {
	s.events++
	if n := rand.IntN(len(s.open) + 5); n < len(s.open) {
		s.change(n)
	} else {
		c, fake := add(s.set, fmt.Sprintf("192.0.2.%d", rand.IntN(5)*rand.IntN(2)))
		s.open = append(s.open, &simulated{Conn: c, fake: fake, since: s.events, waiting: map[uint32]int64{}})
	}
	for _, c := range s.open {
		if c.fake.closed.Load() {
			closed = append(closed, c)
		}
	}
	return closed
}

// change changes what the i-th connection holds.
func (s *simulation) change(i int) {
	c := s.open[i]
	switch n := rand.IntN(20); {
	case n == 0:
		c.Remove()
		s.open = slices.Delete(s.open, i, i+1)
	case n < 12:
		change := Change{}
		for range 1 + rand.IntN(3) {
			c.next++
			c.waiting[c.next] = int64(rand.IntN(30))
			change.Begun = append(change.Begun, c.next)
			change.Bytes += c.waiting[c.next]
		}
		c.Apply(&change)
	default:
		change := Change{}
		for request, bytes := range c.waiting {
			if n < 14 {
				change.Abandoned = append(change.Abandoned, request)
			} else {
				c.since = s.events
				change.Finished = append(change.Finished, request)
			}
			change.Bytes -= bytes
			delete(c.waiting, request)
			if rand.IntN(2) == 0 {
				break
			}
		}
		c.Apply(&change)
	}
}

// held returns what the connections of the class hold, by address and together.
func (s *simulation) held(cl *class, bytes bool) (amounts map[string]int64, total int64) {
	amounts = map[string]int64{}
	for _, c := range s.open {
		if c.class != cl {
			continue
		}
		amount := int64(1)
		if bytes {
			amount = 0
			for _, n := range c.waiting {
				amount += n
			}
			if cl == &s.set.unserved {
				amount += s.set.bounds.UnservedBytes
			}
		}
		amounts[c.fake.address] += amount
		total += amount
	}
	return amounts, total
}

// An address that holds less than an equal part of a bound loses nothing, and no connection is closed below the bounds.
func TestAddressesBelowTheirShareLoseNothing(t *testing.T) {
	for _, bytes := range []bool{false, true} {
		g := NewWithT(t)
		b := boundsOf(ClassBounds{Connections: 9, Bytes: 1 << 40}, ClassBounds{Connections: 12, Bytes: 1 << 40})
		if bytes {
			b = boundsOf(ClassBounds{Connections: 1000, Bytes: 400}, ClassBounds{Connections: 1000, Bytes: 300})
			b.UnservedBytes = 20
		}
		set, _ := newSet(b)
		s, closed := &simulation{set: set}, map[*class]int{}
		for range 20_000 {
			victims := s.step()
			for _, c := range victims {
				account := &c.class.connections
				if bytes {
					account = &c.class.bytes
				}
				amounts, total := s.held(c.class, bytes)
				g.Expect(total).To(BeNumerically(">", account.bound))
				g.Expect(amounts[c.fake.address]*int64(len(amounts))).To(BeNumerically(">", account.bound), "below its share")
				for _, other := range s.open {
					if !bytes && other.class == c.class && other.fake.address == c.fake.address {
						g.Expect(other.since).To(BeNumerically(">=", c.since))
					}
				}
				closed[c.class]++
			}
			for _, c := range victims {
				c.Remove()
				s.open = slices.DeleteFunc(s.open, func(other *simulated) bool { return other == c })
			}
			for _, cl := range []*class{&set.unserved, &set.served} {
				_, connections := s.held(cl, false)
				_, held := s.held(cl, true)
				g.Expect(cl.connections.total).To(And(Equal(connections), BeNumerically("<=", cl.connections.bound)))
				g.Expect(cl.bytes.total).To(And(Equal(held), BeNumerically("<=", cl.bytes.bound)))
			}
		}
		g.Expect(closed[&set.unserved]).To(BeNumerically(">", 100))
		g.Expect(closed[&set.served]).To(BeNumerically(">", 100))
	}
}

// Behind one address, thousands of connections that sent a part of a request do not close the busy one.
func TestPartsOfRequestsDoNotCloseABusyConnection(t *testing.T) {
	g := NewWithT(t)
	s, _ := newSet(DefaultBounds)
	const callers = 32
	busy, busyConn := addServed(s, "192.0.2.1")
	for request := range uint32(callers) {
		busy.Begin(request+2, 8<<10)
	}
	closed := 0
	for request := range uint32(DefaultBounds.Served.Connections) {
		c, conn := addServed(s, "192.0.2.1")
		conn.removed = c.Remove
		c.Begin(1, 16<<10+6)
		busy.Begin(request+2+callers, 8<<10)
		busy.Finish(request+2, 8<<10)
		closed = int(testutil.ToFloat64(s.closed.WithLabelValues("http", "memory")))
	}
	g.Expect(closed).To(BeNumerically(">", 1000), "the attack exceeds the bound")
	g.Expect(busyConn.closed.Load()).To(BeFalse())
}

// The steps of an event grow with the logarithm of the connections.
func TestStepsOfAnEventAreFew(t *testing.T) {
	for _, addresses := range []int{1, 64, 1 << 20} {
		t.Run(fmt.Sprint(addresses, " addresses"), func(t *testing.T) {
			g := NewWithT(t)
			for _, connections := range []int64{512, 1024, 2048, 4096} {
				most := ClassBounds{Connections: connections, Bytes: connections << 10}
				s, _ := newSet(boundsOf(most, most))
				event := func() {
					n := rand.IntN(addresses)
					c, conn := addServed(s, fmt.Sprintf("10.%d.%d.%d", n>>16, byte(n>>8), byte(n)))
					conn.removed = c.Remove
					c.Begin(2, 2<<10)
				}
				for range 2 * connections {
					event()
				}
				before := s.steps
				for range 1000 {
					event()
				}
				each := (s.steps - before) / 1000
				t.Log(connections, "connections:", each, "steps")
				g.Expect(each).To(BeNumerically("<", 40*bits.Len64(uint64(connections))))
			}
		})
	}
}

// The oldest request is found in constant memory: of a busy connection within the time that two generations take, and a
// request that does not end makes the connection old.
func TestOldestRequest(t *testing.T) {
	g := NewWithT(t)
	var r requests
	const callers = 32
	event, request := uint64(0), uint32(0)
	beginAndEnd := func() {
		event++
		request++
		r.begin(request, event)
		r.end(request-callers, event)
	}
	for range callers {
		request++
		r.begin(request, event)
	}
	for range 10_000 {
		beginAndEnd()
		g.Expect(event - r.older.since).To(BeNumerically("<=", 3*callers))
	}
	request++
	r.begin(request, event)
	began := event
	for range callers {
		r.end(request-callers, event)
		request++
		r.begin(request, event)
	}
	for range 10_000 {
		event++
		r.begin(request+1, event)
		r.end(request, event)
		request++
	}
	g.Expect(r.older.since).To(BeNumerically("<=", began))
}

// An attacker opens thousands of connections a second, from many addresses.
func BenchmarkAddBeyondTheBound(b *testing.B) {
	s := New(Options{Logger: slog.New(slog.DiscardHandler)})
	for i := 0; b.Loop(); i++ {
		s.Add("http", &fakeConn{address: fmt.Sprintf("10.0.%d.%d", i%32, i%251)})
	}
}

// A busy connection begins and finishes its requests beside thousands of idle ones.
func BenchmarkRequest(b *testing.B) {
	s := New(Options{Logger: slog.New(slog.DiscardHandler)})
	for range 4000 {
		addServed(s, "192.0.2.1")
	}
	c, _ := addServed(s, "192.0.2.1")
	for request := uint32(1); b.Loop(); request++ {
		c.Begin(request, 4<<10)
		c.Finish(request, 4<<10)
	}
}
