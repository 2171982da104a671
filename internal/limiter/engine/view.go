// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// view is a snapshot with everything a decision needs prepared: script
// arguments and metric handles are resolved once per plan, not per decision.
type view struct {
	snapshot *plan.Snapshot
	policies map[*plan.Plan]*policy
}

// policy is one plan, prepared.
type policy struct {
	plan           *plan.Plan
	id             string
	base           *variant
	conditions     []*lazy[bool]   // of the matches, nil where there is none
	keyExpressions []*lazy[string] // of the key parts, nil where there is none
	overrides      []override
	metrics        *policyMetrics

	requests     sync.Map // requestedKey -> *variant, nil if there is no place for it
	requestCount atomic.Int64
}

// variant is the limits of a policy with the numbers they have for some
// callers.
type variant struct {
	override      string // whose numbers they are; empty for the policy's own
	limits        []plan.Limit
	quotas        []int64
	smallestQuota int64
	script        *script.Policy
}

// algorithms maps the algorithms of plans to those of scripts.
var algorithms = map[plan.Algorithm]script.Algorithm{
	plan.FixedWindow:   script.FixedWindow,
	plan.SlidingLog:    script.SlidingLog,
	plan.SlidingWindow: script.SlidingWindow,
	plan.TokenBucket:   script.TokenBucket,
	plan.GCRA:          script.GCRA,
	plan.Suppressed:    script.Suppressed,
}

// newView prepares the snapshot. Plans that are unchanged since the previous
// view keep what was prepared for them.
func newView(snapshot *plan.Snapshot, previous *view, m *metrics) *view {
	v := &view{snapshot: snapshot, policies: make(map[*plan.Plan]*policy, len(snapshot.Plans()))}
	for _, p := range snapshot.Plans() {
		if previous != nil && previous.policies[p] != nil {
			v.policies[p] = previous.policies[p]
		} else {
			v.policies[p] = newPolicy(p, m)
		}
	}
	return v
}

func newPolicy(p *plan.Plan, m *metrics) *policy {
	prepared := &policy{plan: p, id: p.ID(), base: newVariant(p, "", p.Limits), metrics: m.policy(p)}
	prepared.prepareExpressions()
	variants := []*variant{prepared.base}
	for i := range p.Overrides {
		o := newOverride(i, &p.Overrides[i])
		if o.action == plan.ActionLimit {
			o.variant = newVariant(p, o.name, p.LimitsOf(&p.Overrides[i]))
			variants = append(variants, o.variant)
		}
		prepared.overrides = append(prepared.overrides, o)
	}
	for i, s := range prepared.variantScripts(variants...) {
		variants[i].script = s
	}
	return prepared
}

func (p *policy) prepareExpressions() {
	p.conditions = make([]*lazy[bool], len(p.plan.Matches))
	for i, m := range p.plan.Matches {
		if m.When != "" {
			p.conditions[i] = newLazy[bool](fmt.Sprintf("spec.matches[%d].when", i), m.When)
		}
	}
	p.keyExpressions = make([]*lazy[string], len(p.plan.Key))
	for i, part := range p.plan.Key {
		if part.Type == plan.KeyExpression {
			p.keyExpressions[i] = newLazy[string](fmt.Sprintf("spec.key[%d].expression.cel", i), part.Expression)
		}
	}
}

func newVariant(p *plan.Plan, override string, limits []plan.Limit) *variant {
	v := &variant{override: override, limits: limits, quotas: make([]int64, len(limits)), smallestQuota: plan.MaxThreshold}
	for i, l := range limits {
		v.quotas[i] = p.Quota(l)
		v.smallestQuota = min(v.smallestQuota, v.quotas[i])
	}
	return v
}

func (v *variant) scriptLimits() []script.Limit {
	limits := make([]script.Limit, len(v.limits))
	for i, l := range v.limits {
		limits[i] = script.Limit{
			Name:      l.Name,
			Algorithm: algorithms[l.Algorithm],
			Quota:     v.quotas[i],
			Threshold: l.Threshold,
			HardQuota: l.HardQuota(),
			Window:    l.Window(),
			Bucket:    l.Bucket(),
			Block:     l.Block(),
			State:     l.State,
		}
	}
	return limits
}
