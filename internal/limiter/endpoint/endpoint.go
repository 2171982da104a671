// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpoint puts the decision half together: the engine, the doors it
// answers through, and the metrics. Whoever runs it gives the engine its
// plans.
package endpoint

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/envoyrls"
	"github.com/weir-dev/weir/internal/limiter/extauthz"
	"github.com/weir-dev/weir/internal/limiter/grpcserver"
	"github.com/weir-dev/weir/internal/limiter/httpapi"
	"github.com/weir-dev/weir/internal/limiter/httpserver"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
	"github.com/weir-dev/weir/internal/limiter/tlsfiles"
)

// Options configure an Endpoint.
type Options struct {
	// Redis is where counters live. Its client must not retry. Required.
	Redis redis.UniversalClient
	// RedisPrefix starts the name of every key in Redis.
	RedisPrefix string
	// HTTPAddress is where checks are answered.
	HTTPAddress string
	// GRPCAddress is where gRPC is served; empty is nowhere.
	GRPCAddress string
	// MetricsAddress is where metrics are served; empty is nowhere.
	MetricsAddress string
	// TLS are the certificates of the HTTP and the gRPC port; nil is plain text.
	TLS *tlsfiles.Files
	// Door configures all doors.
	Door limiter.DoorOptions
	// Authorizer says who may see and change the state of keys; nil is nobody.
	Authorizer httpapi.Authorizer
	// StoreTimeout is the longest a decision waits for Redis.
	StoreTimeout time.Duration
	// LameDuck is how long requests are still accepted after the process was
	// told to end.
	LameDuck time.Duration
	// Logger receives the log. Required.
	Logger *slog.Logger
	// Registry takes the metrics of decisions. Required.
	Registry *prometheus.Registry
	// Metrics are what is served; nil is Registry.
	Metrics prometheus.Gatherer
	// Healthy makes /healthz fail with its error; nil is always healthy.
	Healthy func() error
	// Replicas lists the live replicas; nil is none known.
	Replicas func() []httpapi.Replica
	// Tracer makes spans of what doors are asked, of decisions and of commands to
	// Redis; nil makes none. Propagator reads which trace a caller belongs to.
	Tracer     trace.TracerProvider
	Propagator propagation.TextMapPropagator
}

// Endpoint decides checks and answers them.
type Endpoint struct {
	*engine.Engine
	HTTP    *httpserver.Server
	Metrics *httpserver.Server
	GRPC    *grpcserver.Server
	options Options
}

// New returns an endpoint that does not listen yet and has no plans.
func New(o Options) *Endpoint {
	e := &Endpoint{options: o}
	e.traceRedis()
	e.Engine = engine.New(engine.Options{
		Store:        script.NewStore(o.Redis, o.RedisPrefix),
		Registerer:   o.Registry,
		Logger:       o.Logger,
		StoreTimeout: o.StoreTimeout,
		Tracer:       e.tracer(),
	})
	var httpTLS, grpcTLS *tls.Config
	if o.TLS != nil {
		httpTLS, grpcTLS = o.TLS.HTTP(), o.TLS.GRPC()
	}
	door := e.httpDoor()
	e.HTTP = httpserver.New(httpserver.Options{
		Address:  o.HTTPAddress,
		Handler:  e.traceHTTP(door),
		OnDrain:  door.Drain,
		TLS:      httpTLS,
		Logger:   o.Logger,
		LameDuck: o.LameDuck,
	})
	e.GRPC = grpcserver.New(grpcserver.Options{
		Address:  o.GRPCAddress,
		Services: e.grpcServices(),
		Tracing:  e.traceGRPC(),
		TLS:      grpcTLS,
		Logger:   o.Logger,
		LameDuck: o.LameDuck,
	})
	e.Metrics = httpserver.New(httpserver.Options{
		Address: o.MetricsAddress,
		Handler: MetricsHandler(cmp.Or[prometheus.Gatherer](o.Metrics, o.Registry)),
		Logger:  o.Logger,
	})
	return e
}

func (e *Endpoint) httpDoor() *httpapi.Handler {
	o := &e.options
	return httpapi.New(httpapi.Options{
		Engine:             e.Engine,
		State:              e.Engine,
		Authorizer:         o.Authorizer,
		Logger:             o.Logger,
		Healthy:            o.Healthy,
		Replicas:           o.Replicas,
		Door:               o.Door,
		ClientCertificates: o.TLS != nil && o.TLS.VerifiesClients(),
	})
}

func (e *Endpoint) grpcServices() []grpcserver.Service {
	o := &e.options
	return []grpcserver.Service{
		envoyrls.New(envoyrls.Options{Engine: e.Engine, Door: o.Door}),
		extauthz.New(extauthz.Options{Engine: e.Engine, Door: o.Door}),
	}
}

// MetricsHandler serves the metrics at /metrics and nothing else.
func MetricsHandler(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

// Use makes the snapshot the one that later decisions are made with. With the
// first one gRPC health begins to say SERVING.
func (e *Endpoint) Use(snapshot *plan.Snapshot) {
	e.Engine.Use(snapshot)
	e.GRPC.Ready()
}

// Run serves until ctx ends, then drains. A door that cannot listen ends it
// with an error.
func (e *Endpoint) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	serve := func(door, address string, start func(context.Context) error) {
		if address == "" {
			return
		}
		group.Go(func() error {
			if err := start(ctx); err != nil {
				return fmt.Errorf("%s: %w", door, err)
			}
			return nil
		})
	}
	if e.options.TLS != nil {
		group.Go(func() error { return e.options.TLS.Start(ctx) })
	}
	serve("http", e.options.HTTPAddress, e.HTTP.Start)
	serve("grpc", e.options.GRPCAddress, e.GRPC.Start)
	serve("metrics", e.options.MetricsAddress, e.Metrics.Start)
	return group.Wait()
}
