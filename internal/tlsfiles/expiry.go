// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var expiryDesc = prometheus.NewDesc("weir_certificate_expiry_timestamp_seconds",
	"Expiry of a certificate of this process, in Unix time.", []string{"certificate"}, nil)

// Expiry exports when certificates expire.
type Expiry struct {
	mu      sync.Mutex
	expires map[string]func() time.Time
}

// NewExpiry registers the metric.
func NewExpiry(r prometheus.Registerer) *Expiry {
	e := &Expiry{expires: map[string]func() time.Time{}}
	r.MustRegister(e)
	return e
}

// Add adds a certificate by its name. The function returns the zero time while there is
// no certificate. A nil Expiry does nothing.
func (e *Expiry) Add(certificate string, expires func() time.Time) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expires[certificate] = expires
}

// Times returns when each certificate expires. A nil Expiry has none.
func (e *Expiry) Times() map[string]time.Time {
	times := map[string]time.Time{}
	if e == nil {
		return times
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for certificate, expires := range e.expires {
		if at := expires(); !at.IsZero() {
			times[certificate] = at
		}
	}
	return times
}

// Describe implements prometheus.Collector.
func (*Expiry) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- expiryDesc }

// Collect implements prometheus.Collector.
func (e *Expiry) Collect(metrics chan<- prometheus.Metric) {
	for certificate, at := range e.Times() {
		metrics <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, float64(at.Unix()), certificate)
	}
}
