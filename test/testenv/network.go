// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Network forwards TCP connections to a server, and can fail like a network. All methods apply to
// existing and to later connections.
type Network struct {
	// Addr is the address of the network, host:port.
	Addr string

	server   string
	listener net.Listener
	delay    atomic.Int64 // of each chunk towards the client, in nanoseconds
	lossy    atomic.Bool  // nothing is forwarded
	resets   atomic.Bool  // replies are cut

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// StartNetwork starts a network in front of the server at host:port. It stops with the test.
func StartNetwork(tb testing.TB, server string) *Network {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("network: %v", err)
	}
	p := &Network{Addr: listener.Addr().String(), server: server, listener: listener, conns: map[net.Conn]struct{}{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.serve(client) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.Cut()
		running.Wait()
	})
	return p
}

// BlackHole swallows all bytes, in both directions, until Heal. Connections stay open.
func (p *Network) BlackHole() { p.lossy.Store(true) }

// Delay delays every reply by d until Heal.
func (p *Network) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// ResetReplies resets each connection in the middle of its next reply, until Heal. The server has
// then executed the command.
func (p *Network) ResetReplies() { p.resets.Store(true) }

// Heal ends all faults. Connections whose bytes were swallowed are reset, as their ends would
// otherwise disagree on what was sent.
func (p *Network) Heal() {
	p.delay.Store(0)
	p.resets.Store(false)
	if p.lossy.Swap(false) {
		p.Cut()
	}
}

// Cut resets all connections.
func (p *Network) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		reset(conn)
	}
}

// reset closes the connection with a TCP reset.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// track registers the connection, so that Cut finds it. It reports false after the test.
func (p *Network) track(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.conns[conn] = struct{}{}
	}
	return !p.closed
}

func (p *Network) forget(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// serve forwards one connection until one of its ends closes.
func (p *Network) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		reset(client)
		return
	}
	defer func() {
		for _, conn := range []net.Conn{client, server} {
			p.forget(conn)
			reset(conn)
		}
	}()
	if !p.track(client) || !p.track(server) {
		return
	}
	var wait sync.WaitGroup
	wait.Go(func() { p.pipe(server, client, false); reset(server) })
	wait.Go(func() { p.pipe(client, server, true); reset(client) })
	wait.Wait()
}

// pipe forwards what it reads. replies is true for the direction of the client.
func (p *Network) pipe(to, from net.Conn, replies bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		chunk := buffer[:n]
		if replies {
			time.Sleep(time.Duration(p.delay.Load()))
			if p.resets.Load() && len(chunk) > 1 {
				chunk = chunk[:len(chunk)/2]
			}
		}
		if p.lossy.Load() {
			continue
		}
		if _, err := to.Write(chunk); err != nil || len(chunk) < n {
			return
		}
	}
}
