// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Kuadrant converts RateLimitPolicies of Kuadrant (kuadrant.io/v1) with the HTTPRoutes that they
// target, and those attached to the Gateways that they target, into one policy per limit and
// route. Objects without a namespace are in the given one. Other objects are skipped.
func Kuadrant(ctx context.Context, data []byte, namespace string) ([]*v1alpha1.RateLimitPolicy, []Note, error) {
	manifests, err := readManifests(data, namespace)
	if err != nil {
		return nil, nil, err
	}
	c := &kuadrantConverter{collector: newCollector(), kuadrantObjects: kuadrantObjects{gateways: map[string]*gateway{}}}
	for _, m := range manifests {
		if err := c.read(m); err != nil {
			return nil, nil, err
		}
		if m.Kind == "RateLimitPolicy" && strings.HasPrefix(m.APIVersion, "kuadrant.io/") && m.APIVersion != kuadrantVersion {
			c.lose(m.id(), "apiVersion %s is not supported, only %s", m.APIVersion, kuadrantVersion)
		}
	}
	for _, p := range c.sources {
		c.convert(ctx, p)
	}
	if len(c.policies) > 0 {
		c.note("", "requests that a more specific match of another rule or route takes are limited, too")
		c.note("", "windows start at the first request of a key")
	}
	return c.policies, c.notes, nil
}

type kuadrantConverter struct {
	collector
	kuadrantObjects
}

func (c *kuadrantConverter) convert(ctx context.Context, p *kuadrantPolicy) {
	limits, field := p.effective()
	at := p.id() + ": " + field
	if limits.Strategy == "merge" {
		c.lose(at+".strategy", "merging with other policies is not supported; list all limits in one policy")
		return
	}
	routes := c.targets(p, field)
	if len(routes) == 0 {
		c.lose(p.id()+": spec.targetRef", "%s", c.noTarget(p))
	}
	for _, route := range routes {
		if p.Spec.TargetRef.Kind == "HTTPRoute" && c.isOverridden(route) {
			c.note(p.id(), "the overrides of a Gateway's policy replace it")
			continue
		}
		for _, name := range limits.names() {
			limit := limits.Limits[name]
			limit.When = slices.Concat(limits.When, limit.When)
			c.limit(ctx, at+".limits."+name, p, route, name, &limit)
		}
	}
}

// targets returns the routes to which the policy applies. A policy of a Gateway applies to routes
// without a policy of their own or, with overrides, to all.
func (c *kuadrantConverter) targets(p *kuadrantPolicy, field string) (routes []*httpRoute) {
	target := &p.Spec.TargetRef
	for _, r := range c.routes {
		isTarget := target.Kind == "HTTPRoute" && r.Namespace == p.Namespace && r.Name == target.Name
		if isTarget || target.Kind == "Gateway" && r.isAttached(p.Namespace, target.Name) && (field == "spec.overrides" || !c.hasPolicy(r)) {
			routes = append(routes, r)
		}
	}
	return routes
}

// hasPolicy reports whether a policy targets the route.
func (c *kuadrantConverter) hasPolicy(r *httpRoute) bool {
	return slices.ContainsFunc(c.sources, func(p *kuadrantPolicy) bool {
		return p.Spec.TargetRef.Kind == "HTTPRoute" && p.Namespace == r.Namespace && p.Spec.TargetRef.Name == r.Name
	})
}

// isOverridden reports whether the overrides of a Gateway replace the policies of the route.
func (c *kuadrantConverter) isOverridden(r *httpRoute) bool {
	return slices.ContainsFunc(c.sources, func(p *kuadrantPolicy) bool {
		return p.Spec.Overrides != nil && p.Spec.TargetRef.Kind == "Gateway" && r.isAttached(p.Namespace, p.Spec.TargetRef.Name)
	})
}

func (c *kuadrantConverter) noTarget(p *kuadrantPolicy) string {
	if p.Spec.TargetRef.Kind == "Gateway" {
		return fmt.Sprintf("no HTTPRoute among the files is attached to Gateway %s without a policy of its own", p.Spec.TargetRef.Name)
	}
	return fmt.Sprintf("%s %s is not among the files", p.Spec.TargetRef.Kind, p.Spec.TargetRef.Name)
}

