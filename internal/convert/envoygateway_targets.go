// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/wiring"
)

// notePolicy notes what the policy has no counterpart for: rules that Envoy rejects, and targets.
func (c *trafficConverter) notePolicy(p *trafficPolicy) {
	switch {
	case p.limits == nil:
		return
	case p.problem != nil:
		c.lose(p.id()+": "+p.problem.field, "Envoy Gateway rejects the policy, and its routes answer 500: %s", p.problem.text)
		return
	}
	set := rulesOf(p)
	if len(set.all()) == 0 {
		c.note(p.id()+": spec.rateLimit", "has no rules")
		return
	}
	isKnown := true
	for i, t := range p.targets() {
		field := "spec.targetRef"
		if p.Spec.TargetRef == nil {
			field = fmt.Sprintf("spec.targetRefs[%d]", i)
		}
		isKnown = c.noteTarget(p, field, t) && isKnown
	}
	for i := range p.Spec.TargetSelectors {
		isKnown = c.noteSelector(p, fmt.Sprintf("spec.targetSelectors[%d]", i), &p.Spec.TargetSelectors[i]) && isKnown
	}
	if isKnown && !c.inForce[p] {
		c.note(p.id(), "has no effect: other policies replace it for every route among the files, or no route is attached")
	}
}

// noteTarget notes a target that the command cannot convert. It reports false if the target is unknown.
func (c *trafficConverter) noteTarget(p *trafficPolicy, field string, t wiring.TargetRef) bool {
	at := p.id() + ": " + field
	switch {
	case t.Kind == "TCPRoute" || t.Kind == "UDPRoute" || t.Kind == "TLSRoute":
		c.note(at, "has no effect: rate limits are for HTTP")
		return true
	case !isRouteOrGateway(t.Kind):
		return c.lose(at, "policies of the kind %q are not supported, only of Gateway, HTTPRoute and GRPCRoute", t.Kind)
	case c.object(t.Kind, p.Namespace, t.Name) == nil:
		return c.lose(at, "%s %s is not among the files", t.Kind, t.Name)
	case t.SectionName != "" && !c.hasSection(p.Namespace, t):
		return c.lose(at, "%s %s has no rule or listener %q", t.Kind, t.Name, t.SectionName)
	}
	return c.noteConflict(p, at, t)
}

func isRouteOrGateway(kind string) bool {
	return kind == plan.TargetGateway || kind == plan.TargetHTTPRoute || kind == plan.TargetGRPCRoute
}

func (c *trafficConverter) hasSection(namespace string, t wiring.TargetRef) bool {
	if t.Kind == plan.TargetGateway {
		return c.gateways[namespace+"/"+t.Name].listener(t.SectionName).Name != ""
	}
	rules := c.route(t.Kind, namespace, t.Name).Spec.Rules
	return slices.ContainsFunc(rules, func(rule routeRule) bool { return rule.Name == t.SectionName })
}

// noteConflict notes that an older policy has the target. It reports false if the files do not show which one is older.
func (c *trafficConverter) noteConflict(p *trafficPolicy, at string, t wiring.TargetRef) bool {
	first := c.policyFor(t.Kind, p.Namespace, t.Name, t.SectionName)
	switch {
	case first == p:
		return true
	case first.CreationTimestamp.IsZero() || p.CreationTimestamp.IsZero():
		return c.lose(at, "%s has this target, too, and only the older one applies: the files have no creationTimestamp", first.id())
	}
	c.note(at, "has no effect: %s is older and has this target, too", first.id())
	return true
}

// noteSelector notes a selector of targets as noteTarget does.
func (c *trafficConverter) noteSelector(p *trafficPolicy, field string, s *wiring.TargetSelector) bool {
	at := p.id() + ": " + field
	if problem := selectorProblem(s); problem != "" {
		return c.lose(at, "%s", problem)
	}
	isKnown, selects := true, false
	for _, m := range c.targetManifests() {
		if m.Namespace == p.Namespace && s.Selects(m.Kind, m.Labels) {
			selects = true
			isKnown = c.noteConflict(p, at, wiring.TargetRef{Kind: m.Kind, Name: m.Name}) && isKnown
		}
	}
	if !selects {
		c.lose(at, "no %s of Namespace %s among the files has these labels", s.Kind, p.Namespace)
	}
	return isKnown && selects
}

// selectorProblem returns why the command cannot find the targets of the selector, or "".
func selectorProblem(s *wiring.TargetSelector) string {
	_, err := metav1.LabelSelectorAsSelector(&s.LabelSelector)
	switch {
	case err != nil:
		return "is not a selector: " + err.Error()
	case !s.IsOfSameNamespace():
		return "targets of other Namespaces are not supported"
	case !isRouteOrGateway(s.Kind):
		return fmt.Sprintf("targets of the kind %q are not supported, only Gateway, HTTPRoute and GRPCRoute", s.Kind)
	}
	return ""
}

// targetManifests returns the Gateways and routes.
func (c *trafficConverter) targetManifests() (all []*manifest) {
	for _, object := range c.objects {
		if m := c.object(object.GetKind(), object.GetNamespace(), object.GetName()); m != nil {
			all = append(all, m)
		}
	}
	return all
}

// loseListenerSets notes that the listeners of a route are unknown, if policies may apply to it.
func (c *trafficConverter) loseListenerSets(r *route) {
	if !slices.ContainsFunc(r.Spec.ParentRefs, func(p parentRef) bool { return p.Kind == "ListenerSet" }) {
		return
	}
	for _, p := range c.policies {
		if set := rulesOf(p); len(set.all()) == 0 {
			continue
		}
		if slices.ContainsFunc(p.targets(), func(t wiring.TargetRef) bool {
			return t.Kind == plan.TargetGateway || t.Kind == r.Kind && t.Name == r.Name && p.Namespace == r.Namespace
		}) || c.hasTarget(p, r.Kind, r.Namespace, r.Name, "") {
			c.lose(p.id()+": spec.rateLimit", "%s is attached to a ListenerSet, which the command does not read", r.id())
			c.inForce[p] = true
		}
	}
}
