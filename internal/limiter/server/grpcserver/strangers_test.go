// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-dev/weir/internal/limiter/server/connlimit"
	"github.com/weir-dev/weir/internal/limiter/server/grpcserver"
	"github.com/weir-dev/weir/internal/limiter/server/httpserver"
)

// ports are a gRPC and an HTTP port that share their bounds, as the ports of a process do.
type ports struct {
	grpc, http string // addresses
	metrics    *prometheus.Registry
}

func servePorts(t *testing.T, bounds connlimit.Bounds) *ports {
	t.Helper()
	g := NewWithT(t)
	logger := slog.New(slog.DiscardHandler)
	p := &ports{metrics: prometheus.NewRegistry()}
	connections := connlimit.New(connlimit.Options{Bounds: &bounds, Registerer: p.metrics, Logger: logger})
	grpcServer := grpcserver.New(grpcserver.Options{
		Address: "127.0.0.1:0", Services: []grpcserver.Service{echo{}}, Logger: logger, Connections: connections,
	})
	httpServer := httpserver.New(httpserver.Options{
		Address: "127.0.0.1:0", Port: "http", Handler: http.NotFoundHandler(), Logger: logger, Connections: connections,
	})
	g.Expect(grpcServer.Bind(t.Context())).To(Succeed())
	g.Expect(httpServer.Bind(t.Context())).To(Succeed())
	p.grpc, p.http = grpcServer.Addr(), httpServer.Addr()
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { _ = grpcServer.Start(ctx) })
	ended.Go(func() { _ = httpServer.Start(ctx) })
	t.Cleanup(func() { stop(); ended.Wait() })
	return p
}

// closed returns the number of connections that were closed.
func (p *ports) closed() (n float64) {
	families, _ := p.metrics.Gather()
	for _, f := range families {
		for _, m := range f.GetMetric() {
			n += m.GetCounter().GetValue()
		}
	}
	return n
}

// strangers keep a number of connections open, each with some bytes, and open another one whenever one is closed.
type strangers struct {
	address string
	source  net.IP
	sent    string
	replies int64 // bytes that each reads before it sends the last byte of sent
	keep    int
	open    int // connections that are opened in all
}

func (s strangers) attack(t *testing.T) {
	t.Helper()
	slots := make(chan struct{}, s.keep)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range s.open {
		slots <- struct{}{}
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: s.source}}).DialContext(ctx, "tcp", s.address)
		if err != nil {
			t.Error(err)
			break
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		all.Go(func() {
			s.send(conn)
			_ = conn.Close()
			<-slots
		})
	}
	stop()
	all.Wait()
}

// send sends the bytes, and returns when the server closes the connection.
func (s strangers) send(conn net.Conn) {
	if s.replies == 0 {
		_, _ = io.WriteString(conn, s.sent)
	} else {
		last := len(s.sent) - 1
		_, _ = io.WriteString(conn, s.sent[:last])
		_, _ = io.CopyN(io.Discard, conn, s.replies)
		_, _ = io.WriteString(conn, s.sent[last:])
	}
	_, _ = io.Copy(io.Discard, conn)
}

// callWhile calls with a number of callers on one connection until attack returns.
func callWhile(t *testing.T, address string, callers int, attack func()) (answered, failed int) {
	t.Helper()
	g := NewWithT(t)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = conn.Close() }()
	client, request := ratelimitv3.NewRateLimitServiceClient(conn), &ratelimitv3.RateLimitRequest{Domain: "edge"}
	_, err = client.ShouldRateLimit(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	ended := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	for range callers {
		all.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				_, err := client.ShouldRateLimit(t.Context(), request)
				mu.Lock()
				if err == nil {
					answered++
				} else {
					failed++
				}
				mu.Unlock()
			}
		})
	}
	attack()
	close(ended)
	all.Wait()
	return answered, failed
}

const callers = 32

// Strangers who open connections, and send nothing or a part of a request, cost the calls of another client nothing.
func TestStrangersCloseNoBusyConnection(t *testing.T) {
	halfHeader := "POST /v1/check HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 160)
	const served = "GET / HTTP/1.1\r\nHost: a\r\n\r\nG"
	parts := connlimit.DefaultBounds
	parts.Served.Bytes /= 8
	other, same := net.IPv4(127, 0, 0, 2), net.IPv4(127, 0, 0, 1)
	for name, tc := range map[string]struct {
		bounds connlimit.Bounds
		attack func(p *ports) []strangers
	}{
		"idle and half a header": {connlimit.DefaultBounds, func(p *ports) []strangers {
			return []strangers{
				{address: p.grpc, source: other, keep: 500, open: 1500},
				{address: p.http, source: other, keep: 505, open: 1500, sent: halfHeader},
			}
		}},
		"half a header behind the same address": {connlimit.DefaultBounds, func(p *ports) []strangers {
			return []strangers{{address: p.http, source: same, keep: 1000, open: 3000, sent: halfHeader}}
		}},
		"a first byte after a request": {parts, func(p *ports) []strangers {
			return []strangers{{address: p.http, source: other, keep: 1000, open: 2000, sent: served, replies: 100}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := servePorts(t, tc.bounds)
			answered, failed := callWhile(t, p.grpc, callers, func() {
				var all sync.WaitGroup
				for _, s := range tc.attack(p) {
					all.Go(func() { s.attack(t) })
				}
				all.Wait()
			})
			t.Log(answered, "calls answered,", failed, "failed;", p.closed(), "connections closed")
			g.Expect(p.closed()).To(BeNumerically(">", 500), "the attack exceeds the bounds")
			g.Expect(answered).To(BeNumerically(">", callers))
			g.Expect(failed).To(BeZero())
		})
	}
}

// If only one connection may be open, strangers close the busy one. The judge of TestStrangersCloseNoBusyConnection sees it.
func TestClosedBusyConnectionsAreSeen(t *testing.T) {
	g := NewWithT(t)
	bounds := connlimit.DefaultBounds
	bounds.Served.Connections = 1
	p := servePorts(t, bounds)
	_, failed := callWhile(t, p.grpc, callers, func() {
		strangers{
			address: p.http, source: net.IPv4(127, 0, 0, 2), keep: 10, open: 200,
			sent: "GET / HTTP/1.1\r\nHost: a\r\n\r\nG", replies: 100,
		}.attack(t)
	})
	g.Expect(failed).NotTo(BeZero())
}
