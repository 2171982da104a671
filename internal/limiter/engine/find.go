// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// applicable is a policy that applies to a check, with the descriptor that it matched;
// plan.AllDescriptors if the match does not depend on a descriptor. A policy that matches
// several descriptors is in the list once for each.
type applicable struct {
	*policy
	descriptor int
}

// find returns the policies of the check in the order of the chain, and the expressions
// that failed.
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
		found[i] = applicable{policy: p, descriptor: plan.AllDescriptors}
		if slices.Contains(found[:i], found[i]) {
			return nil, nil, &limiter.FieldError{Field: fmt.Sprintf("policies[%d]", i), Problem: "is named twice"}
		}
	}
	return found, nil, nil
}

// matched returns the policies of which at least one match holds for the attributes.
func (v *view) matched(a *plan.Attributes) (found []applicable, failures []expressionFailure) {
	matches := v.snapshot.Match(a)
	if len(matches) > 0 {
		found = make([]applicable, 0, len(matches))
	}
	for _, m := range matches {
		c := applicable{policy: v.policies[m.Plan], descriptor: m.Descriptor}
		if n := len(found); n > 0 && found[n-1] == c {
			continue // an earlier match of the policy holds
		}
		holds, err := c.holds(m.Match, a)
		if err != nil {
			failures = append(failures, expressionFailure{
				policy: c.policy, field: c.conditions[m.Match].field,
			})
		}
		if holds {
			found = append(found, c)
		}
	}
	return found, failures
}

// holds reports whether the expression of the match holds. A failing expression counts
// as holding: otherwise a request could avoid the policy by making it fail.
func (c applicable) holds(match int, attributes *plan.Attributes) (bool, error) {
	condition := c.conditions[match]
	if condition == nil {
		return true, nil
	}
	holds, err := condition.evaluate(attributes, attributes.DescriptorsOf(c.descriptor))
	return holds || err != nil, err
}
