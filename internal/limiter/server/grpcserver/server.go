// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package grpcserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/weir-dev/weir/internal/limiter/server/connlimit"
	"github.com/weir-dev/weir/internal/limiter/server/listen"
)

const (
	// drainTimeout bounds the calls in flight when the server shuts down.
	drainTimeout = 10 * time.Second
	// maxMessageBytes is far above what Envoy sends with its own bounds on headers. A
	// larger message fails the call, and Envoy then allows the request.
	maxMessageBytes = 4 << 20
	// maxHeaderBytes bounds the metadata of a call. With tracing on, Envoy forwards the
	// tracestate of its client there, as long as the largest header it accepts. Larger
	// metadata fail the call, and Envoy then allows the request.
	maxHeaderBytes = 1 << 20
	// maxStreams bounds the concurrent calls of one connection; further calls wait.
	maxStreams = 1000
	// receiveTimeout bounds the time until a request has arrived.
	receiveTimeout = 10 * time.Second
	// streamWorkers is the number of goroutines that are kept for calls. Further concurrent
	// calls get a goroutine of their own, whose stack has to grow first.
	streamWorkers = 128
	// bufferBytes is the size of the read and of the write buffer of a connection: one
	// system call serves many of the small calls that a proxy multiplexes.
	bufferBytes = 64 << 10
	// tlsBufferBytes is the size of the read buffer with TLS, which returns one record at a time.
	tlsBufferBytes = 16 << 10
	// windowBytes is what a connection may send before the server has read it. With a fixed size
	// gRPC does not measure the connection, which takes a ping in each of its round trips.
	windowBytes = 1 << 20
	// port names the server in metrics.
	port = "grpc"
	// connectTimeout bounds the TLS and HTTP/2 handshakes.
	connectTimeout = 10 * time.Second
)

// keepalivePolicy allows a ping every second, which Envoy can be configured to send; the
// default of gRPC would close the connection.
var keepalivePolicy = keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}

// keepaliveParams closes connections to peers that vanished, and every connection after
// MaxConnectionAge: proxies keep connections open, so new replicas behind a Service would
// otherwise get no calls.
var keepaliveParams = keepalive.ServerParameters{
	Time: time.Minute, Timeout: 20 * time.Second,
	MaxConnectionAge: 5 * time.Minute, MaxConnectionAgeGrace: 10 * time.Second,
}

// Service is a gRPC service to serve, beside health and reflection.
type Service interface{ Register(grpc.ServiceRegistrar) }

// Options configure a Server. Only Address is required.
type Options struct {
	// Address is the TCP address, as in ":8081"; port 0 takes any free port.
	Address  string
	Services []Service
	// TLS turns TLS on. It must provide a certificate.
	TLS *tls.Config
	// Tracing creates a span for every call; nil creates none.
	Tracing stats.Handler
	// Connections bounds what clients can hold; nil bounds only this server.
	Connections *connlimit.Set
	// ReceiveTimeout is how long a request may take to arrive; 0 is 10s.
	ReceiveTimeout time.Duration
	// Logger receives panics of services; nil is slog.Default().
	Logger *slog.Logger
	// DrainDelay is the time between NOT_SERVING and the shutdown, in which load balancers
	// can notice.
	DrainDelay time.Duration
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
	o.ReceiveTimeout = cmp.Or(o.ReceiveTimeout, receiveTimeout)
	if o.Connections == nil {
		o.Connections = connlimit.New(connlimit.Options{Logger: o.Logger})
	}
	s := &Server{
		options: o,
		health:  health.NewServer(),
		listener: listen.New(listen.Options{
			Address: o.Address, DrainDelay: o.DrainDelay, DrainTimeout: drainTimeout,
		}),
	}
	s.grpc = s.server(s.bounds())
	s.setHealth(healthpb.HealthCheckResponse_NOT_SERVING)
	return s
}

// Ready sets the health to SERVING, until the server drains.
func (s *Server) Ready() { s.setHealth(healthpb.HealthCheckResponse_SERVING) }

// setHealth sets the health of the server and of each of its services, since clients may
// watch either.
func (s *Server) setHealth(status healthpb.HealthCheckResponse_ServingStatus) {
	s.health.SetServingStatus("", status)
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, status)
	}
}

// Bind binds the address, unless it is bound.
func (s *Server) Bind(ctx context.Context) error { return s.listener.Bind(ctx) }

// Close releases the address of a server that does not run.
func (s *Server) Close() error { return s.listener.Close() }

// Start binds the address, unless Bind did, and serves until ctx ends, then drains.
func (s *Server) Start(ctx context.Context) error { return s.listener.Run(ctx, protocol{s}) }

// Addr returns the address in use; empty until it is bound.
func (s *Server) Addr() string { return s.listener.Addr() }

// bounds returns the options that bound what a connection holds, and set its credentials.
func (s *Server) bounds() []grpc.ServerOption {
	secured := insecure.NewCredentials()
	if s.options.TLS != nil {
		secured = credentials.NewTLS(s.options.TLS)
	}
	return []grpc.ServerOption{
		grpc.InTapHandle(s.beginCall),
		grpc.Creds(boundedCredentials{
			TransportCredentials: secured, connections: s.options.Connections, port: port, timeout: s.options.ReceiveTimeout,
		}),
	}
}

// server returns the standard server with the other bounds and all services.
func (s *Server) server(bounds []grpc.ServerOption) *grpc.Server {
	readBuffer := bufferBytes
	if s.options.TLS != nil {
		readBuffer = tlsBufferBytes
	}
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.ReadBufferSize(readBuffer),
		grpc.WriteBufferSize(bufferBytes),
		grpc.StaticConnWindowSize(windowBytes),
		grpc.KeepaliveEnforcementPolicy(keepalivePolicy),
		grpc.KeepaliveParams(keepaliveParams),
		grpc.UnaryInterceptor(s.handle),
	}
	if s.options.Tracing != nil {
		options = append(options, grpc.StatsHandler(s.options.Tracing))
	}
	server := grpc.NewServer(append(options, bounds...)...)
	healthpb.RegisterHealthServer(server, s.health)
	for _, service := range s.options.Services {
		service.Register(server)
	}
	reflection.Register(server)
	return server
}

// handle leaves out calls that the client has canceled, and turns a panic into an error of its call, so that other calls continue.
func (s *Server) handle(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.options.Logger.ErrorContext(ctx, "Service panicked",
				"method", info.FullMethod, "cause", cause, "stack", string(debug.Stack()))
			answer, err = nil, status.Error(codes.Internal, "the server could not handle the request")
		}
	}()
	if conn := connOf(ctx); conn != nil {
		if err := conn.awaitCancellations(ctx); err != nil {
			return nil, status.FromContextError(err).Err()
		}
	}
	return next(ctx, request)
}

// protocol implements listen.Server.
type protocol struct{ *Server }

// Serve implements listen.Server. It returns nil if Shutdown came first.
func (p protocol) Serve(listener net.Listener) error {
	if err := p.grpc.Serve(listener); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Drain implements listen.Server.
func (p protocol) Drain() { p.health.Shutdown() }

// Shutdown implements listen.Server.
func (p protocol) Shutdown(ctx context.Context) error {
	defer context.AfterFunc(ctx, p.grpc.Stop)()
	p.grpc.GracefulStop()
	return nil
}
