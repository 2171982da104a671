// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gatewayapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// bypass is the requests of a route that a SecurityPolicy keeps from Weir.
type bypass struct {
	policy *policy
	route  routeName
	rule   string // that the SecurityPolicy targets, "" for the route
	// wired is what asks Weir instead, a Gateway or the route.
	wired routeName
}

// String names the objects.
func (b *bypass) String() string {
	at := fmt.Sprintf("%s %s", b.route.kind, b.route.NamespacedName)
	if b.rule != "" {
		at = "rule " + b.rule + " of " + at
	}
	return fmt.Sprintf("Requests of %s do not reach Weir: SecurityPolicy %s has no extAuth and replaces the one of %s %s.",
		at, nameOf(b.policy), b.wired.kind, b.wired.NamespacedName)
}

// finder finds the bypasses of a Snapshot. It determines once for each object which SecurityPolicy applies to it.
type finder struct {
	*Snapshot

	byScope    map[scope]*choice // the SecurityPolicies that name the scope
	selections *selections
	ofGateways map[scope]gatewayPolicy // by Gateway and listener
}

// gatewayPolicy is the SecurityPolicy that a route has from its Gateway.
type gatewayPolicy struct {
	policy          *policy // nil for none
	sure, unchecked bool
}

func newFinder(s *Snapshot) *finder {
	f := &finder{Snapshot: s, byScope: map[scope]*choice{}, ofGateways: map[scope]gatewayPolicy{}}
	var selecting []*policy
	for rank, of := range s.policies {
		p := &policy{SecurityPolicy: of, rank: rank, conflicted: of.isConflicted(), callsWeir: s.callsWeir(of)}
		for _, ref := range p.targetRefs() {
			s.steps++
			at := scope{kind: kind(ref.Kind), namespace: p.Namespace, name: ref.Name, section: ref.SectionName}
			if f.byScope[at] == nil {
				f.byScope[at] = &choice{}
			}
			f.byScope[at].add(p)
		}
		if len(p.Spec.TargetSelectors) > 0 {
			selecting = append(selecting, p)
		}
	}
	if len(selecting) > 0 {
		f.selections = newSelections(s, selecting)
		s.steps += f.selections.steps
	}
	return f
}

// findBypasses sets the bypasses, in an order that does not depend on maps.
func (f *finder) findBypasses() {
	names := slices.SortedFunc(maps.Keys(f.routes), func(a, b routeName) int {
		return cmp.Or(strings.Compare(string(a.kind), string(b.kind)), strings.Compare(a.String(), b.String()))
	})
	for _, name := range names {
		f.findBypassesOf(name)
	}
}

// policyOf returns the SecurityPolicy of the scope, nil if it has none. sure is false if it is uncertain, unchecked is true
// if that is because of maxComparisons.
func (f *finder) policyOf(at scope) (p *policy, sure, unchecked bool) {
	f.steps++
	var c choice
	if named := f.byScope[at]; named != nil {
		c = *named
	}
	if at.section == "" && f.selections != nil {
		selecting, sure, unchecked := f.selections.of(at)
		if !sure {
			return nil, false, unchecked
		}
		c.merge(selecting)
	}
	p, sure = c.policy()
	return p, sure, false
}

// attachment is a route with the SecurityPolicies that apply to it, through one of its Gateways.
type attachment struct {
	name      routeName
	gateway   types.NamespacedName
	listener  string // "" for all
	ofGateway *policy
	ofRoute   *policy // nil for none, or if it is uncertain
	ofRules   []rulePolicy
	// unnamed is whether rules have no SecurityPolicy of their own because they have no name, named are the other rules
	// without one.
	unnamed bool
	named   []string
}

// rulePolicy is a named rule with its own SecurityPolicy, which has no extAuth.
type rulePolicy struct {
	rule   string
	policy *policy
}

// findBypassesOf adds the bypasses of the route.
func (f *finder) findBypassesOf(name routeName) {
	route := f.routes[name]
	ofRoute, _, unchecked := f.policyOf(name.scope(""))
	a := attachment{name: name, ofRoute: ofRoute, unnamed: len(route.Spec.Rules) == 0}
	for _, rule := range route.Spec.Rules {
		f.addRule(&a, rule.Name)
	}
	seen := map[scope]bool{}
	for i := range route.Spec.ParentRefs {
		parent := &route.Spec.ParentRefs[i]
		gateway, ok := parent.gateway(route.Namespace)
		at := scope{kindGateway, gateway.Namespace, gateway.Name, parent.SectionName}
		if !ok || f.gateways[gateway] == nil || seen[at] {
			continue // parents may differ in fields that are not read
		}
		seen[at] = true
		f.steps++
		of := f.policyOfGateway(gateway, parent.SectionName)
		if unchecked || of.unchecked {
			f.unchecked[name.scope("")], f.unchecked[scope{kindGateway, gateway.Namespace, gateway.Name, ""}] = true, true
		}
		if !of.sure {
			continue
		}
		a.gateway, a.listener, a.ofGateway = gateway, parent.SectionName, of.policy
		f.findRouteBypass(&a)
		f.findRuleBypasses(&a)
	}
}

