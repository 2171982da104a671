// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

const (
	// monitorPeriod is the time between two questions to Redis.
	monitorPeriod = time.Second

	// monitorTimeout bounds a question, with the time to connect. Decisions do not wait so
	// long.
	monitorTimeout = dialTimeout
)

// MonitorOptions configure a Monitor.
type MonitorOptions struct {
	// Counters is the client of decisions. Required.
	Counters redis.UniversalClient
	// Registry is the client of the registry; may be nil.
	Registry redis.UniversalClient
	// Clock learns the time of Redis once a second; may be nil.
	Clock *Clock
	// Logger is required.
	Logger *slog.Logger
	// Registerer registers the metrics; nil does not export them.
	Registerer prometheus.Registerer
}

// Monitor reports whether Redis is available: in the log when this changes, and as a metric. It
// also logs versions that are older than the tested ones, and exports the numbers of connections.
type Monitor struct {
	options MonitorOptions
	up      atomic.Bool
	wasUp   atomic.Bool // at least once

	// Used only by the goroutine of Start.
	asked   bool
	servers []server // that answered last
}

// NewMonitor returns a Monitor.
func NewMonitor(o MonitorOptions) *Monitor {
	m := &Monitor{options: o}
	if o.Registerer != nil {
		o.Registerer.MustRegister(m)
	}
	return m
}

// Start asks Redis at once and then once a second until ctx ends.
func (m *Monitor) Start(ctx context.Context) error {
	every := time.NewTicker(monitorPeriod)
	defer every.Stop()
	for {
		servers, err := askServers(ctx, m.options.Counters)
		if err == nil && m.options.Clock != nil {
			err = m.options.Clock.ask(ctx, m.options.Counters)
		}
		if ctx.Err() == nil {
			m.setState(servers, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

// setState logs changes and then sets the metric: who sees it change finds the lines in the log.
func (m *Monitor) setState(servers []server, err error) {
	up := err == nil
	defer func() {
		m.up.Store(up)
		if up {
			m.wasUp.Store(true)
		}
	}()
	changed := !m.asked || m.up.Load() != up
	m.asked = true
	if changed && up {
		m.options.Logger.Info("Redis is available", "servers", servers)
	}
	if changed && !up {
		m.options.Logger.Warn("Redis is unavailable; the failureMode of each policy decides", "error", err)
	}
	if !up || slices.Equal(servers, m.servers) {
		return
	}
	m.servers = servers
	for _, s := range servers {
		if oldest := s.oldestTested(); oldest != "" {
			m.options.Logger.Warn("Redis is older than the oldest tested version", "server", s, "oldest", oldest)
		}
	}
}

// askServers returns the servers that answered, of a cluster all masters, each kind once.
func askServers(ctx context.Context, client redis.UniversalClient) ([]server, error) {
	ctx, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		s, err := askServer(ctx, client)
		return []server{s}, err
	}
	var mu sync.Mutex
	var servers []server
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		s, err := askServer(ctx, master)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(servers, s) {
			servers = append(servers, s)
		}
		return err
	})
	slices.SortFunc(servers, compareServers)
	return servers, err
}

// askServer returns the kind of a server. A proxy in front of Redis may not support HELLO; the
// kind is then unknown.
func askServer(ctx context.Context, client redis.UniversalClient) (server, error) {
	hello := redis.NewMapStringInterfaceCmd(ctx, "HELLO", 2)
	err := client.Process(ctx, hello)
	if _, isReply := errors.AsType[redis.Error](err); isReply {
		return server{}, client.Ping(ctx).Err()
	}
	name, _ := hello.Val()["server"].(string)
	version, _ := hello.Val()["version"].(string)
	return server{name, version}, err
}

// The metrics. docs/metrics.md describes them.
var (
	upDesc = prometheus.NewDesc("weir_redis_up",
		"1 while Redis answers a probe each second, else 0.", nil, nil)
	connectionsDesc = prometheus.NewDesc("weir_redis_connections",
		"Open connections to Redis.", []string{"client", "state"}, nil)
	timeoutsDesc = prometheus.NewDesc("weir_redis_connection_timeouts_total",
		"Commands that got no connection to Redis in time.", []string{"client"}, nil)
)

// Describe implements prometheus.Collector.
func (*Monitor) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- upDesc
	descriptions <- connectionsDesc
	descriptions <- timeoutsDesc
}

// Collect implements prometheus.Collector.
func (m *Monitor) Collect(values chan<- prometheus.Metric) {
	up := 0.0
	if m.up.Load() {
		up = 1
	}
	values <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up)
	if !m.wasUp.Load() {
		return // the client of a cluster would first look for the nodes
	}
	collectConnections(values, "counters", m.options.Counters)
	if m.options.Registry != nil {
		collectConnections(values, "registry", m.options.Registry)
	}
}

func collectConnections(values chan<- prometheus.Metric, name string, client redis.UniversalClient) {
	stats := client.PoolStats()
	total, idle, timeouts := stats.TotalConns, stats.IdleConns, stats.Timeouts
	if pipelines := stats.PipelineStats; pipelines != nil { // a pool of its own
		total += pipelines.TotalConns
		idle += pipelines.IdleConns
		timeouts += pipelines.Timeouts
	}
	gauge := func(n uint32, state string) {
		values <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(n), name, state)
	}
	gauge(idle, "idle")
	gauge(total-min(idle, total), "used")                          // the two are not read at one instant
	if _, isCluster := client.(*redis.ClusterClient); !isCluster { // which does not count them
		gauge(stats.PubSubStats.Active, "subscribed")
	}
	values <- prometheus.MustNewConstMetric(timeoutsDesc, prometheus.CounterValue, float64(timeouts), name)
}
