// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// effectiveLimit is a limit in force for one rule of a route behind one listener.
type effectiveLimit struct {
	source *kuadrantPolicy
	name   string
	field  string // of the limits in the source
	limit  kuadrantLimit
}

// effectiveLimits are the limits in force for one rule of a route behind one listener: by name, with the conditions for
// all of them.
type effectiveLimits struct {
	when   []kuadrantWhen
	limits map[string]effectiveLimit
}

// limitsOf returns the limits of one policy.
func limitsOf(p *kuadrantPolicy) effectiveLimits {
	limits, field := p.effective()
	all := effectiveLimits{when: limits.When, limits: map[string]effectiveLimit{}}
	for name, limit := range limits.Limits {
		all.limits[name] = effectiveLimit{source: p, name: name, field: field, limit: limit}
	}
	return all
}

// effectiveLimits returns the limits in force, as Kuadrant merges its policies: from the rule to the Gateway, each policy
// changes what the more specific ones define.
func (o *kuadrantObjects) effectiveLimits(r *route, rule int, a attachment) effectiveLimits {
	policies := o.policiesOf(r, rule, a)
	if len(policies) == 0 {
		return effectiveLimits{}
	}
	limits := limitsOf(policies[0])
	for _, p := range policies[1:] {
		limits = merge(limits, p)
	}
	maps.DeleteFunc(limits.limits, func(_ string, l effectiveLimit) bool { return !l.limit.selects(&r.Spec.Rules[rule]) })
	return limits
}

// merge returns the limits after a less specific policy. Defaults give way, overrides win; with the strategy merge this
// holds for each limit and for the conditions, else for all together.
func merge(specific effectiveLimits, p *kuadrantPolicy) effectiveLimits {
	own, _ := p.effective()
	general := limitsOf(p)
	if p.Spec.Overrides != nil {
		specific, general = general, specific
	}
	if own.Strategy != "merge" {
		return specific
	}
	merged := effectiveLimits{when: specific.when, limits: maps.Clone(general.limits)}
	if len(merged.when) == 0 {
		merged.when = general.when
	}
	maps.Copy(merged.limits, specific.limits)
	return merged
}

// policiesOf returns the policies of the rule, the route, the listener and the Gateway, in this order; of one target the
// latest first.
func (o *kuadrantObjects) policiesOf(r *route, rule int, a attachment) []*kuadrantPolicy {
	found := slices.Concat(
		o.policiesFor(r.Kind, r.Namespace, r.Name, r.ruleName(rule)),
		o.policiesFor(r.Kind, r.Namespace, r.Name, ""),
	)
	if a.listener != "" {
		found = append(found, o.policiesFor(plan.TargetGateway, a.namespace, a.gateway, a.listener)...)
	}
	return append(found, o.policiesFor(plan.TargetGateway, a.namespace, a.gateway, "")...)
}

func (o *kuadrantObjects) policiesFor(kind, namespace, name, section string) (found []*kuadrantPolicy) {
	for _, p := range o.sources {
		ref := p.Spec.TargetRef
		if ref.Kind == kind && p.Namespace == namespace && ref.Name == name && ref.SectionName == section {
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b *kuadrantPolicy) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	return found
}

// problem returns why the policy has no target among the objects, or "".
func (o *kuadrantObjects) problem(p *kuadrantPolicy) string {
	ref := p.Spec.TargetRef
	id := ref.Kind + " " + ref.Name
	if ref.Kind == plan.TargetGateway {
		return o.gatewayProblem(p, id)
	}
	r := o.route(ref.Kind, p.Namespace, ref.Name)
	switch {
	case ref.Kind != plan.TargetHTTPRoute && ref.Kind != plan.TargetGRPCRoute:
		return fmt.Sprintf("policies of the kind %q are not supported, only of Gateway, HTTPRoute and GRPCRoute", ref.Kind)
	case r == nil:
		return id + " is not among the files"
	case len(o.attachments(r)) == 0:
		return "no listener of its Gateways accepts " + id
	}
	for rule := range r.Spec.Rules {
		if ref.SectionName == "" || r.ruleName(rule) == ref.SectionName {
			return ""
		}
	}
	return fmt.Sprintf("%s has no rule %q", id, ref.SectionName)
}

func (o *kuadrantObjects) gatewayProblem(p *kuadrantPolicy, id string) string {
	ref := p.Spec.TargetRef
	g := o.gateways[p.Namespace+"/"+ref.Name]
	switch {
	case ref.SectionName == "":
	case g == nil:
		return id + " is not among the files, so the hosts of its listener are unknown"
	case !slices.ContainsFunc(g.Spec.Listeners, func(l listener) bool { return l.Name == ref.SectionName }):
		return fmt.Sprintf("%s has no listener %q", id, ref.SectionName)
	}
	for _, r := range o.routes {
		if slices.ContainsFunc(o.attachments(r), func(a attachment) bool {
			return a.namespace == p.Namespace && a.gateway == ref.Name && (ref.SectionName == "" || a.listener == ref.SectionName)
		}) {
			return ""
		}
	}
	return "no route among the files is attached to " + id
}
