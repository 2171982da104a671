// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// bypass is the requests of a route that a SecurityPolicy keeps from Weir.
type bypass struct {
	policy *SecurityPolicy
	route  routeName
	// rules are the named rules of these requests. rule is the one that the SecurityPolicy targets, "" for the
	// route.
	rules []string
	rule  string
	// gateway and listener are those through which the requests come; listener is empty for all.
	gateway  types.NamespacedName
	listener string
	wired    string // what asks Weir instead, such as "Gateway infra/public"
}

// String names the objects.
func (b *bypass) String() string {
	at := fmt.Sprintf("%s %s", b.route.kind, b.route.NamespacedName)
	if b.rule != "" {
		at = "rule " + b.rule + " of " + at
	}
	return fmt.Sprintf("Requests of %s do not reach Weir: SecurityPolicy %s has no extAuth and replaces the one of %s.",
		at, nameOf(b.policy), b.wired)
}

// concerns reports whether requests of the target are among the bypass.
func (b *bypass) concerns(t plan.Target) bool {
	of, namespace, name, section := t.Split()
	object := types.NamespacedName{Namespace: namespace, Name: name}
	if kind(of) == kindGateway {
		return object == b.gateway && (section == "" || section == b.listener)
	}
	return routeName{kind(of), object} == b.route && (section == "" || slices.Contains(b.rules, section))
}

// findBypasses sets the bypasses, in an order that does not depend on maps.
func (s *Snapshot) findBypasses() {
	if s.kinds[kindSecurityPolicy] != readable {
		return
	}
	for _, p := range s.policies {
		if p.Spec.ExtAuth == nil {
			for _, name := range s.routesOf(p) {
				s.findBypassesBy(p, name)
			}
		}
	}
}

// routesOf returns the routes that the SecurityPolicy targets, or of which it targets a rule.
func (s *Snapshot) routesOf(p *SecurityPolicy) []routeName {
	var names []routeName
	for _, ref := range p.targetRefs() {
		name := routeName{kind(ref.Kind), types.NamespacedName{Namespace: p.Namespace, Name: ref.Name}}
		if s.routes[name] != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(p.Spec.TargetSelectors) > 0 {
		for name, route := range s.routes {
			if p.selects(name.kind, route) == selected && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.SortFunc(names, func(a, b routeName) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.String(), b.String()))
	})
	return names
}

// attachment is a route with the SecurityPolicies that apply to it, through one of its Gateways.
type attachment struct {
	name        routeName
	route       *Route
	gateway     types.NamespacedName
	listener    string          // "" for all
	ofGateway   *SecurityPolicy // nil for none
	ofRoute     *SecurityPolicy
	routeIsSure bool
}

// findBypassesBy adds the bypasses of the route by a SecurityPolicy without extAuth.
func (s *Snapshot) findBypassesBy(p *SecurityPolicy, name routeName) {
	route := s.routes[name]
	ofRoute, sure := s.policyOf(scope{kind: name.kind, namespace: name.Namespace, name: name.Name}, route)
	for i := range route.Spec.ParentRefs {
		parent := &route.Spec.ParentRefs[i]
		gateway, ok := parent.gateway(route.Namespace)
		if !ok || s.gateways[gateway] == nil {
			continue
		}
		ofGateway, ok := s.policyOfGateway(gateway, parent.SectionName)
		if !ok {
			continue
		}
		a := attachment{
			name: name, route: route, gateway: gateway, listener: parent.SectionName,
			ofGateway: ofGateway, ofRoute: ofRoute, routeIsSure: sure,
		}
		s.findRouteBypass(p, &a)
		s.findRuleBypasses(p, &a)
	}
}

// policyOfGateway returns the SecurityPolicy that a route has from its Gateway; listener is the one that it
// attaches to, "" for all. It returns false if it is uncertain.
func (s *Snapshot) policyOfGateway(name types.NamespacedName, listener string) (*SecurityPolicy, bool) {
	gateway := s.gateways[name]
	at := scope{kind: kindGateway, namespace: name.Namespace, name: name.Name}
	for _, section := range gateway.Spec.Listeners {
		if listener != "" && section.Name != listener {
			continue
		}
		at.section = section.Name
		p, ok := s.policyOf(at, gateway)
		if !ok || p != nil && listener == "" {
			return nil, false // the listeners differ
		}
		if p != nil {
			return p, true
		}
	}
	at.section = ""
	return s.policyOf(at, gateway)
}

// findRouteBypass adds the bypass by a SecurityPolicy of the whole route: without mergeType it replaces the one
// of the Gateway.
func (s *Snapshot) findRouteBypass(p *SecurityPolicy, a *attachment) {
	if a.ofRoute != p || !a.routeIsSure || p.Spec.MergeType != "" || !s.callsWeir(a.ofGateway) {
		return
	}
	rules, all := s.rulesWithoutPolicy(a)
	if len(rules) == 0 && !all {
		return
	}
	b := a.bypassedBy(p)
	b.rules, b.wired = rules, fmt.Sprintf("Gateway %s", a.gateway)
	s.addBypass(b)
}

// findRuleBypasses adds the bypasses by a SecurityPolicy of a rule. Without mergeType it replaces the
// SecurityPolicies of the route and the Gateway; with it, it merges with the one of the Gateway, never with the
// one of the route.
func (s *Snapshot) findRuleBypasses(p *SecurityPolicy, a *attachment) {
	for _, rule := range a.route.Spec.Rules {
		if rule.Name == "" {
			continue
		}
		if of, sure := s.policyOf(a.scopeOf(rule), a.route); of != p || !sure {
			continue
		}
		b := a.bypassedBy(p)
		b.rule, b.rules = rule.Name, []string{rule.Name}
		onRoute := a.routeIsSure && s.callsWeir(a.ofRoute)
		switch {
		case onRoute && (p.Spec.MergeType == "" || a.ofGateway == nil || a.ofGateway.Spec.ExtAuth == nil):
			b.wired = fmt.Sprintf("%s %s", a.name.kind, a.name.NamespacedName)
		case p.Spec.MergeType == "" && s.callsWeir(a.ofGateway):
			b.wired = fmt.Sprintf("Gateway %s", a.gateway)
		default:
			continue
		}
		s.addBypass(b)
	}
}

func (a *attachment) scopeOf(rule Section) scope {
	return scope{kind: a.name.kind, namespace: a.name.Namespace, name: a.name.Name, section: rule.Name}
}

func (a *attachment) bypassedBy(p *SecurityPolicy) bypass {
	return bypass{policy: p, route: a.name, gateway: a.gateway, listener: a.listener}
}

// rulesWithoutPolicy returns the named rules without a SecurityPolicy of their own, and whether other rules
// have none either, because they have no name.
func (s *Snapshot) rulesWithoutPolicy(a *attachment) (named []string, others bool) {
	others = len(a.route.Spec.Rules) == 0
	for _, rule := range a.route.Spec.Rules {
		if rule.Name == "" {
			others = true
		} else if len(s.byScope[a.scopeOf(rule)]) == 0 {
			named = append(named, rule.Name)
		}
	}
	return named, others
}

// addBypass adds the bypass if Envoy Gateway applies its SecurityPolicy.
func (s *Snapshot) addBypass(b bypass) {
	switch b.policy.acceptedFor(b.gateway, b.listener) {
	case accepted:
		s.bypasses = append(s.bypasses, b)
	case notCurrent:
		s.unsettled = append(s.unsettled, b)
	case notAccepted:
	}
}
