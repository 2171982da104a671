// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/internal/limiter/listen"
)

const (
	// drainTimeout is how long calls in flight may take after the server was told
	// to stop.
	drainTimeout = 10 * time.Second
	// maxMessageBytes is far above what Envoy sends by its own bounds on headers: a
	// client whose headers do not fit would not be decided about.
	maxMessageBytes = 4 << 20
	// maxHeaderBytes bounds the metadata of a call. An Envoy that traces passes on
	// the tracestate of its client there, as long as a header may be to it, and lets
	// a request pass of which the metadata are refused.
	maxHeaderBytes = 1 << 20
	// maxStreams bounds the calls in flight of one connection; more have to wait.
	maxStreams = 10_000
	// connectTimeout bounds the handshakes of a connection.
	connectTimeout = 10 * time.Second
)

// patience is how often a client may ping. Envoy may be told to do so every
// second; the default would hang up on it.
var keepalivePolicy = keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}

// alive finds connections whose other end is gone without a word. It also ends one
// after a while: a proxy keeps its connections for ever, and behind a Service new
// replicas would never be asked.
var keepaliveParams = keepalive.ServerParameters{
	Time: time.Minute, Timeout: 20 * time.Second,
	MaxConnectionAge: 5 * time.Minute, MaxConnectionAgeGrace: 10 * time.Second,
}

// Service is what is served beside health and reflection.
type Service interface{ Register(grpc.ServiceRegistrar) }

// Options configure a Server. Only Address is required.
type Options struct {
	// Address is what to listen on, as in ":8081"; port 0 takes any.
	Address  string
	Services []Service
	// TLS turns TLS on; it must be able to find a certificate.
	TLS *tls.Config
	// Tracing makes a span of every call; nil makes none.
	Tracing stats.Handler
	// Logger hears of faults of the server; nil is slog.Default().
	Logger *slog.Logger
	// LameDuck is how long the server goes on accepting after it was told to stop,
	// not serving by its health, so that those who send to it can notice.
	LameDuck time.Duration
}

// Server serves gRPC until its context ends, then drains.
type Server struct {
	listener *listen.Listener
	options  Options
	grpc     *grpc.Server
	health   *health.Server
}

// New returns a server that does not listen yet. Its health is NOT_SERVING
// until Ready.
func New(o Options) *Server {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	s := &Server{
		options: o,
		health:  health.NewServer(),
		listener: listen.New(listen.Options{
			Address: o.Address, LameDuck: o.LameDuck, DrainTimeout: drainTimeout,
		}),
	}
	s.grpc = s.server()
	s.setHealth(healthpb.HealthCheckResponse_NOT_SERVING)
	return s
}

// Ready makes the health SERVING, until the server is told to stop.
func (s *Server) Ready() { s.setHealth(healthpb.HealthCheckResponse_SERVING) }

// say makes that the health of the server and of each of its services: clients ask
// about either.
func (s *Server) setHealth(status healthpb.HealthCheckResponse_ServingStatus) {
	s.health.SetServingStatus("", status)
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, status)
	}
}

// Start listens and serves until ctx ends, then drains.
func (s *Server) Start(ctx context.Context) error { return s.listener.Run(ctx, protocol{s}) }

// Addr returns the address in use; empty until Start has bound it.
func (s *Server) Addr() string { return s.listener.Addr() }

// server returns the standard server with our bounds and all services.
func (s *Server) server() *grpc.Server {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalivePolicy),
		grpc.KeepaliveParams(keepaliveParams),
		grpc.UnaryInterceptor(s.recoverPanic),
	}
	if s.options.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.options.TLS)))
	}
	if s.options.Tracing != nil {
		options = append(options, grpc.StatsHandler(s.options.Tracing))
	}
	server := grpc.NewServer(options...)
	healthpb.RegisterHealthServer(server, s.health)
	for _, service := range s.options.Services {
		service.Register(server)
	}
	reflection.Register(server)
	return server
}

// recoverPanic turns a panic into an error of one call, so that the others go on.
func (s *Server) recoverPanic(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.options.Logger.ErrorContext(ctx, "Service panicked",
				"method", info.FullMethod, "cause", cause, "stack", string(debug.Stack()))
			answer, err = nil, status.Error(codes.Internal, "the server could not handle the request")
		}
	}()
	return handle(ctx, request)
}

// protocol is the Server as its listener runs it.
type protocol struct{ *Server }

// Serve implements listen.Server.
func (p protocol) Serve(listener net.Listener) error { return p.grpc.Serve(listener) }

// Drain implements listen.Server.
func (p protocol) Drain() { p.health.Shutdown() }

// Shutdown implements listen.Server.
func (p protocol) Shutdown(ctx context.Context) error {
	defer context.AfterFunc(ctx, p.grpc.Stop)()
	p.grpc.GracefulStop()
	return nil
}
