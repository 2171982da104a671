// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpoint assembles the decision half: the engine, the frontends and their listeners,
// and the metrics. Its caller provides the plans.
//
// Reading order: endpoint.go (options and assembly), observe.go (what operators see, and reports of which policies have
// traffic), console.go (the web console), ports.go (binding the addresses), process.go (the state of the
// process), tracing.go (spans).
package endpoint

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
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
	"github.com/weir-dev/weir/internal/limiter/engine/series"
	"github.com/weir-dev/weir/internal/limiter/flood"
	"github.com/weir-dev/weir/internal/limiter/frontend/envoyrls"
	"github.com/weir-dev/weir/internal/limiter/frontend/envoyrls/unsent"
	"github.com/weir-dev/weir/internal/limiter/frontend/extauthz"
	"github.com/weir-dev/weir/internal/limiter/frontend/forwarded"
	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/frontend/probe"
	"github.com/weir-dev/weir/internal/limiter/observe"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/server/connlimit"
	"github.com/weir-dev/weir/internal/limiter/server/grpcserver"
	"github.com/weir-dev/weir/internal/limiter/server/httpserver"
	"github.com/weir-dev/weir/internal/limiter/store/denialcache"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/internal/limiter/store/slicecache"
	"github.com/weir-dev/weir/internal/limiter/traffic"
	"github.com/weir-dev/weir/internal/tlsfiles"
)

// Options configure a Server.
type Options struct {
	// Redis holds the counters. Its client must not retry. Nil keeps them in this process.
	Redis redis.UniversalClient
	// RedisPrefix is the prefix of every key in Redis.
	RedisPrefix string
	// LocalKeys bounds the keys, counted for each policy, that have state in this process. Less
	// than 1 is 1.
	LocalKeys int
	// SliceKeys is the largest number of keys of which this process has slices at a time; 0 takes none.
	SliceKeys int
	// LiveReplicas returns the number of replicas last known to be alive. Policies with
	// failureMode Local divide their limits by it. Nil is 1.
	LiveReplicas func() int
	// HTTPAddress is the address of the HTTP frontend.
	HTTPAddress string
	// GRPCAddress is the address of the gRPC frontends; empty turns them off.
	GRPCAddress string
	// OperatorAddress is the address of the operator port: the state calls and the list of
	// policies; empty turns it off. On loopback it has no TLS and no client certificates.
	OperatorAddress string
	// OperatorOptional lets the endpoint run without the operator port while another process has
	// its address.
	OperatorOptional bool
	// Console serves the web console on the operator port, if there is an Authorizer or with
	// ConsoleGuests, which lets everyone read who reaches that port; it must be on loopback then.
	Console       bool
	ConsoleGuests bool
	// OnConsole is called with the address of the console once it is served; may be nil.
	OnConsole func(url string)
	// MetricsAddress is the address of the metrics; empty turns it off.
	MetricsAddress string
	// TLS provides the certificates of the HTTP and gRPC ports; nil is plain text.
	TLS *tlsfiles.Files
	// Expiry exports when certificates expire; may be nil.
	Expiry *tlsfiles.Expiry
	// Frontend configures all frontends.
	Frontend limiter.FrontendOptions
	// Authorizer authorizes calls that read or change the state of keys; nil turns these
	// calls off.
	Authorizer httpapi.Authorizer
	// StoreTimeout is the longest that a decision waits for Redis.
	StoreTimeout time.Duration
	// Floods bounds the keys that each policy may begin.
	Floods flood.Limits
	// Now is the clock that measures the age of cached denials, and of state in this process; nil
	// is time.Now. A test that sets the clock of Redis sets this one, too.
	Now func() time.Time
	// RedisTime is the clock of Redis, by which exceptions end; nil is Now.
	RedisTime func() time.Time
	// DrainDelay is how long requests are still accepted after draining began.
	DrainDelay time.Duration
	// Logger is required.
	Logger *slog.Logger
	// Registry registers the metrics of decisions. Required.
	Registry *prometheus.Registry
	// MetricsDetail is the detail of the metrics of decisions; "" is engine.DetailPolicy.
	MetricsDetail series.Detail
	// Metrics are the metrics to serve; nil is Registry.
	Metrics prometheus.Gatherer
	// Healthy returns why /healthz should fail, or nil. A nil function is always healthy.
	Healthy func() error
	// Ready returns why /readyz should fail although plans are loaded, or nil. A nil function
	// never fails it.
	Ready func() error
	// Version is the version of the program; may be empty.
	Version string
	// Replicas lists the live replicas; may be nil.
	Replicas func(context.Context) []httptypes.Replica
	// Unready returns the policies that are not Ready, nil if there is no leader that knows; may
	// be nil.
	Unready func() *plan.Unready
	// Observe collects denied and blocked keys and rates, for operators.
	Observe bool
	// Traffic reports in Redis to which policies checks apply.
	Traffic bool
	// ReplicaName is the name of this process among Replicas.
	ReplicaName string
	// Tracer creates spans for requests, decisions and Redis commands; nil creates none.
	// Propagator reads the trace context of callers.
	Tracer     trace.TracerProvider
	Propagator propagation.TextMapPropagator
}

