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

// search is the search for the policies of a check.
type search struct {
	matches  []plan.Found
	found    []applicable // the result, in the order of the chain
	failures []expressionFailure
	report   *report // nil unless the check is explained
}

// find sets the policies of the check and the expressions that failed.
func (s *search) find(v *view, check *limiter.Check) error {
	if len(check.Policies) == 0 {
		s.findMatching(v, &check.Attributes)
		return nil
	}
	for i, id := range check.Policies {
		p := v.policies[v.snapshot.Lookup(id)]
		if p == nil {
			return &limiter.UnknownPolicyError{Policy: id}
		}
		named := applicable{policy: p, descriptor: plan.AllDescriptors}
		if slices.Contains(s.found, named) {
			return &limiter.FieldError{Field: fmt.Sprintf("policies[%d]", i), Problem: "is named twice"}
		}
		s.found = append(s.found, named)
		s.report.found(limiter.Named)
	}
	return nil
}

// findMatching finds the policies of which at least one match holds for the attributes.
func (s *search) findMatching(v *view, a *plan.Attributes) {
	s.matches = v.snapshot.AppendMatches(s.matches, a)
	for _, m := range s.matches {
		c := applicable{policy: v.policies[m.Plan], descriptor: m.Descriptor}
		if n := len(s.found); n > 0 && s.found[n-1] == c {
			continue // an earlier match of the policy holds
		}
		holds, err := c.holds(m.Match, a)
		if err != nil {
			s.failures = append(s.failures, expressionFailure{
				policy: c.policy, field: c.conditions[m.Match].field,
			})
		}
		if holds {
			s.found = append(s.found, c)
			s.report.found(m.Match)
		}
	}
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
