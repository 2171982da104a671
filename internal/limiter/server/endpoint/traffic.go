// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"github.com/weir-dev/weir/internal/limiter/engine/series"
	"github.com/weir-dev/weir/internal/limiter/traffic"
)

// addReporter adds the Reporter of which policies have traffic, if anything reads the reports.
func (e *Server) addReporter() {
	o := &e.options
	if !o.Traffic || o.Redis == nil {
		return
	}
	reporter := traffic.NewReporter(traffic.Options{Redis: o.Redis, Prefix: o.RedisPrefix, Each: e.Sightings, Logger: o.Logger})
	if o.MetricsDetail != series.DetailNamespace {
		o.Registry.MustRegister(reporter)
	}
	e.outliving = append(e.outliving, reporter.Start)
}
