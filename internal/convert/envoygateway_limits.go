// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// validate returns the first reason for which Envoy Gateway or Envoy rejects the rate limits, nil for none.
func (p *trafficPolicy) validate() *fieldProblem {
	if p.limits == nil {
		return nil
	}
	if kind := p.limits.Type; kind != "" && p.limits.Global == nil && p.limits.Local == nil {
		return &fieldProblem{"spec.rateLimit.type", fmt.Sprintf("%q is not a type of rules", kind)}
	}
	set := rulesOf(p)
	for _, s := range slices.Concat(set.global, set.local) {
		if problem := s.rule().invalid(); problem != nil {
			return &fieldProblem{s.field() + "." + problem.field, problem.text}
		}
	}
	if p.limits.Local == nil {
		return nil
	}
	return p.validateLocal(&set)
}

// validateLocal is validate for local limits.
func (p *trafficPolicy) validateLocal(set *ruleSet) *fieldProblem {
	rest := int64(1) // the default unit is a second
	if set.rest != nil {
		rest = max(set.rest.rule().Limit.seconds(), 1)
	}
	for i := range p.limits.Local.Rules {
		s := source{p, "local", i}
		if problem := s.rule().invalidLocal(rest); problem != nil {
			return &fieldProblem{s.field() + "." + problem.field, problem.text}
		}
		if s.isRest() && s != *set.rest {
			return &fieldProblem{s.field() + ".clientSelectors", "another rule has no selectors, too"}
		}
	}
	return nil
}

// invalidLocal returns why Envoy Gateway or Envoy rejects the rule as a local one. The unit of the rule without selectors is in
// seconds.
func (r *trafficRule) invalidLocal(rest int64) *fieldProblem {
	methods := 0
	for _, s := range r.ClientSelectors {
		methods += len(s.Methods)
	}
	switch window := r.Limit.seconds(); {
	case window == 0:
		return r.invalid()
	case window%rest != 0:
		return &fieldProblem{"limit.unit", "is not a multiple of the unit of the rule without selectors"}
	case r.Limit.Requests == 0:
		return &fieldProblem{"limit.requests", "is 0, which Envoy rejects in local limits"}
	case methods > 1:
		return &fieldProblem{"clientSelectors", "has several methods, which Envoy rejects in local limits as a duplicate descriptor"}
	}
	return nil
}

// setLimit sets the limit of the policy, and which clients have it. It reports false if the rule is lost, or has no effect.
func (c *trafficConverter) setLimit(s source, policy *v1alpha1.RateLimitPolicy, selected *clients) bool {
	rule := s.rule()
	requests := uint64(rule.Limit.Requests)
	limit := v1alpha1.Limit{
		Name: "limit", Algorithm: v1alpha1.AlgorithmFixedWindow, Window: windowOf(time.Duration(rule.Limit.seconds()) * time.Second),
	}
	if rule.XRateLimitHeaders != "" {
		c.note(s.at()+".xRateLimitHeaders", "not carried over: Weir sends RateLimit headers for every limit, and X-RateLimit ones with --legacy-headers")
	}
	if rule.ShadowMode {
		policy.Spec.Mode = v1alpha1.ModeShadow
	}
	isLocal := s.scope == "local"
	if isLocal {
		c.hasLocal = true
		limit.Algorithm, requests = v1alpha1.AlgorithmTokenBucket, requests*uint64(c.options.Replicas) //nolint:gosec // at least 1
		c.noteLocal(s)
	} else {
		c.hasGlobal = true
		cost, ok := c.cost(s)
		if !ok {
			return false
		}
		requests /= cost
	}
	if rule.Limit.FromMetadata != nil {
		return c.lose(s.at()+".limit.fromMetadata", "checks do not see the metadata that the proxy writes after them. For limits that differ between clients, use overrides")
	}
	if window := time.Duration(rule.Limit.seconds()) * time.Second; window > plan.Algorithm(limit.Algorithm).MaxWindow() {
		return c.lose(s.at()+".limit.unit", "windows of token buckets are at most %s", windowOf(plan.Algorithm(limit.Algorithm).MaxWindow()))
	}
	if !c.setThreshold(s.at()+".limit.requests", policy, &limit, requests) {
		return false
	}
	policy.Spec.Limits = []v1alpha1.Limit{limit}
	if len(policy.Spec.Overrides) > 0 {
		c.note(s.at()+".limit.requests", "admits nothing: denied requests get status 403, not 429")
	}
	selected.restrict(policy, requests == 0)
	return true
}