// clock returns Now or its default.
func (o *Options) clock() func() time.Time {
	if o.Now != nil {
		return o.Now
	}
	return time.Now //nolint:forbidigo // the default of the injected clock
}

// exceptionClock returns the clock by which exceptions end.
func (o *Options) exceptionClock() func() time.Time {
	if o.RedisTime != nil {
		return o.RedisTime
	}
	return o.clock()
}

// Server is the engine with its frontends.
type Server struct {
	*engine.Engine
	HTTP     *httpserver.Server
	Operator *httpserver.Server
	Metrics  *httpserver.Server
	GRPC     *grpcserver.Server
	ignored  *forwarded.Ignored
	observed *observe.Collector // nil without Options.Observe
	// connections bounds what clients can hold in all ports.
	connections *connlimit.Set
	unsent      *unsent.Charges // charges of Envoy that Redis did not answer
	prober      *probe.Prober
	// tasks run until the endpoint is to stop, outliving until it has drained.
	tasks, outliving []func(context.Context) error
	options          Options
	// withoutOperator is whether another process has the default address of the operator port.
	withoutOperator bool
}

// New returns an endpoint without plans that does not listen yet.
func New(o Options) *Server {
	e := &Server{options: o, ignored: forwarded.NewIgnored(o.Registry, o.Logger)}
	options := engine.Options{
		Now:        o.exceptionClock(),
		Replicas:   o.LiveReplicas,
		Floods:     o.Floods,
		Registerer: o.Registry,
		Logger:     o.Logger,
		Tracer:     e.tracer(),

		MetricsDetail: o.MetricsDetail,
	}
	e.addStores(&options)
	if e.observed != nil {
		options.Observer = e.observed
	}
	e.Engine = engine.New(options)
	e.unsent = unsent.New(unsent.Options{Committer: e.Engine, Registerer: o.Registry, Logger: o.Logger})
	e.tasks = append(e.tasks, e.unsent.Start)
	if o.TLS != nil {
		e.tasks = append(e.tasks, o.TLS.Start)
	}
	if e.observed != nil {
		e.observed.Watch(e.Decisions)
	}
	e.addReporter()
	e.prober = e.newProber()
	e.connections = connlimit.New(connlimit.Options{Registerer: o.Registry, Logger: o.Logger})
	var httpTLS, grpcTLS *tls.Config
	if o.TLS != nil {
		httpTLS, grpcTLS = o.TLS.HTTP(), o.TLS.GRPC()
	}
	frontend := httpapi.New(e.frontendOptions())
	e.HTTP = httpserver.New(httpserver.Options{
		Address:    o.HTTPAddress,
		Handler:    e.traceHTTP(frontend),
		OnDrain:    frontend.Drain,
		TLS:        httpTLS,
		Logger:     o.Logger,
		DrainDelay: o.DrainDelay,

		Connections: e.connections, Port: "http",
	})
	e.GRPC = grpcserver.New(grpcserver.Options{
		Address:    o.GRPCAddress,
		Services:   e.grpcServices(),
		Tracing:    e.traceGRPC(),
		TLS:        grpcTLS,
		Logger:     o.Logger,
		DrainDelay: o.DrainDelay,

		Connections: e.connections,
	})
	e.Operator = e.operatorServer()
	e.Metrics = httpserver.New(httpserver.Options{
		Address: o.MetricsAddress,
		Handler: MetricsHandler(cmp.Or[prometheus.Gatherer](o.Metrics, o.Registry)),
		Logger:  o.Logger,

		Connections: e.connections, Port: "metrics",
	})
	return e
}

// addStores sets the stores of the engine: with Redis slices before cached denials before Redis, each of which takes what
// the former cannot decide, else this process.
func (e *Server) addStores(to *engine.Options) {
	o := &e.options
	local := memory.NewStore(memory.Options{Keys: o.LocalKeys, Now: o.Now})
	local.Register(o.Registry)
	e.tasks = append(e.tasks, local.Start)
	if o.Redis == nil {
		e.observeWith(local)
		to.Store, to.Holds = local, local
		return
	}
	e.traceRedis()
	store := redisstore.NewStore(redisstore.Options{
		Client: o.Redis, Prefix: o.RedisPrefix, Timeout: o.StoreTimeout, Registerer: o.Registry, Logger: o.Logger,
	})
	e.observeWith(store)
	denials := denialcache.New(store, o.clock())
	used := flood.NewMemory(redisclient.MemoryUse(o.Redis, o.Logger, o.Registry), o.Logger)
	e.tasks = append(e.tasks, denials.Start, used.Start)
	to.Store, to.Holds, to.Local, to.MemoryLow = denials, store, local, used.Low
	if o.SliceKeys > 0 {
		sliced := slicecache.New(slicecache.Options{Store: denials, Keys: o.SliceKeys, Registerer: o.Registry})
		denials.ForwardChanges(sliced)
		e.tasks = append(e.tasks, sliced.Start)
		to.Store, to.RetainSlices = sliced, sliced.Retain
	}
}

