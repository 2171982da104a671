// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine/series"
	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/flood"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/traffic"
)

// policy is one plan, prepared for deciding.
type policy struct {
	plan           *plan.Plan
	id             string
	base           *variant
	conditions     []*lazyExpression[bool]   // one per match, nil without a when
	keyExpressions []*lazyExpression[string] // one per key part, nil unless it is an expression
	overrides      []override
	cost           func() (*expression.Cost, error) // of commits, compiled on first use; nil if they name it
	hasExpressions bool
	groups         groupPlaces    // that the overrides select
	keyPrice       func() price   // of the expressions of the key and the overrides, computed once; nil without expressions
	newKeys        *flood.Budget  // set before the first decision
	ids            *flood.Budget  // of charges that the store remembers, set before the first decision
	series         *series.Series // set before the first decision
	sightings      traffic.Sightings
	exceptions     atomic.Pointer[exceptions] // of the current snapshot

	requested variantCache // by requestedKey; a nil variant means not applicable
	strict    variantCache // by strictKey
}

// expressionFailure is an expression that failed for a request.
type expressionFailure struct {
	policy *policy
	field  string // path of the expression within the policy
}

func newPolicy(id string, p *plan.Plan) *policy {
	prepared := &policy{plan: p, id: id, base: newVariant(p, "", p.Limits), sightings: traffic.NewSightings(p)}
	prepared.prepareExpressions()
	for i := range p.Overrides {
		o := newOverride(p, i)
		if o.action == plan.ActionLimit {
			o.variant = newVariant(p, o.name, p.LimitsOf(&p.Overrides[i]))
		}
		prepared.overrides = append(prepared.overrides, o)
	}
	prepared.hasExpressions = prepared.usesExpressions()
	prepared.groups = placeGroups(prepared.overrides)
	if prepared.hasExpressions {
		prepared.keyPrice = sync.OnceValue(prepared.newKeyPrice)
	}
	prepared.setStored(prepared.id, prepared.variants())
	prepared.prepareTrials()
	return prepared
}

func (p *policy) prepareExpressions() {
	p.conditions = make([]*lazyExpression[bool], len(p.plan.Matches))
	for i, m := range p.plan.Matches {
		if m.When != "" {
			p.conditions[i] = newLazyExpression[bool](fmt.Sprintf("spec.matches[%d].when", i), m.When)
		}
	}
	if text := p.plan.Reservations.Cost; text != "" {
		p.cost = sync.OnceValues(func() (*expression.Cost, error) { return expression.CompileCost(text) }) // takes up to 10 ms
	}
	p.keyExpressions = make([]*lazyExpression[string], len(p.plan.Key))
	for i, part := range p.plan.Key {
		if part.Type == plan.KeyExpression {
			p.keyExpressions[i] = newLazyExpression[string](fmt.Sprintf("spec.key[%d].expression.cel", i), part.Expression)
		}
	}
}

// usesExpressions reports whether the policy has any expression.
func (p *policy) usesExpressions() bool {
	return slices.ContainsFunc(p.conditions, func(c *lazyExpression[bool]) bool { return c != nil }) ||
		slices.ContainsFunc(p.keyExpressions, func(part *lazyExpression[string]) bool { return part != nil }) ||
		slices.ContainsFunc(p.overrides, func(o override) bool { return o.when != nil })
}

// setStored sets the form of the variants for stores. They must be all variants with this ID.
func (p *policy) setStored(id string, variants []*variant) {
	for i, s := range p.storedVariants(id, variants...) {
		variants[i].stored = s
	}
}

// storedVariants returns the form of the variants for stores, where the ID names their states.
func (p *policy) storedVariants(id string, variants ...*variant) []*store.Policy {
	limits := make([][]store.Limit, len(variants))
	for i, v := range variants {
		limits[i] = v.storedLimits()
	}
	return store.NewVariants(store.Settings{
		ID:          id,
		Attempts:    p.plan.Counting == plan.CountAttempts,
		Shadow:      p.plan.Mode == plan.ModeShadow,
		Requestable: p.plan.DependsOnDescriptors(),
		MaxOpen:     p.plan.Reservations.MaxOpen,
		Slices:      store.Slices{MaxPercent: p.plan.Slices.MaxPercent, MaxAge: p.plan.Slices.MaxAge()},

		BlockOnCommit: p.plan.Reservations.BlockOnCommit,
	}, limits...)
}

// candidateSuffix ends the ID under which stores count candidates. No name has a "+", so candidates share no
// state and no block with a policy.
const candidateSuffix = "+candidate"

