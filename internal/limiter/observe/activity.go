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
	left := c.left(ctx) // before look: a replica that ends in between counts once, or not at all
	parts, err := c.awaitParts(ctx, scope, left)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	all := slices.Concat(parts, left)
	a := merge(all, scopeText(scope))
	a.Since = countedSince(all)
	for _, p := range parts {
		a.Reported = append(a.Reported, p.Replica)
	}
	slices.Sort(a.Reported)
	a.Missing = c.missing(ctx, parts, left)
	return a, nil
}
