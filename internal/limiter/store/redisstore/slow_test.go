// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
)

// slowProxy forwards to a server, and holds its replies back for the delay.
type slowProxy struct {
	addr  string
	delay atomic.Int64 // nanoseconds
}

func startSlowProxy(t *testing.T, server string) *slowProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	p := &slowProxy{addr: listener.Addr().String()}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(ctx, client, server) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		serving.Wait()
	})
	return p
}

func (p *slowProxy) serve(ctx context.Context, client net.Conn, addr string) {
	server, err := net.Dial("tcp", addr)
	if err != nil {
		_ = client.Close()
		return
	}
	closeBoth := func() { _, _ = client.Close(), server.Close() }
	stop := context.AfterFunc(ctx, closeBoth)
	defer stop()
	defer closeBoth()
	go func() {
		defer closeBoth()
		_, _ = io.Copy(server, client)
	}()
	chunk := make([]byte, 64<<10)
	for {
		n, err := server.Read(chunk)
		if err != nil {
			return
		}
		select {
		case <-time.After(time.Duration(p.delay.Load())):
		case <-ctx.Done():
			return
		}
		if _, err := client.Write(chunk[:n]); err != nil {
			return
		}
	}
}

func TestLateProbeDoesNotCloseTheBreaker(t *testing.T) {
	g := NewWithT(t)
	f := newFakeNode()
	f.err.Store(&store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded})
	f.probe = func(ctx context.Context, _ store.Key) error {
		f.probes.Add(1)
		<-ctx.Done()
		return nil // after the timeout
	}
	for range maxFailures {
		g.Expect(f.ask(t.Context(), time.Minute)).To(Equal(store.CauseTimeout))
	}
	g.Eventually(f.probes.Load, "30s").Should(BeNumerically(">", 2))
	g.Expect(f.isDown()).To(BeTrue())
}

// A node that answers every call too late stays without calls: a probe that takes longer than a
// call may must not close the breaker, or it would open and close all the time.
func TestSlowNodeDoesNotFlap(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	proxy := startSlowProxy(t, testenv.StartRedis(t).Addr)
	const timeout = 50 * time.Millisecond
	client, err := redisclient.New("redis://"+proxy.addr, timeout)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	backend := NewStore(Options{Client: client, Prefix: testPrefix, Timeout: timeout})
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1_000_000)})
	ask := func() store.Cause {
		_, err := backend.Evaluate(t.Context(), storetest.SpendOne(policy, "a"))
		return causeIn(err)
	}
	g.Eventually(ask).Should(BeEmpty())
	proxy.delay.Store(int64(200 * time.Millisecond))
	g.Eventually(ask, "30s").Should(Equal(store.CauseBreaker))
	g.Consistently(ask, "1s").Should(Equal(store.CauseBreaker))
	proxy.delay.Store(0)
	g.Eventually(ask, "30s").Should(BeEmpty())
}
