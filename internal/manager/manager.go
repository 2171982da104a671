// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/kubeauth"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/registry"
	"github.com/weir-dev/weir/internal/limiter/server/connlimit"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/internal/limiter/server/httpserver"
	"github.com/weir-dev/weir/internal/limiter/server/listen"
	"github.com/weir-dev/weir/internal/limiter/traffic"
	"github.com/weir-dev/weir/internal/webhook/intake"
	"github.com/weir-dev/weir/internal/webhook/v1alpha1"
)

// registryTimeout bounds one command to the registry, which may carry all plans.
const registryTimeout = 5 * time.Second

// Options configure a process.
type Options struct {
	// Options are the options of every endpoint. Run sets Redis, from RedisURL.
	endpoint.Options
	// RedisURL locates the Redis of counters and registry, RedisFiles its
	// credentials and certificates.
	RedisURL   string
	RedisFiles redisclient.Files
	// Controllers runs the Kubernetes half, Decisions the decision half.
	Controllers, Decisions bool
	// Config locates the API server. Controllers require it; without it, Decisions have
	// no calls on the state of keys.
	Config *rest.Config
	// Tenancy determines which hosts and domains policies may match.
	Tenancy compile.Tenancy
	// Namespaces determines whose policies are enforced.
	Namespaces Namespaces
	// Budgets bound the plans that the leader publishes.
	Budgets plan.Budgets
	// Lease configures the leader election of Controllers.
	Lease LeaseOptions
	// Webhook is served by every process with Controllers.
	Webhook WebhookOptions
	// Installation is the name of the installation; all its processes share one registry.
	// While one of them is alive, other installations do not write to that registry. It is
	// empty for the UID of the Lease's Namespace and the name of the Lease.
	Installation string
	// InstallationWas is the former name of the installation while a rename rolls out, else
	// empty.
	InstallationWas string
	// Replica is the name of this process, unique among the live replicas.
	Replica string

	clock *redisclient.Clock // set by Run; it learns the time of Redis from heartbeats
}

// tasks run concurrently until the context ends; the first error ends all.
type tasks []func(ctx context.Context) error

func (t *tasks) add(task func(ctx context.Context) error) { *t = append(*t, task) }

func (t *tasks) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, task := range *t {
		group.Go(func() error { return task(ctx) })
	}
	return group.Wait()
}

// Run binds the ports, then runs the halves concurrently until ctx ends, then drains.
func Run(ctx context.Context, o Options) error {
	ctrl.SetLogger(logr.FromSlogHandler(o.Logger.Handler()))
	klog.SetLogger(ctrl.Log)
	counterClient, err := o.RedisFiles.New(o.RedisURL, o.StoreTimeout)
	if err != nil {
		return fmt.Errorf("--redis-url: %w", err)
	}
	defer func() { _ = counterClient.Close() }()
	registryClient, err := o.RedisFiles.New(o.RedisURL, registryTimeout)
	if err != nil {
		return fmt.Errorf("--redis-url: %w", err)
	}
	defer func() { _ = registryClient.Close() }()

	if o.Decisions && o.Config != nil && o.Authorizer == nil {
		if o.Authorizer, err = kubeauth.New(o.Config); err != nil {
			return fmt.Errorf("--kubeconfig: %w", err)
		}
	}

	o.clock = redisclient.NewClock(o.Now)
	o.RedisTime = o.clock.Now
	var todo tasks
	monitor := redisclient.NewMonitor(redisclient.MonitorOptions{
		Counters: counterClient, Registry: registryClient, Logger: o.Logger, Registerer: o.Registry,
	})
	todo.add(monitor.Start)
	if o.RedisFiles.Command != nil {
		todo.add(o.RedisFiles.Command.Start)
	}
	o.Redis = counterClient
	o.Metrics = prometheus.Gatherers{o.Registry, crmetrics.Registry}
	installation := registry.NewInstallation(o.Installation, o.InstallationWas)
	name := newNamer(&o, installation)
	todo.add(name.run)
	if o.Controllers {
		o.Webhook.Expiry, o.Webhook.Reviews = o.Expiry, v1alpha1.NewReviews(o.Registry)
		c := &controllers{
			options: &o, name: name, policies: NewPolicyMetrics(o.Registry),
			now: time.Now, started: time.Now(), //nolint:forbidigo // the age of the process
			traffic: traffic.NewReader(registryClient, o.RedisPrefix),
			intake:  intake.New(intake.Options{Judged: runtime.GOMAXPROCS(0), Registerer: o.Registry}),
		}
		c.writer = registry.NewWriter(registryClient, o.RedisPrefix, registry.WriterOptions{
			Installation: installation, LeaseDuration: o.Lease.Duration, Budgets: o.Budgets, Unready: c.unready, Clock: o.clock,
			Logger: o.Logger, Registerer: o.Registry,
		})
		o.Healthy = c.Err
		todo.add(c.run)
	}
	if o.Decisions {
		err = serveDecisions(ctx, &todo, registryClient, installation, o)
	} else {
		standby := &registry.Standby{
			Client: registryClient, Prefix: o.RedisPrefix, Installation: installation, Name: o.Replica, Logger: o.Logger,
		}
		todo.add(standby.Start)
		err = serveHealth(ctx, &todo, o)
	}
	if err != nil {
		return err
	}
	o.Logger.Info("Starting", "replica", o.Replica, "controllers", o.Controllers, "decisions", o.Decisions)
	err = todo.run(ctx)
	o.Logger.Info("Stopped")
	return err
}

