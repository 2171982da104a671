// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import "github.com/prometheus/client_golang/prometheus"

// Register registers the metrics of the store. docs/metrics.md describes them.
func (s *Store) Register(r prometheus.Registerer) {
	r.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weir_local_keys",
			Help: "Keys with state in this process, counted for each policy.",
		}, func() float64 { return float64(s.Keys()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weir_local_keys_limit",
			Help: "Maximum number of keys with state in this process, set by --local-keys.",
		}, func() float64 { return float64(s.limit) }),
	)
}
