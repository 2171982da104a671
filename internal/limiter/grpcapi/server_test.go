// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcapi_test

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-dev/weir/internal/limiter/grpcapi"
)

func TestHealthFollowsTheServer(t *testing.T) {
	g := gomega.NewWithT(t)
	ctx, stop := context.WithCancel(t.Context())
	server := grpcapi.NewServer(grpcapi.ServerOptions{Address: "127.0.0.1:0"})
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	g.Eventually(server.Addr).ShouldNot(gomega.BeEmpty())

	conn, err := grpc.NewClient(server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer func() { _ = conn.Close() }()
	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	status := func() healthpb.HealthCheckResponse_ServingStatus {
		answer, err := watch.Recv()
		g.Expect(err).NotTo(gomega.HaveOccurred())
		return answer.GetStatus()
	}
	g.Expect(status()).To(gomega.Equal(healthpb.HealthCheckResponse_NOT_SERVING))
	server.Ready()
	g.Expect(status()).To(gomega.Equal(healthpb.HealthCheckResponse_SERVING))
	stop()
	g.Expect(status()).To(gomega.Equal(healthpb.HealthCheckResponse_NOT_SERVING))
	g.Expect(watch.CloseSend()).To(gomega.Succeed())
	g.Expect(conn.Close()).To(gomega.Succeed())
	g.Eventually(ended, "5s").Should(gomega.Receive(gomega.BeNil()))
}
