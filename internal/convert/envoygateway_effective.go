// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/wiring"
)

// ruleSet is the rules in force for a rule of a route behind a listener.
type ruleSet struct {
	global, local []source // local has no rule without selectors
	// rest is the rule of requests that no rule of local selects, nil for no limit. It matters only if hasLocal is true.
	rest     *source
	hasLocal bool
}

// rulesOf returns the rules of one policy.
func rulesOf(p *trafficPolicy) (set ruleSet) {
	if p.limits == nil || p.problem != nil {
		return set
	}
	if p.limits.Global != nil {
		for i := range p.limits.Global.Rules {
			set.global = append(set.global, source{p, "global", i})
		}
	}
	if p.limits.Local != nil {
		set.hasLocal = true
		for i := range p.limits.Local.Rules {
			s := source{p, "local", i}
			if len(s.rule().ClientSelectors) == 0 {
				set.rest = &s
			} else {
				set.local = append(set.local, s)
			}
		}
	}
	return set
}

// mergeRules returns the rules of a policy with mergeType and its parent. The policy keeps the rules of its parent with
// StrategicMerge, and replaces them with JSONMerge. The default of its local rules replaces the default of the parent.
func mergeRules(p, parent *trafficPolicy) ruleSet {
	set, of := rulesOf(p), rulesOf(parent)
	replaces := p.Spec.MergeType == "JSONMerge"
	if !replaces || len(set.global) == 0 {
		set.global = append(of.global, set.global...)
	}
	if !replaces || len(set.local) == 0 {
		set.local = append(of.local, set.local...)
	}
	if !set.hasLocal {
		set.hasLocal, set.rest = of.hasLocal, of.rest
	}
	return set
}

// all returns all rules.
func (s *ruleSet) all() []source {
	all := slices.Concat(s.global, s.local)
	if s.hasLocal && s.rest != nil {
		all = append(all, *s.rest)
	}
	return all
}

// rulesFor returns the rules in force for a rule of the route behind a listener. The policy of the rule replaces the one of
// the route, which replaces the ones of the listener and the Gateway, even if it limits nothing. A redirect is not limited.
func (o *trafficObjects) rulesFor(r *route, rule int, a attachment) ruleSet {
	if r.Spec.Rules[rule].redirects() {
		return ruleSet{}
	}
	parent := o.policyInForce(plan.TargetGateway, a.namespace, a.gateway, a.listener)
	own := o.policyInForce(r.Kind, r.Namespace, r.Name, r.Spec.Rules[rule].Name)
	switch {
	case own == nil && parent == nil:
		return ruleSet{}
	case own == nil:
		return rulesOf(parent)
	case own.Spec.MergeType == "" || parent == nil:
		return rulesOf(own)
	}
	return mergeRules(own, parent)
}

// redirects reports whether the rule answers with a redirect.
func (r *routeRule) redirects() bool {
	return slices.ContainsFunc(r.Filters, func(f routeFilter) bool { return f.Type == "RequestRedirect" })
}

// policyInForce returns the policy for the section: its own or, without one, the policy for the whole object.
func (o *trafficObjects) policyInForce(kind, namespace, name, section string) *trafficPolicy {
	if own := o.policyFor(kind, namespace, name, section); own != nil {
		return own
	}
	return o.policyFor(kind, namespace, name, "")
}

// policyFor returns the policy of the target, the first of several, nil for none.
func (o *trafficObjects) policyFor(kind, namespace, name, section string) *trafficPolicy {
	for _, p := range o.policies {
		if o.hasTarget(p, kind, namespace, name, section) {
			return p
		}
	}
	return nil
}

// hasTarget reports whether the policy has the target. Selectors select whole objects.
func (o *trafficObjects) hasTarget(p *trafficPolicy, kind, namespace, name, section string) bool {
	if p.Namespace != namespace {
		return false
	}
	if slices.Contains(p.targets(), wiring.TargetRef{Kind: kind, Name: name, SectionName: section}) {
		return true
	}
	m := o.object(kind, namespace, name)
	return section == "" && m != nil && slices.ContainsFunc(p.Spec.TargetSelectors, func(s wiring.TargetSelector) bool { return s.Selects(m.Kind, m.Labels) })
}

// targets returns the targets that the policy names.
func (p *trafficPolicy) targets() []wiring.TargetRef {
	if p.Spec.TargetRef != nil {
		return []wiring.TargetRef{*p.Spec.TargetRef}
	}
	return p.Spec.TargetRefs
}

// object returns the route or Gateway among the files, nil for none.
func (o *trafficObjects) object(kind, namespace, name string) *manifest {
	if kind == plan.TargetGateway {
		if g := o.gateways[namespace+"/"+name]; g != nil {
			return g.manifest
		}
		return nil
	}
	if r := o.route(kind, namespace, name); r != nil {
		return r.manifest
	}
	return nil
}

// listenersOf returns the listeners of the route, with its hosts there. Hosts that another listener of the same port names
// are left to that.
func (o *trafficObjects) listenersOf(r *route) (found []attachment) {
	for _, a := range o.attachments(r) {
		g := o.gateways[a.namespace+"/"+a.gateway]
		if slices.ContainsFunc(found, a.isSameListener) {
			continue
		}
		if g == nil {
			found = append(found, a)
			continue
		}
		own := g.listener(a.listener)
		if !own.accepts(r, g.Namespace) {
			continue
		}
		hadHosts := len(a.hosts) > 0
		a.hosts = slices.DeleteFunc(slices.Clone(a.hosts), func(host string) bool {
			return slices.ContainsFunc(g.Spec.Listeners, func(l listener) bool { return l.Name != a.listener && l.Port == own.Port && l.Hostname == host })
		})
		if hadHosts && len(a.hosts) == 0 {
			continue
		}
		a.hosts = sortedSet(a.hosts)
		found = append(found, a)
	}
	return found
}

func (a attachment) isSameListener(other attachment) bool {
	return a.namespace == other.namespace && a.gateway == other.gateway && a.listener == other.listener
}

func (g *gateway) listener(name string) *listener {
	for i := range g.Spec.Listeners {
		if g.Spec.Listeners[i].Name == name {
			return &g.Spec.Listeners[i]
		}
	}
	return &listener{}
}

// accepts reports whether the listener, of a Gateway of the Namespace, serves routes of HTTP of the route's Namespace.
func (l *listener) accepts(r *route, namespace string) bool {
	from := l.AllowedRoutes.Namespaces.From
	return (l.Protocol == "" || strings.HasPrefix(l.Protocol, "HTTP")) && (r.Namespace == namespace || from == "All" || from == "Selector")
}
