// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// buckets range from a quiet Redis to an outage of several minutes.
var buckets = []float64{1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1, 2, 5, 15, 60, 300}

func newGauge(r promauto.Factory, name, help string) prometheus.Gauge {
	return r.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func newCounter(r promauto.Factory, name, help string) prometheus.Counter {
	return r.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func newHistogram(r promauto.Factory, name, help string) prometheus.Histogram {
	return r.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// writerMetrics holds the metrics of the leader. docs/metrics.md describes them.
type writerMetrics struct {
	republishes prometheus.Counter
	orphans     prometheus.Counter
	duration    prometheus.Histogram
	leading     prometheus.Gauge
	term        prometheus.Gauge
	published   prometheus.Gauge
}

func newWriterMetrics(registerer prometheus.Registerer) *writerMetrics {
	r := promauto.With(registerer)
	return &writerMetrics{
		leading:   newGauge(r, "weir_leader", "1 while this process holds the leader's term in the registry, else 0."),
		term:      newGauge(r, "weir_registry_term", "Leader: its term, which rises with each change of leader."),
		published: newGauge(r, "weir_registry_published_timestamp_seconds", "Leader: last write to the registry, in Unix time."),
		republishes: newCounter(r, "weir_registry_republishes_total",
			"Leader: number of times that it published all plans in a new epoch."),
		orphans: newCounter(r, "weir_registry_orphans_total", "Leader: plans removed because their policy no longer exists."),
		duration: newHistogram(r, "weir_registry_publish_duration_seconds",
			"Leader: time that Redis took for a batch of changes to the registry."),
	}
}

// watcherMetrics holds the metrics of every replica. docs/metrics.md describes them.
type watcherMetrics struct {
	revision  prometheus.Gauge
	lag       prometheus.Gauge
	following prometheus.Gauge
	replicas  prometheus.Gauge
	size      prometheus.Gauge
	bad       prometheus.Counter
	apply     prometheus.Histogram
}

func newWatcherMetrics(registerer prometheus.Registerer) *watcherMetrics {
	r := promauto.With(registerer)
	return &watcherMetrics{
		revision:  newGauge(r, "weir_registry_revision", "Registry revision that this replica has loaded."),
		lag:       newGauge(r, "weir_registry_lag", "Number of revisions by which this replica is behind the registry."),
		following: newGauge(r, "weir_registry_following", "1 while this replica follows the registry, else 0."),
		replicas:  newGauge(r, "weir_registry_replicas", "Live replicas, as of this replica's last heartbeat."),
		size:      newGauge(r, "weir_snapshot_bytes", "Size of the encoded plans that this replica has loaded."),
		bad: newCounter(r, "weir_registry_bad_payloads_total",
			"Plans in the registry that could not be decoded and were skipped."),
		apply: newHistogram(r, "weir_registry_apply_duration_seconds",
			"Time from the publication of a revision until this replica uses it."),
	}
}
