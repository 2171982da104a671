// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"

	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/traffic"
)

// newReporter returns the Reporter of which policies have traffic; nil if nothing reads the reports.
func (e *Endpoint) newReporter() *traffic.Reporter {
	o := &e.options
	if !o.Traffic || o.Redis == nil {
		return nil
	}
	reporter := traffic.NewReporter(traffic.Options{Redis: o.Redis, Prefix: o.RedisPrefix, Each: e.Sightings, Logger: o.Logger})
	if o.MetricsDetail != engine.DetailNamespace {
		o.Registry.MustRegister(reporter)
	}
	return reporter
}

// startReporting starts the reports, if there are any. They outlive ctx, as decisions do while the endpoint
// drains: call stop after the last decision.
func (e *Endpoint) startReporting(ctx context.Context) (stop func()) {
	if e.reporter == nil {
		return func() {}
	}
	return startUntilStopped(ctx, e.reporter.Start)
}
