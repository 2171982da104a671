// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// matchesOf returns the matches of the policy's plan, of which the expressions may be invalid.
func matchesOf(policy *v1alpha1.RateLimitPolicy) []plan.Match {
	targets := compile.TargetsOf(policy)
	if len(policy.Spec.Matches) == 0 && len(targets) > 0 {
		return []plan.Match{{Targets: targets}}
	}
	matches := make([]plan.Match, len(policy.Spec.Matches))
	for i := range matches {
		m := &policy.Spec.Matches[i]
		matches[i] = plan.Match{Targets: targets, Hosts: m.Hosts, Methods: m.Methods, Paths: m.Paths, Domain: m.Domain, When: m.When}
		for _, d := range m.Descriptors {
			matches[i].Descriptors = append(matches[i].Descriptors, plan.Entry{Key: d.Key, Value: d.Value})
		}
	}
	return matches
}

// atMatch returns the path of the field that the match of the plan comes from.
func atMatch(policy *v1alpha1.RateLimitPolicy, i int) *field.Path {
	if len(policy.Spec.Matches) == 0 {
		return field.NewPath("spec", "targetRefs")
	}
	return at("matches", i)
}
