// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
)

// proxy forwards between clients and one server. It counts the INCRs and can lose the
// reply to one.
type proxy struct {
	addr   string
	server string

	mu    sync.Mutex
	seen  int
	next  fate // of the reply to the next INCR
	conns []net.Conn
}

// fate is how the proxy handles a reply.
type fate int32

const (
	forwarded fate = iota
	held           // not forwarded; the connection stays open
	cut            // not forwarded; the connection is closed
)

func startProxy(t *testing.T, server string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	p := &proxy{addr: listener.Addr().String(), server: server}
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
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for _, conn := range p.conns {
			_ = conn.Close()
		}
		p.mu.Unlock()
		running.Wait()
	})
	return p
}

// intercept redirects the connections of the cluster client to the server through the
// proxy. The client must not have connected yet.
func (p *proxy) intercept(client redis.UniversalClient) {
	cluster, _ := client.(*redis.ClusterClient)
	cluster.OnNewNode(func(node *redis.Client) { node.AddHook(detour{p}) })
}

// lose forwards the next INCR but loses the reply to it, in the given way.
func (p *proxy) lose(how fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = how
}

// increments returns the number of forwarded INCRs.
func (p *proxy) increments() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()

	var reply atomic.Int32
	go func() {
		defer server.Close()
		forward(client, server, func(chunk []byte) fate {
			reply.Store(int32(max(fate(reply.Load()), p.note(chunk))))
			return forwarded
		})
	}()
	forward(server, client, func([]byte) fate { return fate(reply.Load()) })
}

// note counts an INCR, and returns the fate of its reply.
func (p *proxy) note(chunk []byte) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !bytes.Contains(bytes.ToLower(chunk), []byte("incr\r\n")) {
		return forwarded
	}
	p.seen++
	next := p.next
	p.next = forwarded
	return next
}

// forward copies until one side closes or the fate of a chunk is cut.
func forward(from, to net.Conn, fateOf func([]byte) fate) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		if err != nil {
			return
		}
		switch fateOf(chunk[:n]) {
		case cut:
			return
		case held:
		case forwarded:
			if _, err := to.Write(chunk[:n]); err != nil {
				return
			}
		}
	}
}

// detour is a hook that dials the proxy instead of its server.
type detour struct{ proxy *proxy }

func (d detour) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == d.proxy.server {
			addr = d.proxy.addr
		}
		return next(ctx, network, addr)
	}
}

func (detour) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (detour) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