// policyOfGateway returns the SecurityPolicy that a route has from its Gateway; listener is the one that it attaches to, ""
// for all.
func (f *finder) policyOfGateway(name types.NamespacedName, listener string) gatewayPolicy {
	at := scope{kindGateway, name.Namespace, name.Name, listener}
	of, known := f.ofGateways[at]
	if !known {
		of = f.findPolicyOfGateway(at)
		f.ofGateways[at] = of
	}
	return of
}

func (f *finder) findPolicyOfGateway(at scope) gatewayPolicy {
	listener := at.section
	for _, section := range f.gateways[types.NamespacedName{Namespace: at.namespace, Name: at.name}].Spec.Listeners {
		if listener != "" && section.Name != listener {
			continue
		}
		at.section = section.Name
		p, sure, _ := f.policyOf(at)
		if !sure || p != nil && listener == "" {
			return gatewayPolicy{} // the listeners differ
		}
		if p != nil {
			return gatewayPolicy{policy: p, sure: true}
		}
	}
	at.section = ""
	p, sure, unchecked := f.policyOf(at)
	return gatewayPolicy{p, sure, unchecked}
}

// bypasses reports whether the SecurityPolicy, which may be nil, keeps requests from Weir that another one sends there.
func (p *policy) bypasses() bool { return p != nil && p.Spec.ExtAuth == nil }

// sendsToWeir reports whether the SecurityPolicy, which may be nil, makes Envoy ask Weir.
func (p *policy) sendsToWeir() bool { return p != nil && p.callsWeir }

// findRouteBypass adds the bypass by a SecurityPolicy of the whole route: without mergeType it replaces the one
// of the Gateway.
func (f *finder) findRouteBypass(a *attachment) {
	p := a.ofRoute
	if !p.bypasses() || p.Spec.MergeType != "" || !a.ofGateway.sendsToWeir() || len(a.named) == 0 && !a.unnamed {
		return
	}
	f.addBypass(a, a.named, &bypass{policy: p, route: a.name, wired: routeName{kindGateway, a.gateway}})
}

// findRuleBypasses adds the bypasses by a SecurityPolicy of a rule. Without mergeType it replaces the
// SecurityPolicies of the route and the Gateway; with it, it merges with the one of the Gateway, never with the
// one of the route.
func (f *finder) findRuleBypasses(a *attachment) {
	for _, of := range a.ofRules {
		p, b := of.policy, &bypass{policy: of.policy, route: a.name, rule: of.rule}
		switch {
		case a.ofRoute.sendsToWeir() && (p.Spec.MergeType == "" || a.ofGateway == nil || a.ofGateway.Spec.ExtAuth == nil):
			b.wired = a.name
		case p.Spec.MergeType == "" && a.ofGateway.sendsToWeir():
			b.wired = routeName{kindGateway, a.gateway}
		default:
			continue
		}
		f.addBypass(a, []string{of.rule}, b)
	}
}

// addRule adds a rule of the route, whose name may be empty.
func (f *finder) addRule(a *attachment, rule string) {
	if rule == "" {
		a.unnamed = true
		return
	}
	at := a.name.scope(rule)
	if f.byScope[at] == nil {
		a.named = append(a.named, rule)
	} else if p, sure, _ := f.policyOf(at); sure && p.bypasses() {
		a.ofRules = append(a.ofRules, rulePolicy{rule, p})
	}
}

// addBypass adds the bypass of the rules if Envoy Gateway applies its SecurityPolicy.
func (f *finder) addBypass(a *attachment, rules []string, b *bypass) {
	f.steps += len(b.policy.Status.Ancestors)
	var to map[scope]*bypass
	switch b.policy.acceptedFor(a.gateway, a.listener) {
	case accepted:
		to = f.bypasses
	case notCurrent:
		to = f.unsettled
	case notAccepted:
		return
	}
	add := func(at scope) {
		f.steps++
		if first := to[at]; first == nil || b.policy.rank < first.policy.rank {
			to[at] = b
		}
	}
	add(a.name.scope(""))
	for _, rule := range rules {
		add(a.name.scope(rule))
	}
	add(scope{kindGateway, a.gateway.Namespace, a.gateway.Name, ""})
	if a.listener != "" {
		add(scope{kindGateway, a.gateway.Namespace, a.gateway.Name, a.listener})
	}
}
