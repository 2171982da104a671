// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

var lastCheck = prometheus.NewDesc("weir_targets",
	"Last check by a target of a policy on this replica, in Unix time. Updated at most once a minute.",
	[]string{"namespace", "policy", "target"}, nil)

// Describe implements prometheus.Collector.
func (r *Reporter) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- lastCheck }

// Collect implements prometheus.Collector. The series are bounded by the targets of the policies.
func (r *Reporter) Collect(metrics chan<- prometheus.Metric) {
	r.o.Each(func(s *Sightings) {
		for i := range s.targets {
			of := &s.targets[i]
			if second := of.last.Load(); second >= firstSecond {
				at := r.began.Add(time.Duration(second-firstSecond) * time.Second)
				namespace, name := plan.SplitID(s.plan.ID())
				metrics <- prometheus.MustNewConstMetric(lastCheck, prometheus.GaugeValue, float64(at.Unix()), namespace, name, string(of.target))
			}
		}
	})
}
