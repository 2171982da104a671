// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// metrics collects the metrics of the nodes. docs/metrics.md describes them.
type metrics struct {
	// nodes returns the nodes by name.
	nodes func() map[string]*node

	latency    *prometheus.HistogramVec
	errors     *prometheus.CounterVec
	rejections *prometheus.CounterVec
	openings   *prometheus.CounterVec
	queue      *prometheus.Desc
	open       *prometheus.Desc
}

func newMetrics() *metrics {
	byNode := []string{"node"}
	return &metrics{
		nodes: func() map[string]*node { return nil },
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_store_round_trip_duration_seconds",
			Help: "Time of the round trips to a Redis node; one decides up to 32 checks.",
			Buckets: []float64{
				100e-6, 200e-6, 300e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 250e-3, 1,
			},
		}, byNode),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_store_errors_total",
			Help: "Round trips to a Redis node that failed, by their first error.",
		}, []string{"node", "cause"}),
		rejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_store_queue_rejections_total",
			Help: "Checks that failed because too many waited for the Redis node.",
		}, byNode),
		openings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_store_breaker_openings_total",
			Help: "Number of times the circuit breaker of a Redis node opened.",
		}, byNode),
		queue: prometheus.NewDesc("weir_store_queue_length", "Checks that wait for a Redis node.", byNode, nil),
		open:  prometheus.NewDesc("weir_store_breaker_open", "1 while no checks are sent to the Redis node, else 0.", byNode, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(descriptions)
	}
	descriptions <- m.queue
	descriptions <- m.open
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(values chan<- prometheus.Metric) {
	for name, n := range m.nodes() {
		open := 0.0
		if n.isDown() {
			open = 1
		}
		values <- prometheus.MustNewConstMetric(m.queue, prometheus.GaugeValue, float64(n.queueLength()), name)
		values <- prometheus.MustNewConstMetric(m.open, prometheus.GaugeValue, open, name)
	}
	for _, c := range m.collectors() {
		c.Collect(values)
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.latency, m.errors, m.rejections, m.openings}
}

// forget deletes the series of a node.
func (m *metrics) forget(name string) {
	labels := prometheus.Labels{"node": name}
	m.latency.Delete(labels)
	m.errors.DeletePartialMatch(labels)
	m.rejections.Delete(labels)
	m.openings.Delete(labels)
}

// nodeMetrics holds the series of one node.
type nodeMetrics struct {
	latency    prometheus.Observer
	errors     *prometheus.CounterVec
	rejections prometheus.Counter
	openings   prometheus.Counter
}

func (m *metrics) ofNode(name string) nodeMetrics {
	return nodeMetrics{
		latency:    m.latency.WithLabelValues(name),
		errors:     m.errors.MustCurryWith(prometheus.Labels{"node": name}),
		rejections: m.rejections.WithLabelValues(name),
		openings:   m.openings.WithLabelValues(name),
	}
}

// observe records a round trip.
func (m *nodeMetrics) observe(d time.Duration, outcomes []outcome) {
	m.latency.Observe(d.Seconds())
	for i := range outcomes {
		if err := outcomes[i].err; err != nil {
			m.fail(err)
			return
		}
	}
}

// fail counts a round trip with an error.
func (m *nodeMetrics) fail(err *store.Error) { m.errors.WithLabelValues(string(err.Cause)).Inc() }
