// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/internal/limiter/server/grpcserver"
	"github.com/weir-dev/weir/internal/limiter/server/httpserver"
)

// Environment of a test process that runs as a no-op service instead of running tests.
const (
	envNoop     = "WEIR_BENCH_NOOP"     // plain, weir or http
	envAddress  = "WEIR_BENCH_ADDRESS"  // address to listen on
	envResponse = "WEIR_BENCH_RESPONSE" // file with the response of weir and http
)

// Kinds of no-op services.
const (
	noopPlain = "plain" // gRPC with the default options of the library; answers OK
	noopWeir  = "weir"  // gRPC with the options and the response fields of Weir
	noopHTTP  = "http"  // HTTP that reads the body and answers the bytes of Weir
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(envNoop); kind != "" {
		if err := serveNoop(kind); err != nil {
			slog.Error("Failed to serve", "error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serveNoop serves until the process receives a signal.
func serveNoop(kind string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // a process of its own, without a test
	defer stop()
	address := os.Getenv(envAddress)
	if kind == noopPlain {
		return servePlain(ctx, address)
	}
	response, err := os.ReadFile(os.Getenv(envResponse))
	if err != nil {
		return err
	}
	if kind == noopHTTP {
		return httpserver.New(httpserver.Options{Address: address, Handler: sameAnswer(response)}).Start(ctx)
	}
	service := &noop{response: &ratelimitv3.RateLimitResponse{}}
	if err := proto.Unmarshal(response, service.response); err != nil {
		return err
	}
	return grpcserver.New(grpcserver.Options{Address: address, Services: []grpcserver.Service{service}}).Start(ctx)
}

func servePlain(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	service := &noop{response: &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}}
	service.Register(server)
	defer context.AfterFunc(ctx, server.Stop)()
	if err := server.Serve(listener); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// noop answers every request with the same response.
type noop struct {
	ratelimitv3.UnimplementedRateLimitServiceServer

	response *ratelimitv3.RateLimitResponse
}

func (s *noop) Register(r grpc.ServiceRegistrar) { ratelimitv3.RegisterRateLimitServiceServer(r, s) }

func (s *noop) ShouldRateLimit(context.Context, *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	return s.response, nil
}

// sameAnswer reads the body and answers every request with the same bytes.
func sameAnswer(body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
}
