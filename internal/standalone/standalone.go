// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
)

// Options configure a standalone endpoint.
type Options struct {
	// Options are the options of every endpoint. New sets Redis, from RedisURL, and LiveReplicas.
	endpoint.Options
	// Policies are the folders of the policy files. At least one.
	Policies []string
	// RedisURL locates the Redis of the counters (default: they are kept in this process),
	// RedisFiles its credentials and certificates.
	RedisURL   string
	RedisFiles redisclient.Files
	// Replicas is the number of processes that share Redis; less than 1 is 1.
	Replicas int
}

// Server is a standalone decision endpoint.
type Server struct {
	*endpoint.Server
	options  Options
	files    *policyFiles
	monitor  *redisclient.Monitor // nil without Redis
	badFiles prometheus.Gauge
	// loggedProblems are the problems that were logged, by file.
	loggedProblems map[string]string
}

// New loads the policies and prepares an endpoint. An invalid policy file is an error
// here: there are no last good plans yet, and starting without its limits would lift
// them silently.
func New(ctx context.Context, o Options) (*Server, error) {
	e := &Server{
		options: o,
		files:   newPolicyFiles(o.Policies),
		badFiles: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_policy_files_bad",
			Help: "Policy files that failed to load; their last good plans stay in force.",
		}),
	}
	o.Registry.MustRegister(e.badFiles)
	snapshot, err := e.firstLoad(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.connect(); err != nil {
		return nil, err
	}
	e.Server = endpoint.New(e.options.Options) //nolint:contextcheck // exchanges of slices outlive checks
	e.Use(snapshot)
	return e, nil
}

// firstLoad loads the policies. No policy at all is an error: it is probably the wrong folder.
func (e *Server) firstLoad(ctx context.Context) (*index.Snapshot, error) {
	snapshot, errs := e.files.load(ctx)
	all := make([]error, len(errs))
	for i, err := range errs {
		all[i] = err
		if slices.Contains(e.options.Policies, err.path) {
			all[i] = fmt.Errorf("--policies %w", err)
		}
	}
	if len(errs) == 0 && len(snapshot.Plans()) == 0 {
		return nil, fmt.Errorf("--policies %s: no RateLimitPolicy in the .yaml, .yml and .json files of the folder",
			strings.Join(e.options.Policies, ", "))
	}
	return snapshot, errors.Join(all...)
}

// connect creates the client of the given Redis, if any.
func (e *Server) connect() error {
	e.options.LiveReplicas = func() int { return e.options.Replicas }
	if e.options.RedisURL == "" {
		e.options.Logger.Info("Counting in memory; counters are lost when this process ends")
		return nil
	}
	client, err := e.options.RedisFiles.New(e.options.RedisURL, e.options.StoreTimeout)
	if err != nil {
		return fmt.Errorf("--redis-url: %w", err)
	}
	e.options.Redis = client
	clock := redisclient.NewClock(e.options.Now)
	e.options.RedisTime = clock.Now
	e.monitor = redisclient.NewMonitor(redisclient.MonitorOptions{
		Counters: client, Clock: clock, Logger: e.options.Logger, Registerer: e.options.Registry,
	})
	return nil
}

// Close releases what New acquired.
func (e *Server) Close() {
	if e.options.Redis != nil {
		_ = e.options.Redis.Close()
	}
}

// Run binds the ports and serves until ctx ends, then drains and closes.
func (e *Server) Run(ctx context.Context) error {
	defer e.Close()
	if err := e.Bind(ctx); err != nil {
		return err
	}
	e.options.Logger.Info("Starting", "policies", len(e.Snapshot().Plans()),
		"http", e.HTTP.Addr(), "grpc", e.GRPC.Addr(), "operator", e.Operator.Addr(), "metrics", e.Metrics.Addr())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.Server.Run(ctx) })
	group.Go(func() error { return e.watch(ctx) })
	if e.monitor != nil {
		group.Go(func() error { return e.monitor.Start(ctx) })
	}
	if command := e.options.RedisFiles.Command; command != nil {
		group.Go(func() error { return command.Start(ctx) })
	}
	err := group.Wait()
	e.options.Logger.Info("Stopped")
	return err
}
