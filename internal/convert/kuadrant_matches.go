// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// place sets the targetRefs and matches of the policy to the requests of the scope that fulfil the conditions.
func (c *kuadrantConverter) place(policy *v1alpha1.RateLimitPolicy, s *scope, conditions []string) error {
	rules, listeners := sidesOf(s.spots)
	if len(s.spots) != len(rules)*len(listeners) {
		return errors.New("the limit applies to other rules behind one listener than behind another")
	}
	hosts, exclusions, err := hostsBehind(c.attachments(s.route), listeners, c.options.ByMatches)
	if err != nil {
		return err
	}
	conditions = append(exclusions, conditions...)
	needsMatches := true
	if !c.options.ByMatches {
		policy.Spec.TargetRefs, needsMatches = s.route.targetRefs(rules)
		c.usesMatches = c.usesMatches || needsMatches
	}
	switch {
	case needsMatches:
		policy.Spec.Matches = s.route.matches(rules, hosts, conditions)
	case len(hosts) > 0 || len(conditions) > 0:
		policy.Spec.Matches = []v1alpha1.Match{{Hosts: hosts, When: allOf(conditions)}}
	}
	return nil
}
