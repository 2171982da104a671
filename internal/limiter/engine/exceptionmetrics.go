// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// exceptionsDesc is the metric of liveExceptions. docs/metrics.md describes it.
var exceptionsDesc = prometheus.NewDesc("weir_exceptions",
	"Exceptions of keys that this replica has loaded and that have not ended.", []string{"namespace"}, nil)

// liveExceptions counts the exceptions of each Namespace that have not ended.
type liveExceptions struct {
	snapshot func() *index.Snapshot // nil before the first one
	now      func() time.Time
}

// Describe implements prometheus.Collector.
func (liveExceptions) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- exceptionsDesc }

// Collect implements prometheus.Collector.
func (l liveExceptions) Collect(values chan<- prometheus.Metric) {
	snapshot := l.snapshot()
	if snapshot == nil {
		return
	}
	live, now := map[string]int{}, l.now()
	for _, e := range snapshot.Exceptions() {
		if now.Before(e.Until()) {
			live[e.Namespace]++
		}
	}
	for namespace, n := range live {
		values <- prometheus.MustNewConstMetric(exceptionsDesc, prometheus.GaugeValue, float64(n), namespace)
	}
}
