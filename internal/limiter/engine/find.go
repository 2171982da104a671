// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// applied is a policy that applies to a check, by one descriptor of the request or
// by plan.AnyDescriptor. A policy that applies by several is applied once by each.
type applicable struct {
	*policy
	descriptor int
}

// find returns the policies of the check in the order of the chain, and what failed
// on the way.
func (v *view) find(check *limiter.Check) (found []applicable, failures []expressionFailure, err error) {
	if len(check.Policies) == 0 {
		found, failures = v.matched(&check.Attributes)
		return found, failures, nil
	}
	found = make([]applicable, len(check.Policies))
	for i, id := range check.Policies {
		p := v.policies[v.snapshot.Lookup(id)]
		if p == nil {
			return nil, nil, &limiter.UnknownPolicyError{Policy: id}
		}
		found[i] = applicable{p, plan.AnyDescriptor}
		if slices.Contains(found[:i], found[i]) {
			return nil, nil, &limiter.FieldError{Field: fmt.Sprintf("policies[%d]", i), Problem: "is named twice"}
		}
	}
	return found, nil, nil
}

// matched returns the policies whose matches hold for the attributes.
func (v *view) matched(a *plan.Attributes) (found []applicable, failures []expressionFailure) {
	matches := v.snapshot.Match(a)
	if len(matches) > 0 {
		found = make([]applicable, 0, len(matches))
	}
	for _, m := range matches {
		candidate := applicable{v.policies[m.Plan], m.Descriptor}
		if n := len(found); n > 0 && found[n-1] == candidate {
			continue // by a match before this one
		}
		holds, err := candidate.holds(m.Match, a)
		if err != nil {
			failures = append(failures, expressionFailure{candidate.policy, candidate.conditions[m.Match].field})
		}
		if holds {
			found = append(found, candidate)
		}
	}
	return found, failures
}

// holds reports whether the expression of the match holds. One that fails
// does: no request may talk its way out of a policy.
func (p applicable) holds(match int, a *plan.Attributes) (bool, error) {
	condition := p.conditions[match]
	if condition == nil {
		return true, nil
	}
	holds, err := condition.evaluate(a, a.DescriptorsOf(p.descriptor))
	return holds || err != nil, err
}
