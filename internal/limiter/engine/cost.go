// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/weir-dev/weir/internal/limiter"

// costOf returns the units that the commit spends of the policy: those that it computes from the response or, if it
// computes none, those that the commit names. It returns a *limiter.FieldError for a commit that lacks the one or names
// the other.
func (s *search) costOf(p *policy, hold *limiter.Hold, c *limiter.Commit) (int64, error) {
	if p.cost == nil || c.CostIsFinal {
		return c.CostOf(hold)
	}
	if _, named := c.Costs[p.id]; named {
		return 0, &limiter.FieldError{
			Field: limiter.CostField(p.id), Problem: "must not be given: the policy computes its cost from response",
		}
	}
	if c.Response == nil {
		return 0, &limiter.FieldError{Field: "response", Problem: "is required: " + p.id + " computes its cost from it"}
	}
	return s.computedCost(p, c.Response.Code, hold.Units), nil
}

// computedCost returns the cost that the policy computes from the code, or the estimate if its expression fails.
func (s *search) computedCost(p *policy, code int, estimate int64) int64 {
	compiled, err := p.cost()
	if err != nil { // only a plan of another release can hold such an expression
		s.failures = append(s.failures, expressionFailure{policy: p, field: fieldOfCost})
		return estimate
	}
	return compiled.Of(code)
}