// newProber returns the Prober of all frontends. Codes are in Redis, so that any replica answers them.
func (e *Server) newProber() *probe.Prober {
	o := &e.options
	now := o.clock()
	store := probe.NewMemoryStore(now)
	if o.Redis != nil {
		store = probe.NewRedisStore(o.Redis, o.RedisPrefix)
	}
	return probe.New(probe.Options{
		Store: store, Snapshot: e.Snapshot, Timeout: o.StoreTimeout, Now: now, ReplicaName: o.ReplicaName, Logger: o.Logger,
	})
}

func (e *Server) frontendOptions() httpapi.Options {
	o := &e.options
	options := httpapi.Options{
		Engine:             e.Engine,
		State:              e.Engine,
		Authorizer:         o.Authorizer,
		Logger:             o.Logger,
		Healthy:            o.Healthy,
		Ready:              o.Ready,
		Version:            o.Version,
		Replicas:           o.Replicas,
		Unready:            o.Unready,
		Frontend:           o.Frontend,
		Ignored:            e.ignored,
		Prober:             e.prober,
		ClientCertificates: o.TLS != nil && o.TLS.VerifiesClients(),
	}
	if o.Traffic && o.Redis != nil {
		options.Traffic = traffic.NewReader(o.Redis, o.RedisPrefix)
	}
	if e.observed != nil {
		options.Blocks, options.Observer = e.observed, e.observed
	}
	return options
}

// operatorServer returns the server of the operator port. A port-forward arrives on loopback, where
// kubectl has authorized it, so the TLS of the other ports does not apply there.
func (e *Server) operatorServer() *httpserver.Server {
	options := e.frontendOptions()
	options.Process = e.describe
	var config *tls.Config
	var announce func(net.Listener) net.Listener
	scheme := "http"
	host, _, err := net.SplitHostPort(e.options.OperatorAddress)
	onLoopback := err == nil && httpapi.IsLoopback(host)
	if onLoopback {
		options.ClientCertificates = false
	} else if e.options.TLS != nil {
		config, scheme = e.options.TLS.HTTP(), "https"
	}
	e.addConsole(&options, onLoopback)
	if options.Console != nil {
		announce = e.announceConsole(scheme)
	}
	frontend := httpapi.NewOperator(options, e.options.OperatorAddress)
	return httpserver.New(httpserver.Options{
		Listener:   announce,
		Address:    e.options.OperatorAddress,
		Handler:    e.traceHTTP(frontend),
		OnDrain:    frontend.Drain,
		TLS:        config,
		Logger:     e.options.Logger,
		DrainDelay: e.options.DrainDelay,

		Connections: e.connections, Port: "operator",
	})
}

func (e *Server) grpcServices() []grpcserver.Service {
	o := &e.options
	return []grpcserver.Service{
		envoyrls.New(envoyrls.Options{Engine: e.Engine, RetryQueue: e.unsent, Frontend: o.Frontend}),
		extauthz.New(extauthz.Options{Engine: e.Engine, Frontend: o.Frontend, Ignored: e.ignored, Prober: e.prober}),
	}
}

// MetricsHandler serves the metrics at /metrics and nothing else.
func MetricsHandler(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

// Use replaces the snapshot for later decisions. The first snapshot sets the gRPC health to
// SERVING.
func (e *Server) Use(snapshot *index.Snapshot) {
	e.Engine.Use(snapshot)
	e.GRPC.Ready()
}

// Run binds the ports, unless Bind did, and serves until ctx ends, then drains.
func (e *Server) Run(ctx context.Context) error {
	if err := e.Bind(ctx); err != nil {
		return err
	}
	defer e.startOutliving(ctx)()
	group, ctx := errgroup.WithContext(ctx)
	for _, task := range e.tasks {
		group.Go(func() error { return task(ctx) })
	}
	for _, p := range e.ports() {
		group.Go(func() error { return p.Start(ctx) })
	}
	err := group.Wait()
	e.unsent.SendRest(context.WithoutCancel(ctx)) // the frontends have ended
	return err
}
