// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// fakeServer reports each step and waits until Shutdown.
type fakeServer struct {
	steps chan string
	stop  chan struct{}
	fails error // if not nil, Serve returns it at once
}

func newFakeServer() *fakeServer {
	return &fakeServer{steps: make(chan string, 10), stop: make(chan struct{})}
}

func (s *fakeServer) Serve(net.Listener) error {
	s.steps <- "serve"
	if s.fails != nil {
		return s.fails
	}
	<-s.stop
	return nil
}

func (s *fakeServer) Drain() { s.steps <- "drain" }

func (s *fakeServer) Shutdown(ctx context.Context) error {
	s.steps <- "shutdown"
	close(s.stop)
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("no deadline")
	}
	return ctx.Err()
}

func TestRunDrainsBeforeItShutsDown(t *testing.T) {
	g := NewWithT(t)
	server, drainDelay := newFakeServer(), make(chan time.Time)
	l := New(Options{
		Address: "127.0.0.1:0", DrainDelay: time.Hour, DrainTimeout: time.Minute,
		After: func(d time.Duration) <-chan time.Time {
			g.Expect(d).To(Equal(time.Hour))
			return drainDelay
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, server) }()
	g.Eventually(server.steps).Should(Receive(Equal("serve")))
	g.Expect(l.Addr()).To(HavePrefix("127.0.0.1:"))
	stop()
	g.Eventually(server.steps).Should(Receive(Equal("drain")))
	g.Consistently(server.steps, "50ms").ShouldNot(Receive())
	drainDelay <- time.Time{}
	g.Eventually(server.steps).Should(Receive(Equal("shutdown")))
	g.Eventually(ended).Should(Receive(BeNil()))
}

func TestRunReturnsServeError(t *testing.T) {
	g := NewWithT(t)
	server := newFakeServer()
	server.fails = errors.New("no certificate")
	l := New(Options{Address: "127.0.0.1:0"})
	g.Expect(l.Run(t.Context(), server)).To(MatchError("no certificate"))
	g.Expect(server.steps).To(Receive(Equal("serve")))
	g.Expect(server.steps).NotTo(Receive(), "a server that failed is not drained")
}

func TestRunReportsAddressInUse(t *testing.T) {
	g := NewWithT(t)
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = taken.Close() }()
	l := New(Options{Address: taken.Addr().String()})
	g.Expect(l.Run(t.Context(), newFakeServer())).To(MatchError(ContainSubstring("address already in use")))
	g.Expect(l.Addr()).To(BeEmpty())
}
