// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"errors"
	"net"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// fakeListener accepts the connections and errors that a test sends.
type fakeListener struct {
	net.Listener
	conns chan *fakeConn
	errs  chan error
	done  chan struct{}
}

func (l *fakeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case err := <-l.errs:
		return nil, err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *fakeListener) Close() error { close(l.done); return nil }

type fakeConn struct {
	net.Conn
	from   string
	closed chan struct{}
}

func (c *fakeConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 1} }

func (c *fakeConn) Close() error { close(c.closed); return nil }

// bounded is a listener under test.
type bounded struct {
	*listener
	inner    *fakeListener
	accepted chan net.Conn
}

func bound(t *testing.T, b bounds) *bounded {
	t.Helper()
	inner := &fakeListener{conns: make(chan *fakeConn), errs: make(chan error), done: make(chan struct{})}
	l := &bounded{listener: newListener(newIntake(Options{Judged: 1}, b), inner), inner: inner, accepted: make(chan net.Conn, 100)}
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				l.accepted <- c
			}
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// connect opens a connection from the address.
func (l *bounded) connect(from string) *fakeConn {
	c := &fakeConn{from: from, closed: make(chan struct{})}
	l.inner.conns <- c
	return c
}

// state returns the open connections, and how many sources they have.
func (l *bounded) state() [2]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return [2]int{l.open, len(l.sources)}
}

func (l *bounded) next(g *WithT) *fakeConn {
	var c net.Conn
	g.Eventually(l.accepted).Should(Receive(&c))
	return c.(*conn).Conn.(*fakeConn)
}

func TestConnectionsOfASourceWaitForEachOther(t *testing.T) {
	g := NewWithT(t)
	l := bound(t, bounds{served: 1, waiting: 2, open: 10})
	first, second, third := l.connect("10.0.0.1"), l.connect("10.0.0.1"), l.connect("10.0.0.1")
	other := l.connect("10.0.0.2")
	var served net.Conn
	g.Eventually(l.accepted).Should(Receive(&served))
	g.Expect(served.(*conn).Conn).To(BeIdenticalTo(first))
	g.Expect(l.next(g)).To(BeIdenticalTo(other), "another source does not wait")

	g.Eventually(l.connect("10.0.0.1").closed).Should(BeClosed(), "two of a source wait, not three")
	g.Expect(testutil.ToFloat64(l.in.rejected.WithLabelValues(reasonConnections))).To(Equal(1.0))
	g.Expect(l.accepted).NotTo(Receive())
	g.Expect(served.Close()).To(Succeed())
	g.Expect(l.next(g)).To(BeIdenticalTo(second), "in the order of arrival")
	g.Expect(third.closed).NotTo(BeClosed())
	g.Expect(l.state()).To(Equal([2]int{3, 2}))
}

// At the bound of all connections, a source with few of them is not the one that loses.
func TestTheBusiestSourceLosesConnections(t *testing.T) {
	g := NewWithT(t)
	l := bound(t, bounds{served: 1, waiting: 10, open: 4})
	busy := []*fakeConn{l.connect("10.0.0.1"), l.connect("10.0.0.1"), l.connect("10.0.0.1")}
	g.Expect(l.next(g)).To(BeIdenticalTo(busy[0]))
	for _, from := range []string{"10.0.0.2", "10.0.0.3", "10.0.0.4"} {
		newcomer := l.connect(from)
		g.Expect(l.next(g)).To(BeIdenticalTo(newcomer))
	}
	g.Expect(busy[2].closed).To(BeClosed())
	g.Expect(busy[1].closed).To(BeClosed())
	g.Eventually(l.connect("10.0.0.5").closed).Should(BeClosed(), "all four are served")
	g.Expect(l.state()).To(Equal([2]int{4, 4}))
}

func TestSourcesAreSingleAddresses(t *testing.T) {
	g := NewWithT(t)
	l := bound(t, bounds{served: 1, waiting: 1, open: 100})
	for _, from := range []string{"192.0.2.1", "2001:db8::1", "2001:db8::2"} {
		c := l.connect(from)
		g.Expect(l.next(g)).To(BeIdenticalTo(c))
	}
	l.connect("::ffff:192.0.2.1") // an IPv4 client of a socket for both families
	l.connect("2001:db8::1")
	g.Eventually(l.state).Should(Equal([2]int{5, 3}))
	g.Expect(l.accepted).NotTo(Receive())
}

func TestSourcesAreForgotten(t *testing.T) {
	g := NewWithT(t)
	l := bound(t, bounds{served: 1, waiting: 1, open: 10})
	l.connect("10.0.0.1")
	l.connect("10.0.0.1")
	g.Eventually(l.connect("10.0.0.1").closed).Should(BeClosed(), "one waits, not two")
	for range 2 {
		var c net.Conn
		g.Eventually(l.accepted).Should(Receive(&c))
		g.Expect(c.Close()).To(Succeed())
	}
	g.Eventually(l.state).Should(Equal([2]int{0, 0}))
	g.Expect(testutil.ToFloat64(l.in.rejected.WithLabelValues(reasonIncomplete))).To(Equal(2.0))
}

func TestClosedListenerKeepsNoConnection(t *testing.T) {
	g := NewWithT(t)
	l := bound(t, bounds{served: 1, waiting: 1, open: 10})
	served, waiting := l.connect("10.0.0.1"), l.connect("10.0.0.1")
	g.Expect(l.next(g)).To(BeIdenticalTo(served))
	g.Expect(l.Close()).To(Succeed())
	g.Eventually(waiting.closed).Should(BeClosed())
	g.Expect(served.closed).NotTo(BeClosed(), "the server finishes it")
	_, err := l.Accept()
	g.Expect(err).To(MatchError(net.ErrClosed))
	g.Expect(l.Close()).To(MatchError(net.ErrClosed))
}

func TestListenerContinuesAfterAnError(t *testing.T) {
	g := NewWithT(t)
	l := bound(t, bounds{served: 1, waiting: 1, open: 10})
	l.inner.errs <- errors.New("too many open files")
	c := l.connect("10.0.0.1")
	g.Expect(l.next(g)).To(BeIdenticalTo(c))
}
