// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// maxRequested bounds the variants a policy keeps for requested limits. There are
// as many as there are contracts; a caller that sends ever new ones is served all
// the same, but slower.
const maxRequested = 256

// requestedKey is a limit requested for callers with those limits.
type requestedKey struct {
	base  *variant
	limit limiter.RequestedLimit
}

// requested returns the base with the limit in the place it takes; nil if the
// policy has none for it.
func (p *policy) requested(base *variant, limit limiter.RequestedLimit) *variant {
	key := requestedKey{base, limit}
	if found, ok := p.requestedVariants.Load(key); ok {
		return found.(*variant) //nolint:forcetypeassert // only variants are stored
	}
	v := p.newRequested(base, limit)
	if p.requestedCount.Add(1) <= maxRequested {
		p.requestedVariants.Store(key, v)
	}
	return v
}

func (p *policy) newRequested(base *variant, limit limiter.RequestedLimit) *variant {
	place := slices.IndexFunc(base.limits, func(l plan.Limit) bool { return l.Window() == limit.Window })
	if place < 0 && len(base.limits) == 1 && slices.Contains(limiter.RequestableWindows, limit.Window) {
		place = 0
	}
	if place < 0 {
		return nil
	}
	limits := slices.Clone(base.limits)
	limits[place] = limits[place].Requested(limit.Units, limit.Window)
	v := newVariant(p.plan, base.override, limits)
	if limit.Units == 0 {
		v.smallestQuota, v.quotas[place] = 0, 0
	}
	// Among all others, since a log is kept as long as any of them needs it.
	v.script = p.variantScripts(slices.Insert(p.variants(), 0, v)...)[0]
	return v
}

// allStates returns the policy as a script sees it that knows every state a key
// can have, those of requested limits included: a window is part of what a state is
// called by.
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
