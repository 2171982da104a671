// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"slices"

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
	plan          *plan.Plan
	id            string
	script        *script.Policy
	smallestQuota int64
	metrics       *policyMetrics
}

// algorithms maps the algorithms of plans to those of scripts.
var algorithms = map[plan.Algorithm]script.Algorithm{
	plan.FixedWindow: script.FixedWindow,
	plan.SlidingLog:  script.SlidingLog,
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
	limits := make([]script.Limit, len(p.Limits))
	smallest := int64(plan.MaxThreshold)
	for i, l := range p.Limits {
		limits[i] = script.Limit{
			Name:      l.Name,
			Algorithm: algorithms[l.Algorithm],
			Quota:     p.Quota(l),
			Threshold: l.Threshold,
			Window:    l.Window(),
			Block:     l.Block(),
		}
		smallest = min(smallest, limits[i].Quota)
	}
	return &policy{
		plan: p,
		id:   p.ID(),
		script: script.NewPolicy(p.ID(), p.Counting == plan.CountAttempts,
			p.Mode == plan.ModeShadow, limits),
		smallestQuota: smallest,
		metrics:       m.policy(p),
	}
}

// find returns the policies of the check in the order of the chain.
func (v *view) find(check *Check) ([]*policy, error) {
	if len(check.Policies) == 0 {
		plans := v.snapshot.Match(&check.Attributes)
		found := make([]*policy, len(plans))
		for i, p := range plans {
			found[i] = v.policies[p]
		}
		return found, nil
	}
	found := make([]*policy, len(check.Policies))
	for i, id := range check.Policies {
		p := v.snapshot.Lookup(id)
		if p == nil {
			return nil, &UnknownPolicyError{Policy: id}
		}
		found[i] = v.policies[p]
		if slices.Contains(found[:i], found[i]) {
			return nil, &FieldError{Field: fmt.Sprintf("policies[%d]", i), Problem: "is named twice"}
		}
	}
	return found, nil
}