func (c *kuadrantConverter) limit(ctx context.Context, at string, p *kuadrantPolicy, route *httpRoute, name string, limit *kuadrantLimit) {
	section := ""
	if p.Spec.TargetRef.Kind == "HTTPRoute" {
		section = p.Spec.TargetRef.SectionName
	}
	words := []string{p.Name, name}
	if p.Spec.TargetRef.Kind == "Gateway" {
		words = append(words, route.Name)
	}
	policy := c.newPolicy(p.Namespace, words...)
	policy.Spec.OnMissingKey = v1alpha1.OnMissingKeySkip
	when, err := c.conditions(at, limit.When)
	if err != nil {
		c.lose(at+".when", "%s", err)
		return
	}
	if policy.Spec.Key, err = c.counters(at, limit); err != nil {
		c.lose(at+".counters", "%s", err)
		return
	}
	if len(policy.Spec.Key) == 0 {
		policy.Spec.OnMissingKey = ""
	}
	if !c.rates(at, policy, name, limit) {
		return
	}
	if policy.Spec.Matches = c.matches(route, section, when); len(policy.Spec.Matches) == 0 {
		c.lose(at, "%s has no rule that a policy can match", route.id())
		return
	}
	c.add(ctx, at, policy)
}

// rates sets the limits of the policy, and reports whether all could be converted.
func (c *kuadrantConverter) rates(at string, policy *v1alpha1.RateLimitPolicy, name string, limit *kuadrantLimit) bool {
	for i, rate := range limit.Rates {
		at := fmt.Sprintf("%s.rates[%d]", at, i)
		window, err := time.ParseDuration(rate.Window)
		switch {
		case err != nil:
			c.lose(at+".window", "%q is not a duration", rate.Window)
			return false
		case window > plan.MaxFixedWindow || window < time.Millisecond:
			c.lose(at+".window", "windows are 1ms to 8784h")
			return false
		}
		l := v1alpha1.Limit{Name: slug(name, 55), Algorithm: v1alpha1.AlgorithmFixedWindow, Window: windowOf(window)}
		if len(limit.Rates) > 1 {
			l.Name = fmt.Sprintf("%s-%d", l.Name, i+1)
		}
		c.setThreshold(at+".limit", policy, &l, rate.Limit)
		policy.Spec.Limits = append(policy.Spec.Limits, l)
	}
	if len(limit.Rates) == 0 {
		c.lose(at+".rates", "is empty")
	}
	return len(limit.Rates) > 0
}

// matches returns a match for each match of the rules, or of the rule with the section's name.
func (c *kuadrantConverter) matches(route *httpRoute, section, when string) (matches []v1alpha1.Match) {
	hosts := c.hosts(route)
	for _, rule := range route.Spec.Rules {
		if section != "" && rule.Name != section {
			continue
		}
		if len(rule.Matches) == 0 {
			rule.Matches = []routeMatch{{}}
		}
		for j := range rule.Matches {
			m := matchOf(&rule.Matches[j], when)
			m.Hosts = hosts
			if !slices.ContainsFunc(matches, func(other v1alpha1.Match) bool { return keyOfMatch(other) == keyOfMatch(m) }) {
				matches = append(matches, m)
			}
		}
	}
	return matches
}

func keyOfMatch(m v1alpha1.Match) string {
	return fmt.Sprint(m.Methods, m.Paths, m.Headers, m.QueryParameters, m.When)
}

// matchOf converts one match of a rule, without hosts.
func matchOf(from *routeMatch, when string) (m v1alpha1.Match) {
	var conditions []string
	if from.Method != "" {
		m.Methods = []string{from.Method}
	}
	path := routeValue{Type: "PathPrefix", Value: "/"}
	if from.Path != nil {
		path.Value = from.Path.Value
		if from.Path.Type != "" {
			path.Type = from.Path.Type
		}
	}
	switch prefix := strings.TrimSuffix(path.Value, "/"); {
	case path.Type == "Exact":
		m.Paths = []string{path.Value}
	case path.Type == "RegularExpression":
		conditions = append(conditions, "request.path.matches("+strconv.Quote("^(?:"+path.Value+")$")+")")
	case prefix == "":
		m.Paths = []string{"/*"}
	default:
		m.Paths = []string{prefix, prefix + "/*"}
	}
	for _, h := range from.Headers {
		value := "request.headers[" + strconv.Quote(strings.ToLower(h.Name)) + "]"
		if h.Type == "RegularExpression" {
			conditions = append(conditions, value+".matches("+strconv.Quote("^(?:"+h.Value+")$")+")")
		} else {
			m.Headers = append(m.Headers, v1alpha1.HeaderMatch{Name: h.Name, Type: v1alpha1.ValueMatchExact, Value: h.Value})
		}
	}
	for _, q := range from.QueryParams {
		if q.Type == "RegularExpression" {
			conditions = append(conditions, "request.query["+strconv.Quote(q.Name)+"].matches("+strconv.Quote("^(?:"+q.Value+")$")+")")
		} else {
			m.QueryParameters = append(m.QueryParameters, v1alpha1.QueryParameterMatch{Name: q.Name, Type: v1alpha1.ValueMatchExact, Value: q.Value})
		}
	}
	if when != "" {
		conditions = append(conditions, when)
	}
	m.When = allOf(conditions)
	return m
}
