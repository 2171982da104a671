// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"context"
	"net"
	"testing"

	. "github.com/onsi/gomega"
)

// portServer is a Listener with a fakeServer.
type portServer struct {
	*Listener
	server *fakeServer
}

func (s portServer) Start(ctx context.Context) error { return s.Run(ctx, s.server) }

func newPort(flag, address string) Port {
	return Port{Flag: flag, Address: address, Server: portServer{New(Options{Address: address}), newFakeServer()}}
}

func TestBindNamesTheTakenPortAndReleasesTheOthers(t *testing.T) {
	g := NewWithT(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = taken.Close() }()
	first := newPort("--first", "127.0.0.1:0")
	g.Expect(Bind(t.Context(), first, newPort("--second", taken.Addr().String()))).
		To(MatchError(`--second "` + taken.Addr().String() + `": address already in use`))

	released := first.Server.(portServer).Addr()
	again, err := net.Listen("tcp", released)
	g.Expect(err).NotTo(HaveOccurred(), "the first port was released")
	g.Expect(again.Close()).To(Succeed())
}

// Clients can connect to a bound port before it serves.
func TestBoundPortIsServedLater(t *testing.T) {
	g := NewWithT(t)
	p := newPort("--first", "127.0.0.1:0")
	g.Expect(Bind(t.Context(), p)).To(Succeed())
	server := p.Server.(portServer)
	address := server.Addr()
	client, err := net.Dial("tcp", address)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(client.Close()).To(Succeed())
	g.Expect(server.server.steps).NotTo(Receive())

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()
	g.Eventually(server.server.steps).Should(Receive(Equal("serve")))
	g.Expect(server.Addr()).To(Equal(address))
	stop()
	g.Eventually(ended, "30s").Should(Receive(MatchError(ContainSubstring("--first"))), "Shutdown of the fake has no time left")
}
