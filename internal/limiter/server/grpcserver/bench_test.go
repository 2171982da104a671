// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver

import (
	"context"
	"net"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// allow answers every call.
type allow struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
}

func (allow) Register(r grpc.ServiceRegistrar) {
	ratelimitv3.RegisterRateLimitServiceServer(r, allow{})
}

func (allow) ShouldRateLimit(context.Context, *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	return &ratelimitv3.RateLimitResponse{}, nil
}

// BenchmarkBounds compares small calls with and without the bounds of connections. The share that
// the bounds take is the metric "%". The rounds alternate, since machines are noisy.
func BenchmarkBounds(b *testing.B) {
	s := New(Options{Services: []Service{allow{}}})
	round := func(bounds []grpc.ServerOption) func(calls int) time.Duration {
		server := s.server(bounds)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		go func() { _ = server.Serve(listener) }()
		b.Cleanup(server.Stop)
		conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		return func(calls int) time.Duration { return sendCalls(b, conn, calls) }
	}
	with, without := round(s.bounds()), round(nil)
	const calls = 2000
	with(calls)
	without(calls)
	var bounded, plain time.Duration
	for b.Loop() {
		bounded += with(calls)
		plain += without(calls)
	}
	b.ReportMetric(float64(bounded-plain)/float64(plain)*100, "%")
	b.ReportMetric(float64(bounded.Nanoseconds())/float64(b.N*calls), "ns/call")
}

// sendCalls sends calls, 64 at a time, and returns the time that they took.
func sendCalls(b *testing.B, conn *grpc.ClientConn, calls int) time.Duration {
	b.Helper()
	client := ratelimitv3.NewRateLimitServiceClient(conn)
	done := make(chan error, 64)
	started := time.Now()
	for range cap(done) {
		go func() {
			var err error
			for range calls / cap(done) {
				if _, e := client.ShouldRateLimit(b.Context(), &ratelimitv3.RateLimitRequest{Domain: "edge"}); e != nil {
					err = e
				}
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(started)
}
