// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Reviews counts what the webhook answers.
type Reviews struct{ total *prometheus.CounterVec }

// NewReviews returns counters that are registered with r.
func NewReviews(r prometheus.Registerer) *Reviews {
	return &Reviews{total: promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "weir_webhook_reviews_total",
		Help: "Created and edited policies and key groups that the webhook judged, by result.",
	}, []string{"result"})}
}

// count counts one answer. A nil receiver counts nothing.
func (c *Reviews) count(warnings []string, err error) {
	if c == nil {
		return
	}
	result := "accepted"
	switch {
	case err != nil:
		result = "rejected"
	case len(warnings) > 0:
		result = "warned"
	}
	c.total.WithLabelValues(result).Inc()
}
