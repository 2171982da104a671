// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// matchedPolicy is a policy that applies to a check, with the descriptor that it matched;
// plan.AllDescriptors if the match does not depend on a descriptor. A policy that matches
// several descriptors is in the list once for each.
type matchedPolicy struct {
	*policy
	descriptor int
	hits       limiter.Hits
	match      int  // the first match that holds, or limiter.Named
	failed     bool // it applies only because a condition failed or values are unreadable, which counts as holding
	// leftOut is why it takes no part in the decision: CauseExpressions if no time is left for its expressions, see
	// overBudget; CauseChain if its matches have no room; else empty.
	leftOut store.Cause
}

// search is the search for the policies of a check.
type search struct {
	matches  []plan.Found
	demands  []demand        // of time for expressions
	found    []matchedPolicy // the result, in the order of the chain
	prepared *preparedSnapshot
	failures []expressionFailure
	report   *report // nil unless the check is explained
}

// match returns the policies that apply to the check, in the order of the chain.
func (s *search) match(check *limiter.Check) ([]matchedPolicy, error) {
	if len(check.Policies) == 0 {
		s.findMatching(check)
		return s.found, nil
	}
	err := s.findNamed(check)
	return s.found, err
}

// findNamed finds the policies that the check names.
func (s *search) findNamed(check *limiter.Check) error {
	hits := check.HitsOf(plan.AllDescriptors)
	for i, id := range check.Policies {
		p, err := s.prepared.policyOf(id)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(s.found, func(found matchedPolicy) bool { return found.policy == p }) {
			return &limiter.FieldError{Field: fmt.Sprintf("policies[%d]", i), Problem: "is named twice"}
		}
		s.found = append(s.found, matchedPolicy{policy: p, descriptor: plan.AllDescriptors, hits: hits, match: limiter.Named})
	}
	s.leaveOutNamed()
	return nil
}

// leaveOutNamed leaves out the named policies for whose expressions no time is left.
func (s *search) leaveOutNamed() {
	for i := range s.found {
		if p := s.found[i].policy; p.hasExpressions {
			s.demands = append(s.demands, demand{policy: p, price: p.keyPrice().all})
		}
	}
	slices.SortStableFunc(s.demands, func(a, b demand) int { return strings.Compare(a.id, b.id) })
	without := overBudget(s.demands)
	for i := range s.found {
		if without[s.found[i].policy] {
			s.found[i].leftOut = store.CauseExpressions
		}
	}
}

// findMatching finds the policies of which at least one match holds for the attributes of the check.
func (s *search) findMatching(check *limiter.Check) {
	v, a := s.prepared, &check.Attributes
	s.matches = v.snapshot.AppendMatches(s.matches, a)
	s.demands = v.demandsOfMatches(s.demands, s.matches, a)
	without := overBudget(s.demands)
	for _, m := range s.matches {
		p := matchedPolicy{policy: v.policies.Get(m.Plan), descriptor: m.Descriptor, hits: check.HitsOf(m.Descriptor), match: m.Match}
		earlier := s.foundBy(&p)
		if earlier != nil && !earlier.failed {
			continue
		}
		if m.LeftOut || without[p.policy] {
			p.leftOut, p.failed = store.CauseExpressions, m.Uncertain
			if m.LeftOut {
				p.leftOut = store.CauseChain
			}
			s.found = append(s.found, p)
			continue
		}
		holds, err := p.holds(a)
		if err != nil {
			s.failures = append(s.failures, expressionFailure{policy: p.policy, field: p.conditions[m.Match].field})
		}
		p.failed = err != nil || m.Uncertain
		switch {
		case earlier != nil:
			earlier.failed = !holds || p.failed
		case holds:
			s.found = append(s.found, p)
		}
	}
}

// foundBy returns the policy as an earlier match of the same descriptor found it, or nil. The matches of one
// policy and descriptor follow each other.
func (s *search) foundBy(p *matchedPolicy) *matchedPolicy {
	if n := len(s.found); n > 0 && s.found[n-1].policy == p.policy && s.found[n-1].descriptor == p.descriptor {
		return &s.found[n-1]
	}
	return nil
}

// holds reports whether the condition of the match holds. A failing condition counts
// as holding: otherwise a request could avoid the policy by making it fail.
func (p *matchedPolicy) holds(attributes *plan.Attributes) (bool, error) {
	condition := p.conditions[p.match]
	if condition == nil {
		return true, nil
	}
	holds, err := condition.evaluate(attributes, attributes.DescriptorsOf(p.descriptor))
	return holds || err != nil, err
}
