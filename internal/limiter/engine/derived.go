// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// requestedKey identifies a requested limit in a variant.
type requestedKey struct {
	selected *variant
	limit    limiter.RequestedLimit
}

// requestedVariant returns the selected variant with the requested limit in place of one of
// its limits, or nil if it has no limit to replace.
func (p *policy) requestedVariant(selected *variant, limit limiter.RequestedLimit) *variant {
	key := requestedKey{selected: selected, limit: limit}
	return p.requested.get(key, func() *variant { return p.newRequested(selected, limit) })
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
	// A request replaces the numbers of an exception, so it counts in the same state without one.
	limits[place] = selected.withoutException().limits[place].Requested(limit.Units, limit.Window)
	v := newVariant(p.plan, selected.override, limits)
	v.exception, v.replaced = selected.exception, selected.replaced
	if limit.Units == 0 {
		v.smallestQuota, v.quotas[place] = 0, 0
	}
	v.stored = selected.stored.NewRequested(v.storedLimits(), place)
	return v
}

// allStates returns a policy for stores that covers every state a key can have, also states under exceptions and of
// requested limits with another window. The store lists those with another rate.
func (p *policy) allStates() *store.Policy {
	variants := p.withExceptions(p.variants())
	for _, base := range p.variants() {
		for _, window := range limiter.RequestableWindows {
			if v := p.newRequested(base, limiter.RequestedLimit{Units: 1, Window: window}); v != nil {
				variants = append(variants, v)
			}
		}
	}
	return p.storedVariants(p.id, variants...)[0]
}

// allTrialStates returns a policy for stores that covers every state a key can have in the candidates, or nil without
// candidates.
func (p *policy) allTrialStates() *store.Policy {
	var variants []*variant
	for _, v := range p.variants() {
		if v.trial != nil {
			variants = append(variants, v.trial.variant)
		}
	}
	if len(variants) == 0 {
		return nil
	}
	return p.storedVariants(p.id+candidateSuffix, p.withExceptions(variants)...)[0]
}

// withExceptions returns the variants, and each once more with the states in which it counts under exceptions.
func (p *policy) withExceptions(variants []*variant) []*variant {
	all := slices.Clone(variants)
	for _, v := range variants {
		all = append(all, newVariant(p.plan, v.override, plan.InExceptionStates(v.limits)))
	}
	return all
}

// strictKey identifies a strict variant: the override that is selected, nil for none, and the set of the
// unjudged ones.
type strictKey struct {
	selected *override
	unjudged uint64
}

// selectedVariant returns the variant of the selected override, nil if this override has no limits, or the
// policy's own if no override is selected. Unjudged overrides make its numbers the stricter ones of all.
func (p *policy) selectedVariant(s *selection) *variant {
	if s.unjudged == 0 {
		return p.variantOf(s.override)
	}
	key := strictKey{selected: s.override, unjudged: s.unjudged}
	return p.strict.get(key, func() *variant { return p.newStrict(key) })
}

// variantOf returns the variant of the override, or the policy's own for nil.
func (p *policy) variantOf(o *override) *variant {
	if o == nil {
		return p.base
	}
	return o.variant
}

// newStrict returns the variant with the stricter numbers of the selected variant and the unjudged ones.
// A key that an override exempts has the numbers of the unjudged ones.
func (p *policy) newStrict(key strictKey) *variant {
	var strict *variant
	add := func(v *variant) {
		if strict == nil {
			strict = &variant{override: v.override, limits: v.limits}
			return
		}
		limits := make([]plan.Limit, len(v.limits))
		for i := range limits {
			limits[i] = strict.limits[i].Stricter(v.limits[i])
		}
		strict.limits = limits
	}
	if v := p.variantOf(key.selected); v != nil {
		add(v)
	}
	for i := range p.overrides {
		if key.unjudged&(1<<i) != 0 {
			add(p.overrides[i].variant)
		}
	}
	v := newVariant(p.plan, strict.override, strict.limits)
	all := append(p.variants(), v) // the form for stores depends on all variants
	v.stored = p.storedVariants(p.id, all...)[len(all)-1]
	return v
}
