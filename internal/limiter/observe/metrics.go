// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// drops counts what was not recorded, by cause. It collects the metric, which docs/metrics.md
// describes.
type drops struct {
	buffer   atomic.Int64 // a buffer was full
	policies atomic.Int64 // too many policies deny
	redis    atomic.Int64 // Redis did not accept the blocks
}

var droppedTotal = prometheus.NewDesc("weir_observe_dropped_total",
	"Denials and started blocks that are missing in the lists of keys.", []string{"cause"}, nil)

// Describe implements prometheus.Collector.
func (*drops) Describe(out chan<- *prometheus.Desc) { out <- droppedTotal }

// Collect implements prometheus.Collector.
func (d *drops) Collect(out chan<- prometheus.Metric) {
	for cause, n := range map[string]*atomic.Int64{"buffer": &d.buffer, "policies": &d.policies, "redis": &d.redis} {
		out <- prometheus.MustNewConstMetric(droppedTotal, prometheus.CounterValue, float64(n.Load()), cause)
	}
}

func (d *drops) sum() int64 { return d.buffer.Load() + d.policies.Load() + d.redis.Load() }
