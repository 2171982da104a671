// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver_test

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/internal/limiter/server/grpcserver"
)

// echo is a service that panics for the domain "panic" and otherwise returns the length of the
// domain.
type echo struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
}

func (e echo) Register(r grpc.ServiceRegistrar) { ratelimitv3.RegisterRateLimitServiceServer(r, e) }

func (echo) ShouldRateLimit(_ context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	if r.GetDomain() == "panic" {
		panic("secret")
	}
	return &ratelimitv3.RateLimitResponse{RawBody: []byte(strconv.Itoa(len(r.GetDomain())))}, nil
}

// serve starts a server that runs until the test ends, and connects to it.
func serve(t *testing.T, services ...grpcserver.Service) *grpc.ClientConn {
	t.Helper()
	g := NewWithT(t)
	ctx, stop := context.WithCancel(t.Context())
	server := grpcserver.New(grpcserver.Options{
		Address: "127.0.0.1:0", Services: services, Logger: slog.New(slog.DiscardHandler),
	})
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	g.Eventually(server.Addr).ShouldNot(BeEmpty())
	conn, err := grpc.NewClient(server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		_ = conn.Close()
		stop()
		NewWithT(t).Eventually(ended, "30s").Should(Receive(BeNil()))
	})
	return conn
}

// A server whose context ends while it starts ends without an error.
func TestServerEndsWhileItStarts(t *testing.T) {
	g := NewWithT(t)
	ended, end := context.WithCancel(t.Context())
	end()
	for range 100 {
		server := grpcserver.New(grpcserver.Options{Address: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
		g.Expect(server.Bind(t.Context())).To(Succeed())
		g.Expect(server.Start(ended)).To(Succeed())
	}
}

func TestPanicEndsOneCall(t *testing.T) {
	g := NewWithT(t)
	client := ratelimitv3.NewRateLimitServiceClient(serve(t, echo{}))
	_, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "panic"})
	g.Expect(status.Code(err)).To(Equal(codes.Internal))
	g.Expect(err.Error()).NotTo(ContainSubstring("secret"))
	_, err = client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "calm"})
	g.Expect(err).NotTo(HaveOccurred())
}

func TestMessageAsLargeAsTheBoundIsAccepted(t *testing.T) {
	g := NewWithT(t)
	client := ratelimitv3.NewRateLimitServiceClient(serve(t, echo{}))
	answer, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: strings.Repeat("a", 4<<20-10)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(answer.GetRawBody())).To(Equal("4194294"))
}

func TestMessageAboveTheBoundIsRejected(t *testing.T) {
	client := ratelimitv3.NewRateLimitServiceClient(serve(t, echo{}))
	_, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: strings.Repeat("a", 4<<20)})
	NewWithT(t).Expect(status.Code(err)).To(Equal(codes.ResourceExhausted))
}

// Envoy forwards the trace headers of its client.
func TestLargeMetadataIsAccepted(t *testing.T) {
	g := NewWithT(t)
	client := ratelimitv3.NewRateLimitServiceClient(serve(t, echo{}))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "tracestate", strings.Repeat("a", 96<<10))
	_, err := client.ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{})
	g.Expect(err).NotTo(HaveOccurred())
}

func TestReflectionListsTheServices(t *testing.T) {
	g := NewWithT(t)
	stream, err := reflectionpb.NewServerReflectionClient(serve(t, echo{})).ServerReflectionInfo(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	})).To(Succeed())
	answer, err := stream.Recv()
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	g.Expect(names).To(ContainElements("envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"))
}

func TestHealthFollowsTheServer(t *testing.T) {
	g := NewWithT(t)
	ctx, stop := context.WithCancel(t.Context())
	server := grpcserver.New(grpcserver.Options{Address: "127.0.0.1:0", Services: []grpcserver.Service{echo{}}})
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	g.Eventually(server.Addr).ShouldNot(BeEmpty())

	conn, err := grpc.NewClient(server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = conn.Close() }()
	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	g.Expect(err).NotTo(HaveOccurred())
	status := func() healthpb.HealthCheckResponse_ServingStatus {
		answer, err := watch.Recv()
		g.Expect(err).NotTo(HaveOccurred())
		return answer.GetStatus()
	}
	g.Expect(status()).To(Equal(healthpb.HealthCheckResponse_NOT_SERVING))
	server.Ready()
	g.Expect(status()).To(Equal(healthpb.HealthCheckResponse_SERVING))
	answer, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: "envoy.service.ratelimit.v3.RateLimitService"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.GetStatus()).To(Equal(healthpb.HealthCheckResponse_SERVING))
	stop()
	g.Expect(status()).To(Equal(healthpb.HealthCheckResponse_NOT_SERVING))
	g.Expect(watch.CloseSend()).To(Succeed())
	g.Expect(conn.Close()).To(Succeed())
	g.Eventually(ended, "30s").Should(Receive(BeNil()))
}