// restrict limits the clients of the network, and exempts the others, by overrides. deniesAll is true if the policy denies all.
func (c *clients) restrict(policy *v1alpha1.RateLimitPolicy, deniesAll bool) {
	if c.network == nil {
		return
	}
	if c.network.inverted {
		others := v1alpha1.Override{Name: "others", CIDRs: []string{c.network.prefix.String()}, Action: v1alpha1.OverrideActionAllow}
		policy.Spec.Overrides = append([]v1alpha1.Override{others}, policy.Spec.Overrides...)
		return
	}
	limited := v1alpha1.Override{Name: "clients", CIDRs: c.network.cidrs(), Action: v1alpha1.OverrideActionDeny}
	if !deniesAll {
		limit := &policy.Spec.Limits[0]
		limited.Action, limited.Limits = v1alpha1.OverrideActionLimit, []v1alpha1.LimitOverride{{Name: limit.Name, Threshold: new(limit.Threshold)}}
	}
	policy.Spec.Overrides = []v1alpha1.Override{limited, {Name: "others", When: "true", Action: v1alpha1.OverrideActionAllow}}
}

// noteLocal notes fields that have no effect in local limits.
func (c *trafficConverter) noteLocal(s source) {
	if s.rule().Shared {
		c.note(s.at()+".shared", "has no effect in local limits")
	}
	if s.rule().Cost != nil {
		c.note(s.at()+".cost", "has no effect in local limits")
	}
}

// cost returns the cost of a request. It returns false if the rule is lost, or has no effect.
func (c *trafficConverter) cost(s source) (cost uint64, ok bool) {
	at, given := s.at()+".cost", s.rule().Cost
	switch {
	case given == nil:
		return 1, true
	case given.Response != nil:
		c.lose(at+".response", "responses are counted after the check. Let the proxy send such costs as hits of Envoy's rate limit service, to a policy with lateCharges: see docs/integrations/envoy-ai-gateway.md")
	case given.Request == nil:
		return 1, true
	case given.Request.Metadata != nil:
		c.lose(at+".request.metadata", "checks do not see the metadata that the proxy writes after them")
	case given.Request.Number == nil:
		return 1, true
	case *given.Request.Number == 0:
		c.note(at+".request", "requests cost nothing: the rule has no effect")
	default:
		if *given.Request.Number > 1 {
			c.note(at+".request", "is %d: the threshold counts requests, and is limit.requests divided by it", *given.Request.Number)
		}
		return *given.Request.Number, true
	}
	return 0, false
}

// exempt exempts from the rule without selectors the requests that other local rules select. It reports false if these are
// unknown.
func (c *trafficConverter) exempt(s source, policy *v1alpha1.RateLimitPolicy, set *ruleSet) bool {
	for i, other := range set.local {
		selected, problems := clientsOf(other.rule())
		if len(problems) > 0 {
			return c.lose(s.at(), "the rule is for requests that %s does not select, and that cannot be converted", other.field())
		}
		override := v1alpha1.Override{Name: fmt.Sprintf("rule-%d", i), CIDRs: selected.network.cidrs(), When: selected.cel(), Action: v1alpha1.OverrideActionAllow}
		if override.When == "" && len(override.CIDRs) == 0 {
			override.When = "true"
		}
		policy.Spec.Overrides = append(policy.Spec.Overrides, override)
	}
	return true
}
