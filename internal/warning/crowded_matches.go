// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// crowdedWhat names the comparison for Review.Unfinished.
const crowdedWhat = "policies with the same requests"

// CrowdedMatches warns of matches whose requests match more policies of the Namespace than Weir evaluates.
// policies are the policies of the Namespace; policy itself may be among them, in an older form.
//
//   - It asks for a request with each host of the match, and a path, method, descriptor, headers and query parameters of it. Policies
//     for other hosts or paths do not count.
//   - Matches with a `when` do not count: which of them hold depends on the request.
func (r *Review) CrowdedMatches(policy *v1alpha1.RateLimitPolicy, policies []v1alpha1.RateLimitPolicy) (warnings []string) {
	if len(policies) < plan.MaxNamespacePolicies && totalLimits(policies) <= plan.MaxNamespaceLimits-len(policy.Spec.Limits) {
		return nil
	}
	requests := requestsOf(policy)
	if !r.countMatching(requests, policy) {
		return nil
	}
	for i := range policies {
		if policies[i].Namespace != policy.Namespace || policies[i].Name == policy.Name {
			continue
		}
		if !r.countMatching(requests, &policies[i]) {
			break // what is counted so far may be enough
		}
	}
	last := -1
	for i := range requests.all {
		c := &requests.all[i]
		if c.match != last && (c.policies > plan.MaxNamespacePolicies || c.limits > plan.MaxNamespaceLimits) {
			last = c.match
			warnings = append(warnings, fmt.Sprintf("%s: its requests match %d policies with %d limits of the Namespace, at most %d with %d are evaluated; the failureMode of the others decides",
				atMatch(policy, c.match), c.policies, c.limits, plan.MaxNamespacePolicies, plan.MaxNamespaceLimits))
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

// crowdedRequests are a request for each match of the policy under review and each of its hosts.
type crowdedRequests struct {
	all    []crowdedRequest
	byHost map[string][]int // indexes in all
	every  []int            // all indexes
}

// crowdedRequest is a request, and the policies that match it certainly.
type crowdedRequest struct {
	match            int // of the policy under review
	request          *plan.Attributes
	policies, limits int
	last             *v1alpha1.RateLimitPolicy // the last one that is counted
}

func requestsOf(policy *v1alpha1.RateLimitPolicy) *crowdedRequests {
	requests := &crowdedRequests{byHost: map[string][]int{}}
	matches := compile.MatchesOf(policy)
	for i := range matches {
		hosts := matches[i].Hosts
		if len(hosts) == 0 {
			hosts = []string{""}
		}
		for _, host := range hosts {
			c, n := crowdedRequest{match: i, request: RequestOf(&matches[i], host)}, len(requests.all)
			requests.all, requests.every = append(requests.all, c), append(requests.every, n)
			requests.byHost[c.request.Host] = append(requests.byHost[c.request.Host], n)
		}
	}
	return requests
}

// with returns the requests that may have one of the hosts of a match, perhaps some twice.
func (c *crowdedRequests) with(hosts []string) (indexes []int) {
	if len(hosts) == 0 {
		return c.every
	}
	for _, host := range hosts {
		if strings.HasPrefix(host, "*") {
			return c.every
		}
		indexes = append(indexes, c.byHost[host]...)
	}
	return indexes
}

// countMatching counts the policy for each request that it certainly matches: a match without a when holds. It reports whether
// the review may do so.
func (r *Review) countMatching(requests *crowdedRequests, policy *v1alpha1.RateLimitPolicy) bool {
	if policy.Spec.Mode == v1alpha1.ModeDisabled {
		return true
	}
	p := &plan.Plan{Namespace: policy.Namespace, Name: policy.Name, Matches: compile.MatchesOf(policy)}
	for i := range p.Matches {
		if p.Matches[i].When != "" {
			continue
		}
		indexes := requests.with(p.Matches[i].Hosts)
		if !r.Step((1+len(indexes))*values(&p.Matches[i]), crowdedWhat) {
			return false
		}
		match := index.NearMatch{Plan: p, Match: i, Field: plan.NoField}
		for _, index := range indexes {
			c := &requests.all[index]
			if c.last == policy {
				continue
			}
			if _, found := match.Repaired(*c.request); len(found) > 0 {
				c.last = policy
				c.policies, c.limits = c.policies+1, c.limits+len(policy.Spec.Limits)
			}
		}
	}
	return true
}

// values returns the number of values that a request is compared with, at least 1.
func values(m *plan.Match) int {
	return 1 + len(m.Targets) + len(m.Hosts) + len(m.Methods) + len(m.Paths) + len(m.Headers) + len(m.QueryParameters) + len(m.Descriptors) + m.Exceptions()
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
		a.Descriptors = []plan.Descriptor{m.SampleDescriptor()}
	}
	a.SetHeaders(m.Headers)
	a.AddQueryParameters(m.QueryParameters)
	return a
}
