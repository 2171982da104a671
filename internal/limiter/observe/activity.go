// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
)

// Activity implements limiter.Observer. It waits up to 2.5 seconds for other replicas. While Redis
// does not answer, they are missing.
func (c *Collector) Activity(ctx context.Context, scope limiter.Scope) (*limiter.Activity, error) {
	c.drain()
	parts, err := c.look(ctx, scope)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	a := merge(parts, scopeText(scope))
	for _, p := range parts {
		a.Reported = append(a.Reported, p.Replica)
	}
	slices.Sort(a.Reported)
	a.Missing = c.missing(parts)
	return a, nil
}
