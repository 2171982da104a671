// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"

	"github.com/weir-dev/weir/internal/limiter/traffic"
)

// startReporting starts the reports of which policies have traffic, if there are any. They outlive ctx, as
// decisions do while the endpoint drains: call stop after the last decision.
func (e *Endpoint) startReporting(ctx context.Context) (stop func()) {
	o := &e.options
	if !o.Traffic || o.Redis == nil {
		return func() {}
	}
	reporter := traffic.NewReporter(traffic.Options{Redis: o.Redis, Prefix: o.RedisPrefix, Each: e.Sightings, Logger: o.Logger})
	return startUntilStopped(ctx, reporter.Start)
}