// prepareTrials sets the candidates of the variants.
func (p *policy) prepareTrials() {
	if len(p.plan.Candidates) == 0 {
		return
	}
	var variants []*variant
	prepare := func(v *variant, o *plan.Override) {
		limits, replaced := p.plan.CandidateLimits(o)
		if len(replaced) > 0 {
			v.trial = &trial{variant: newVariant(p.plan, v.override, limits), replaced: replaced}
			variants = append(variants, v.trial.variant)
		}
	}
	prepare(p.base, nil)
	for i := range p.overrides {
		if v := p.overrides[i].variant; v != nil {
			prepare(v, &p.plan.Overrides[i])
		}
	}
	p.setStored(p.id+candidateSuffix, variants)
}

// variants returns the base variant and the variants of the overrides.
func (p *policy) variants() []*variant {
	variants := []*variant{p.base}
	for i := range p.overrides {
		if v := p.overrides[i].variant; v != nil {
			variants = append(variants, v)
		}
	}
	return variants
}

// variantNamed returns the variant of the override with the name, or the policy's own if it has no
// such override with limits.
func (p *policy) variantNamed(override string) *variant {
	for i := range p.overrides {
		if o := &p.overrides[i]; o.name == override && o.variant != nil {
			return o.variant
		}
	}
	return p.base
}

func (p *policy) enforces() bool { return p.plan.Mode == plan.ModeEnforce }

// selection is which override selects a key.
type selection struct {
	override *override // nil if none does
	// unjudged has a bit for each earlier override with action Limit that cannot be judged, by index. The
	// numbers of each may apply.
	unjudged uint64
	failures []expressionFailure
	// group is the group by which the override selects the key, "" if it selects by others.
	group string
	// known is true if any override selects a group of the key: a client has not invented the key.
	known bool
}

// overrideOf returns the first override that selects the key. A failing expression does not hold. If it
// fails because a value is too large to read, which a client can cause, the override cannot be judged
// and has the stricter outcome: Deny selects the key, Allow does not, and Limit is recorded as unjudged.
// groups are the groups of the key.
func (p *policy) overrideOf(key []string, groups *groupSet, a *plan.Attributes, descriptors []plan.Descriptor) (s selection) {
	s.known = *groups != groupSet{}
	for i := range p.overrides {
		o := &p.overrides[i]
		selected, err := o.selects(key, groups, a, descriptors)
		if err != nil {
			s.failures = append(s.failures, expressionFailure{policy: p, field: o.when.field})
		}
		if errors.Is(err, expression.ErrUnreadable) {
			selected = o.action == plan.ActionDeny
			if o.action == plan.ActionLimit {
				s.unjudged |= 1 << i
			}
		}
		if selected {
			s.override, s.group = o, o.groupOf(groups)
			return s
		}
	}
	return s
}

// groupsOf returns which of the groups that the policy selects the key is in.
func (p *policy) groupsOf(key []string, namespaces map[string]*keyGroups) groupSet {
	if len(p.groups) == 0 || len(key) != 1 {
		return groupSet{}
	}
	groups := namespaces[p.plan.Namespace]
	if p.plan.CountsAddresses() {
		return groups.ofNetwork(key[0], p.groups)
	}
	return groups.of(key[0], p.groups)
}

// exceptionFor returns the exception that is in force for the key, which the override selects, or nil. A key that
// the override exempts or denies has none.
func (p *policy) exceptionFor(key store.Key, selected *override) *exception {
	if selected != nil && selected.action != plan.ActionLimit {
		return nil
	}
	return p.exceptions.Load().inForce(key)
}

// neverDenies reports whether the policy cannot deny the hits: they are a charge, or spend nothing.
func (p *policy) neverDenies(hits limiter.Hits) bool {
	switch {
	case hits.Action == limiter.HitsCommit:
		return true
	case hits.Action == limiter.HitsReserve || hits.Peek:
		return false
	}
	return p.plan.LateCharges.Include(hits.Cost)
}

// newKeyPrice computes policy.keyPrice.
func (p *policy) newKeyPrice() (sum price) {
	for _, part := range p.keyExpressions {
		if part != nil {
			sum = sum.plus(part.price())
		}
	}
	for i := range p.overrides {
		if when := p.overrides[i].when; when != nil {
			sum = sum.plus(when.price())
		}
	}
	return sum
}

// conditionPrice returns the price of the condition of the match, 0 if it has none.
func (p *policy) conditionPrice(match int) price {
	if condition := p.conditions[match]; condition != nil {
		return condition.price()
	}
	return price{}
}
