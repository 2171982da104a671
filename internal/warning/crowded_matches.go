// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// CrowdedMatches warns of matches whose requests match more policies of the Namespace than Weir evaluates.
// policies are the policies of the Namespace; policy itself may be among them, in an older form.
//
//   - It asks for a request with each host of the match, and a path, method, descriptor, headers and query parameters of it. Policies
//     for other hosts or paths do not count.
//   - Matches with a `when` do not count: which of them hold depends on the request.
func CrowdedMatches(policy *v1alpha1.RateLimitPolicy, policies []v1alpha1.RateLimitPolicy) (warnings []string) {
	if len(policies) < plan.MaxNamespacePolicies && totalLimits(policies) <= plan.MaxNamespaceLimits-len(policy.Spec.Limits) {
		return nil
	}
	plans := []*plan.Plan{certainPlan(policy)}
	for i := range policies {
		if policies[i].Namespace == policy.Namespace && policies[i].Name != policy.Name {
			plans = append(plans, certainPlan(&policies[i]))
		}
	}
	snapshot := plan.NewSnapshot(0, plans)
	matches := compile.MatchesOf(policy)
	for i := range matches {
		if text := crowding(snapshot, &matches[i]); text != "" {
			warnings = append(warnings, fmt.Sprintf("%s: %s; the failureMode of the others decides", atMatch(policy, i), text))
		}
	}
	return warnings
}

func totalLimits(policies []v1alpha1.RateLimitPolicy) (n int) {
	for i := range policies {
		n += len(policies[i].Spec.Limits)
	}
	return n
}

// certainPlan returns what of the policy decides whether it matches, without the matches that have a when.
func certainPlan(policy *v1alpha1.RateLimitPolicy) *plan.Plan {
	p := &plan.Plan{Namespace: policy.Namespace, Name: policy.Name, Mode: plan.Mode(policy.Spec.Mode), Limits: make([]plan.Limit, len(policy.Spec.Limits))}
	p.Matches = slices.DeleteFunc(compile.MatchesOf(policy), func(m plan.Match) bool { return m.When != "" })
	return p
}

// crowding returns how many policies and limits match the requests of the match, empty if they fit.
func crowding(snapshot *plan.Snapshot, m *plan.Match) string {
	hosts := m.Hosts
	if len(hosts) == 0 {
		hosts = []string{""}
	}
	for _, host := range hosts {
		policies, limits := 0, 0
		seen := map[*plan.Plan]bool{}
		for _, found := range snapshot.Match(RequestOf(m, host)) {
			if !seen[found.Plan] {
				seen[found.Plan] = true
				policies, limits = policies+1, limits+len(found.Plan.Limits)
			}
		}
		if policies > plan.MaxNamespacePolicies || limits > plan.MaxNamespaceLimits {
			return fmt.Sprintf("its requests match %d policies with %d limits of the Namespace, at most %d with %d are evaluated",
				policies, limits, plan.MaxNamespacePolicies, plan.MaxNamespaceLimits)
		}
	}
	return ""
}

// RequestOf returns a request for the host that the match holds for, its when aside. "*" stands for the name "any".
func RequestOf(m *plan.Match, host string) *plan.Attributes {
	a := &plan.Attributes{Targets: m.Targets, Host: strings.Replace(host, "*", "any", 1), Domain: m.Domain}
	if len(m.Paths) > 0 {
		a.Path = strings.TrimSuffix(m.Paths[0], "*")
	}
	if len(m.Methods) > 0 {
		a.Method = m.Methods[0]
	}
	if len(m.Descriptors) > 0 {
		a.Descriptors = []plan.Descriptor{m.Descriptors}
	}
	a.SetHeaders(m.Headers)
	a.AddQueryParameters(m.QueryParameters)
	return a
}
