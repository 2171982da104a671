// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"bytes"
	"fmt"
	"log/slog"
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
}

func (c *fakeConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.address), Port: 1}
}

func (c *fakeConn) Close() error {
	c.closed.Store(true)
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

func TestLargestConnectionIsClosed(t *testing.T) {
	g := NewWithT(t)
	s, log := newSet(Bounds{Bytes: 100, BytesEach: 90, Open: 10, Unserved: 10})
	small, smallConn := add(s, "192.0.2.1")
	large, largeConn := add(s, "192.0.2.1")
	small.Hold(10)
	large.Hold(80)
	g.Expect(largeConn.closed.Load()).To(BeFalse())
	small.Hold(11)
	g.Expect(largeConn.closed.Load()).To(BeTrue())
	g.Expect(smallConn.closed.Load()).To(BeFalse())
	g.Expect(testutil.ToFloat64(s.closed.WithLabelValues("http", "memory"))).To(Equal(1.0))
	large.Hold(50)
	large.Remove()
	large.Hold(50)
	small.Hold(-21)
	g.Expect(s.bytes.Load()).To(BeZero())
	small.Hold(91)
	g.Expect(smallConn.closed.Load()).To(BeTrue(), "beyond the bound of one connection")
	g.Expect(strings.Count(log.String(), "\n")).To(Equal(1), "one log line a second")
}

// A connection with much waits until closed ones have released their memory.
func TestHoldWaitsForClosedConnections(t *testing.T) {
	g := NewWithT(t)
	s, _ := newSet(Bounds{Bytes: 4 << 20, BytesEach: 4 << 20, Open: 10, Unserved: 10})
	waiting, _ := add(s, "192.0.2.1")
	largest, largestConn := add(s, "192.0.2.1")
	largest.Hold(3 << 20)
	done := make(chan struct{})
	go func() {
		waiting.Hold(2 << 20)
		close(done)
	}()
	g.Eventually(largestConn.closed.Load).Should(BeTrue())
	g.Consistently(done, "50ms").ShouldNot(BeClosed())
	largest.Remove()
	g.Eventually(done).Should(BeClosed())
}

func TestUnservedConnectionsAreClosedFirst(t *testing.T) {
	g := NewWithT(t)
	s, _ := newSet(Bounds{Bytes: 100, BytesEach: 100, Open: 4, Unserved: 3})
	served, servedConn := add(s, "192.0.2.1")
	served.Served()
	_, lone := add(s, "192.0.2.2")
	_, oldest := add(s, "192.0.2.1")
	_, newer := add(s, "192.0.2.1")
	g.Expect(oldest.closed.Load()).To(BeFalse())
	_, newest := add(s, "192.0.2.1")
	g.Expect(oldest.closed.Load()).To(BeTrue(), "of the address with the most, the oldest")
	for _, c := range []*fakeConn{servedConn, lone, newer, newest} {
		g.Expect(c.closed.Load()).To(BeFalse())
	}
	s.Add("grpc", &fakeConn{address: "192.0.2.1"})
	g.Expect(newer.closed.Load()).To(BeFalse(), "each port has its own")
}

func TestServedConnectionsAreBounded(t *testing.T) {
	g := NewWithT(t)
	s, _ := newSet(Bounds{Bytes: 100, BytesEach: 100, Open: 3, Unserved: 3})
	var conns []*fakeConn
	for _, address := range []string{"192.0.2.2", "192.0.2.1", "192.0.2.1"} {
		c, conn := add(s, address)
		c.Served()
		conns = append(conns, conn)
	}
	_, newcomer := add(s, "192.0.2.3")
	g.Expect(conns[1].closed.Load()).To(BeTrue(), "of the address with the most, the oldest")
	for _, c := range []*fakeConn{conns[0], conns[2], newcomer} {
		g.Expect(c.closed.Load()).To(BeFalse())
	}
}

// A connection counts memory once, until its first request has finished.
func TestUnservedConnectionsHoldMemory(t *testing.T) {
	g := NewWithT(t)
	s, _ := newSet(Bounds{Bytes: 100, BytesEach: 100, Open: 10, Unserved: 10, UnservedBytes: 30})
	served, servedConn := add(s, "192.0.2.1")
	served.Served()
	served.Served()
	g.Expect(s.bytes.Load()).To(BeZero())
	var conns []*fakeConn
	for range 4 {
		_, conn := add(s, "192.0.2.1")
		conns = append(conns, conn)
	}
	g.Expect(servedConn.closed.Load()).To(BeFalse())
	g.Expect(slices.IndexFunc(conns, func(c *fakeConn) bool { return c.closed.Load() })).NotTo(Equal(-1))
	served.Remove()
	served.Served()
	g.Expect(s.bytes.Load()).To(Equal(int64(120)), "until the closed one is removed")
}

// TestClosedConnectionsAreTheRightOnes compares random connections with a simple search for the one to close.
func TestClosedConnectionsAreTheRightOnes(t *testing.T) {
	g := NewWithT(t)
	bounds := Bounds{Bytes: 1 << 30, BytesEach: 1 << 30, Open: 12, Unserved: 6}
	s, _ := newSet(bounds)
	type known struct {
		*Conn
		fake   *fakeConn
		served bool
	}
	var open []*known // the oldest first
	for range 5000 {
		switch n := rand.IntN(10); {
		case n < 6:
			c, fake := add(s, fmt.Sprintf("192.0.2.%d", rand.IntN(5)))
			open = append(open, &known{Conn: c, fake: fake})
		case len(open) == 0:
			continue
		case n < 8:
			k := open[rand.IntN(len(open))]
			k.Served()
			k.served = true
		default:
			i := rand.IntN(len(open))
			open[i].Remove()
			open = slices.Delete(open, i, i+1)
		}
		isUnserved := func(k *known) bool { return !k.served }
		of := func(*known) bool { return true }
		switch unserved := count(open, isUnserved); {
		case unserved > bounds.Unserved:
			of = isUnserved
		case len(open) <= bounds.Open:
			g.Expect(count(open, func(k *known) bool { return k.fake.closed.Load() })).To(BeZero())
			continue
		}
		i := slices.IndexFunc(open, func(k *known) bool { return k.fake.closed.Load() })
		g.Expect(i).NotTo(Equal(-1))
		closed := open[i]
		sameAddress := func(address string) func(*known) bool {
			return func(k *known) bool { return of(k) && k.fake.address == address }
		}
		for _, k := range open {
			g.Expect(count(open, sameAddress(k.fake.address))).To(BeNumerically("<=", count(open, sameAddress(closed.fake.address))))
		}
		g.Expect(slices.IndexFunc(open, sameAddress(closed.fake.address))).To(Equal(i), "the oldest of its address")
		closed.Remove()
		open = slices.Delete(open, i, i+1)
		g.Expect(count(open, func(k *known) bool { return k.fake.closed.Load() })).To(BeZero(), "only one is closed")
	}
}

func count[T any](all []T, is func(T) bool) (n int) {
	for _, one := range all {
		if is(one) {
			n++
		}
	}
	return n
}

// An attacker opens thousands of connections a second, from many addresses.
func BenchmarkAddBeyondTheBound(b *testing.B) {
	bounds := DefaultBounds
	bounds.UnservedBytes = 0
	s := New(Options{Bounds: &bounds, Logger: slog.New(slog.DiscardHandler)})
	for i := 0; b.Loop(); i++ {
		s.Add("http", &fakeConn{address: fmt.Sprintf("10.0.%d.%d", i%32, i%251)})
	}
}
