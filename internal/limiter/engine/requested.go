// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/quota"
)

// maxRequested bounds the variants that a policy caches for requested limits. When there are more,
// the cache is emptied and fills with those still in use.
const maxRequested = 256

// requestedKey identifies a requested limit in a variant.
type requestedKey struct {
	selected *variant
	limit    limiter.RequestedLimit
}

// requestedVariant returns the selected variant with the requested limit in place of one of
// its limits, or nil if it has no limit to replace.
func (p *policy) requestedVariant(selected *variant, limit limiter.RequestedLimit) *variant {
	key := requestedKey{selected: selected, limit: limit}
	if found, ok := p.requestedVariants.Load(key); ok {
		return found.(*variant) //nolint:forcetypeassert // only variants are stored
	}
	v := p.newRequested(selected, limit)
	if p.requestedCount.Add(1) > maxRequested {
		p.requestedVariants.Clear()
		p.requestedCount.Store(1)
	}
	p.requestedVariants.Store(key, v)
	return v
}

// newRequested replaces the limit with the same window, or the only limit unless it uses Concurrency.
func (p *policy) newRequested(selected *variant, limit limiter.RequestedLimit) *variant {
	if !slices.Contains(limiter.RequestableWindows, limit.Window) {
		return nil // also no window, which Concurrency has
	}
	place := slices.IndexFunc(selected.limits, func(l plan.Limit) bool { return l.NominalWindow() == limit.Window })
	if place < 0 && len(selected.limits) == 1 && !selected.concurrent {
		place = 0
	}
	if place < 0 {
		return nil
	}
	limits := slices.Clone(selected.limits)
	limits[place] = limits[place].Requested(limit.Units, limit.Window)
	v := newVariant(p.plan, selected.override, limits)
	if limit.Units == 0 {
		v.smallestQuota, v.quotas[place] = 0, 0
	}
	v.stored = selected.stored.NewRequested(v.storedLimits(), place)
	return v
}

// allStates returns a policy for stores that covers every state a key can have, also those of
// requested limits with another window. The store lists those with another rate.
func (p *policy) allStates() *quota.Policy {
	variants := p.variants()
	for _, base := range p.variants() {
		for _, window := range limiter.RequestableWindows {
			if v := p.newRequested(base, limiter.RequestedLimit{Units: 1, Window: window}); v != nil {
				variants = append(variants, v)
			}
		}
	}
	return p.storedVariants(p.id, variants...)[0]
}
