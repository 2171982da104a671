// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// maxStrict bounds the strict variants that a policy caches. When there are more, the cache is emptied
// and fills with those still in use.
const maxStrict = 256

// strictKey identifies a strict variant: the override that is selected, nil for none, and the set of the
// unjudged ones.
type strictKey struct {
	selected *override
	unjudged uint64
}

// variantFor returns the variant of the selected override, or the policy's own. With unjudged overrides
// it has the stricter numbers of all of them.
func (p *policy) variantFor(s *selection) *variant {
	if s.unjudged == 0 {
		return p.variantIf(s.override)
	}
	key := strictKey{selected: s.override, unjudged: s.unjudged}
	if found, ok := p.strictVariants.Load(key); ok {
		return found.(*variant) //nolint:forcetypeassert // only variants are stored
	}
	v := p.newStrict(key)
	if p.strictCount.Add(1) > maxStrict {
		p.strictVariants.Clear()
		p.strictCount.Store(1)
	}
	p.strictVariants.Store(key, v)
	return v
}

// variantIf returns the variant of the override, or the policy's own for nil.
func (p *policy) variantIf(o *override) *variant {
	if o == nil {
		return p.base
	}
	return o.variant
}

// newStrict returns the variant with the stricter numbers of the selected variant and the unjudged ones.
// A key that an override exempts has those of the unjudged ones.
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
	if v := p.variantIf(key.selected); v != nil {
		add(v)
	}
	for i := range p.overrides {
		if key.unjudged&(1<<i) != 0 {
			add(p.overrides[i].variant)
		}
	}
	v := newVariant(p.plan, strict.override, strict.limits)
	v.stored = p.storedVariants(p.id, append(p.variants(), v)...)[len(p.variants())]
	return v
}
