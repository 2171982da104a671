// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grpcapi is the gRPC port. This release answers the health protocol
// and reflection on it; the services that decide come with the doors for
// Envoy.
package grpcapi

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
)

// drainTimeout is how long calls in flight may take after the server was told
// to stop.
const drainTimeout = 10 * time.Second

// Server serves gRPC until its context ends, then drains.
type Server struct {
	address  string
	lameDuck time.Duration
	tls      *tls.Config
	health   *health.Server
	bound    atomic.Pointer[string]
}

// NewServer returns a server for that address which does not listen yet. Its
// health is NOT_SERVING until Ready. After
// it was told to stop it goes on for lameDuck, not serving by its health, so
// that those who send to it can notice. Without a TLS configuration it serves
// plain text.
func NewServer(address string, lameDuck time.Duration, config *tls.Config) *Server {
	s := &Server{address: address, lameDuck: lameDuck, tls: config, health: health.NewServer()}
	s.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	return s
}

// Ready makes the health SERVING, until the server is told to stop.
func (s *Server) Ready() { s.health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING) }

// Addr returns the address the server listens on; empty until it does.
func (s *Server) Addr() string {
	if address := s.bound.Load(); address != nil {
		return *address
	}
	return ""
}

func (s *Server) options() []grpc.ServerOption {
	if s.tls == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(s.tls))}
}

// Start listens and serves until ctx ends, then drains.
func (s *Server) Start(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.address)
	if err != nil {
		return err
	}
	s.bound.Store(new(listener.Addr().String()))
	server := grpc.NewServer(s.options()...)
	healthpb.RegisterHealthServer(server, s.health)
	reflection.Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.health.Shutdown()
	<-time.After(s.lameDuck)
	cutOff := time.AfterFunc(drainTimeout, server.Stop)
	defer cutOff.Stop()
	server.GracefulStop()
	return <-served
}
