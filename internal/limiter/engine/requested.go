// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// maxRequested bounds the variants that a policy caches for requested limits. Beyond it,
// a new requested limit is prepared again for each check.
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
	if p.requestedCount.Add(1) <= maxRequested {
		p.requestedVariants.Store(key, v)
	}
	return v
}

// newRequested replaces the limit with the same window, or the only limit.
func (p *policy) newRequested(selected *variant, limit limiter.RequestedLimit) *variant {
	place := slices.IndexFunc(selected.limits, func(l plan.Limit) bool { return l.Window() == limit.Window })
	if place < 0 && len(selected.limits) == 1 && slices.Contains(limiter.RequestableWindows, limit.Window) {
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
	// Prepared together with all variants: a log keeps the hits that any of them needs.
	v.script = p.variantScripts(slices.Insert(p.variants(), 0, v)...)[0]
	return v
}

// allStates returns a script policy that covers every state a key can have, also those of
// requested limits, whose window is part of the name of the state.
func (p *policy) allStates() *script.Policy {
	variants := p.variants()
	for _, base := range p.variants() {
		for _, window := range limiter.RequestableWindows {
			if v := p.newRequested(base, limiter.RequestedLimit{Units: 1, Window: window}); v != nil {
				variants = append(variants, v)
			}
		}
	}
	return p.variantScripts(variants...)[0]
}
