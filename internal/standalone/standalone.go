// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package standalone runs the decision endpoint without Kubernetes: policies
// come from files, which are read again when they change, and plans are kept
// in memory. Counters live in the Redis that is given, where any number of
// processes share them, or in an embedded one.
package standalone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/embedded"
	"github.com/weir-dev/weir/internal/limiter/grpcapi"
	"github.com/weir-dev/weir/internal/limiter/httpapi"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// Options configure a standalone endpoint. Empty addresses of gRPC and metrics
// are not served.
type Options struct {
	// Policies are the folders the policies are read from. At least one.
	Policies []string
	// RedisURL is where counters live; empty is an embedded Redis.
	RedisURL string
	// RedisPrefix starts the name of every key in Redis.
	RedisPrefix string
	// HTTPAddress is where checks are answered.
	HTTPAddress string
	// GRPCAddress is where gRPC is served.
	GRPCAddress string
	// MetricsAddress is where metrics are served.
	MetricsAddress string
	// StoreTimeout is the longest a decision waits for Redis.
	StoreTimeout time.Duration
	// LameDuck is how long requests are still accepted after the process was
	// told to end.
	LameDuck time.Duration
	// Logger receives the log.
	Logger *slog.Logger
	// Registry holds the metrics that are served.
	Registry *prometheus.Registry
}

// Endpoint is a standalone decision endpoint.
type Endpoint struct {
	options  Options
	engine   *limiter.Engine
	files    *policyFiles
	badFiles prometheus.Gauge
	// complaints are the problems that were logged, by file.
	complaints map[string]string
	http       *httpapi.Server
	grpc       *grpcapi.Server
	metrics    *httpapi.Server
	close      []func()
}

// New prepares an endpoint. Policies that cannot be used are an error here:
// there is no last good plan to go on with, and to start without a limit
// somebody asked for would be to lift it silently.
func New(ctx context.Context, o Options) (*Endpoint, error) {
	e := &Endpoint{
		options: o,
		files:   &policyFiles{dirs: o.Policies},
		badFiles: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_policy_files_bad",
			Help: "Policy files that cannot be used as they are; the plans they last held stay in force.",
		}),
	}
	o.Registry.MustRegister(e.badFiles)
	snapshot, errs := e.files.load(ctx)
	if len(errs) > 0 {
		all := make([]error, len(errs))
		for i, err := range errs {
			all[i] = err
		}
		return nil, errors.Join(all...)
	}
	client, err := e.connect()
	if err != nil {
		e.Close()
		return nil, err
	}
	e.engine = limiter.NewEngine(limiter.Options{
		Evaluator:    script.NewStore(client, o.RedisPrefix),
		Registerer:   o.Registry,
		Logger:       o.Logger,
		StoreTimeout: o.StoreTimeout,
	})
	e.engine.Use(snapshot)
	e.http = httpapi.NewServer(httpapi.ServerOptions{
		Address:  o.HTTPAddress,
		Handler:  httpapi.New(httpapi.Options{Engine: e.engine, Logger: o.Logger}),
		Logger:   o.Logger,
		LameDuck: o.LameDuck,
	})
	e.grpc = grpcapi.NewServer(o.GRPCAddress, o.LameDuck)
	e.metrics = httpapi.NewMetricsServer(httpapi.ServerOptions{
		Address: o.MetricsAddress,
		Handler: promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{Registry: o.Registry}),
		Logger:  o.Logger,
	})
	return e, nil
}

// connect returns a client of the Redis that was given, or of an embedded one.
func (e *Endpoint) connect() (redis.UniversalClient, error) {
	url := e.options.RedisURL
	if url == "" {
		server, err := embedded.Start()
		if err != nil {
			return nil, err
		}
		e.close = append(e.close, server.Close)
		url = server.URL()
		e.options.Logger.Info("Using an embedded Redis; counters end with this process")
	}
	client, err := redisclient.New(url, e.options.StoreTimeout)
	if err != nil {
		return nil, fmt.Errorf("--redis-url: %w", err)
	}
	e.close = append(e.close, func() { _ = client.Close() })
	return client, nil
}

// Close releases what New acquired.
func (e *Endpoint) Close() {
	for _, release := range slices.Backward(e.close) {
		release()
	}
	e.close = nil
}

// Run serves until ctx ends, then drains and closes. A server that cannot
// listen ends it with an error.
func (e *Endpoint) Run(ctx context.Context) error {
	defer e.Close()
	e.options.Logger.Info("Starting", "policies", len(e.engine.Snapshot().Plans()),
		"http", e.options.HTTPAddress, "grpc", e.options.GRPCAddress, "metrics", e.options.MetricsAddress)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return named("http", e.http.Start(ctx)) })
	if e.options.GRPCAddress != "" {
		group.Go(func() error { return named("grpc", e.grpc.Start(ctx)) })
	}
	if e.options.MetricsAddress != "" {
		group.Go(func() error { return named("metrics", e.metrics.Start(ctx)) })
	}
	group.Go(func() error { return named("policies", e.watch(ctx)) })
	err := group.Wait()
	e.options.Logger.Info("Stopped")
	return err
}

func named(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