// serveDecisions binds the ports, and adds the tasks that follow the registry and answer checks.
func serveDecisions(
	ctx context.Context, todo *tasks, registryClient redis.UniversalClient, installation *registry.Installation, o Options,
) error {
	watcher := registry.NewWatcher(registryClient, o.RedisPrefix, registry.WatcherOptions{
		Installation: installation, Replica: o.Replica, Clock: o.clock, Logger: o.Logger, Registerer: o.Registry,
	})
	o.Replicas = func(ctx context.Context) []httptypes.Replica { return replicas(ctx, watcher) }
	o.LiveReplicas = watcher.LiveReplicas
	o.ReplicaName = o.Replica
	o.Traffic = true
	o.Unready = watcher.Unready
	o.Ready = watcher.Err
	decisions := endpoint.New(o.Options) //nolint:contextcheck // exchanges of slices outlive checks
	if err := decisions.Bind(ctx); err != nil {
		return err
	}
	// The watcher outlives the drain: the last decisions use the latest plans, and the
	// replica stays in the list of live ones.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	todo.add(func(ctx context.Context) error {
		defer stop()
		return decisions.Run(ctx)
	})
	todo.add(func(context.Context) error { return watcher.Start(watching, decisions.Use) })
	return nil
}

// replicas returns the live replicas in the form of the HTTP API.
func replicas(ctx context.Context, w *registry.Watcher) []httptypes.Replica {
	var list []httptypes.Replica
	for _, r := range w.Replicas(ctx) {
		list = append(list, httptypes.Replica{Name: r.Name, Revision: r.Revision, Skips: r.Skips()})
	}
	return list
}

// serveHealth binds the ports of probes and metrics in a process without decisions, and adds the
// tasks that serve them.
func serveHealth(ctx context.Context, todo *tasks, o Options) error {
	var draining atomic.Bool
	probe := func(ready bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if err := o.Healthy(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			if ready && draining.Load() {
				http.Error(w, "the server is draining", http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("ok"))
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", probe(false))
	mux.Handle("GET /readyz", probe(true))
	connections := connlimit.New(connlimit.Options{Registerer: o.Registry, Logger: o.Logger})
	probes := httpserver.Options{
		Address: o.HTTPAddress, Handler: mux, OnDrain: func() { draining.Store(true) }, Logger: o.Logger,
		Connections: connections, Port: "http",
	}
	if o.TLS != nil {
		probes.TLS = o.TLS.HTTP()
		todo.add(o.TLS.Start)
	}
	metrics := httpserver.Options{
		Address: o.MetricsAddress, Handler: endpoint.MetricsHandler(o.Metrics), Logger: o.Logger,
		Connections: connections, Port: "metrics",
	}
	var ports []listen.Port
	for flag, server := range map[string]httpserver.Options{"--http-address": probes, "--metrics-address": metrics} {
		if server.Address != "" {
			p := listen.Port{Flag: flag, Address: server.Address, Server: httpserver.New(server)}
			ports = append(ports, p)
			todo.add(p.Start)
		}
	}
	return listen.Bind(ctx, ports...)
}
