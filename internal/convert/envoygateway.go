// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/wiring"
)

// EnvoyGatewayOptions are what the manifests do not contain.
type EnvoyGatewayOptions struct {
	// Namespace is the Namespace of objects without one.
	Namespace string
	// Replicas is the number of pods of Envoy: each counts local limits on its own. At least 1.
	Replicas int64
	// WeirNamespace and Service are where Envoy asks Weir, EnvoyNamespace is where the pods of Envoy run.
	WeirNamespace, Service, EnvoyNamespace string
}

// EnvoyGateway converts the rate limits of BackendTrafficPolicies of Envoy Gateway, with the routes that they target or that
// are attached to their Gateways, and these Gateways, into one policy per rule and route, in the Namespace of the route. A rule
// that is shared becomes one policy. The manifests let the Gateways and routes ask Weir. Other objects are skipped.
func EnvoyGateway(ctx context.Context, files []File, o EnvoyGatewayOptions) ([]*v1alpha1.RateLimitPolicy, []wiring.Manifest, []Note, error) {
	c := &trafficConverter{
		collector: newCollector(), options: o, shared: map[source][]placement{}, inForce: map[*trafficPolicy]bool{},
		trafficObjects: trafficObjects{routeObjects: routeObjects{gateways: map[string]*gateway{}}},
	}
	manifests, err := c.readManifests(files, o.Namespace)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, m := range manifests {
		unknown, err := c.read(m)
		if err != nil {
			return nil, nil, nil, err
		}
		for _, text := range unknown {
			c.lose(m.id(), "%s", text)
		}
	}
	c.sortPolicies()
	for _, p := range c.policies {
		p.problem = p.validate()
	}
	for _, r := range c.routes {
		c.convertRoute(ctx, r)
	}
	c.convertShared(ctx)
	for _, p := range c.policies {
		c.notePolicy(p)
	}
	wired := c.wire()
	policies, notes, err := c.finish(c.differences()...)
	return policies, wired, notes, err
}

type trafficConverter struct {
	collector
	trafficObjects
	options EnvoyGatewayOptions
	shared  map[source][]placement // where shared rules are in force
	inForce map[*trafficPolicy]bool
	targets []wireTarget // that have converted policies
	hasLocal,
	hasGlobal bool
}

func (c *trafficConverter) differences() []string {
	differences := []string{
		"checks come before Envoy Gateway's authentication: what this sets or rejects, limits see only with a filterOrder, see docs/integrations/envoy-gateway.md",
	}
	if c.hasGlobal {
		differences = append(differences, "windows of global limits start at the first request of a key, not at the full minute, hour or day")
	}
	if c.hasLocal {
		differences = append(differences, fmt.Sprintf("the pods of Envoy share each local limit, which is multiplied by --replicas (%d)", c.options.Replicas))
	}
	return differences
}

// group is the rules and listeners of a route with one set of rules.
type group struct {
	set   ruleSet
	spots []spot
}

// groupsOf returns the groups of a route. Rules behind other listeners than the rest are groups of their own.
func (c *trafficConverter) groupsOf(r *route, listeners []attachment) (groups []*group) {
	for rule := range r.Spec.Rules {
		sets := map[string]*group{}
		var own []*group
		for i, a := range listeners {
			set := c.rulesFor(r, rule, a)
			if len(set.all()) == 0 {
				continue
			}
			id := set.id()
			if sets[id] == nil {
				sets[id] = &group{set: set}
				own = append(own, sets[id])
			}
			sets[id].spots = append(sets[id].spots, spot{rule, i})
		}
		for _, g := range own {
			n := slices.IndexFunc(groups, func(other *group) bool {
				return other.set.id() == g.set.id() && slices.Equal(other.listeners(), g.listeners())
			})
			if n < 0 {
				groups = append(groups, g)
			} else {
				groups[n].spots = append(groups[n].spots, g.spots...)
			}
		}
	}
	return groups
}

func (g *group) listeners() []int {
	_, listeners := sidesOf(g.spots)
	return listeners
}

// id distinguishes sets of rules.
func (s *ruleSet) id() string {
	var text strings.Builder
	for _, rule := range s.all() {
		text.WriteString(rule.at() + ",")
	}
	return text.String()
}

// placement is the requests of rules of a route behind listeners.
type placement struct {
	route     *route
	rules     []int
	listeners []attachment
	all       []attachment // of the route
	set       ruleSet
	isWhole   bool // all rules behind all listeners
}

// convertRoute adds the policies of the rules in force for the route, except shared ones, which it collects.
func (c *trafficConverter) convertRoute(ctx context.Context, r *route) {
	listeners := c.listenersOf(r)
	c.loseListenerSets(r)
	for _, g := range c.groupsOf(r, listeners) {
		rules, indexes := sidesOf(g.spots)
		p := placement{route: r, rules: rules, all: listeners, set: g.set}
		for _, i := range indexes {
			p.listeners = append(p.listeners, listeners[i])
		}
		p.isWhole = len(g.spots) == len(r.Spec.Rules)*len(listeners)
		c.noteOrder(&p)
		for _, s := range g.set.all() {
			c.inForce[s.policy] = true
			switch problem := c.problemOf(&p, s); {
			case problem != "":
				c.lose(s.at(), "%s", problem)
			case s.isShared():
				c.shared[s] = append(c.shared[s], p)
			default:
				for _, part := range p.byName() {
					c.convert(ctx, s, []placement{part})
				}
			}
		}
	}
}

// byName returns a placement for each rule if all have names: policies can then name them.
func (p *placement) byName() (parts []placement) {
	if slices.ContainsFunc(p.rules, func(rule int) bool { return p.route.Spec.Rules[rule].Name == "" }) {
		return []placement{*p}
	}
	for _, rule := range p.rules {
		part := *p
		part.rules, part.isWhole = []int{rule}, p.isWhole && len(p.rules) == 1
		parts = append(parts, part)
	}
	return parts
}

// problemOf returns why the rule cannot be converted for the requests, or "".
func (c *trafficConverter) problemOf(p *placement, s source) string {
	for _, a := range p.listeners {
		if c.gateways[a.namespace+"/"+a.gateway] == nil {
			return fmt.Sprintf("Gateway %s/%s of %s is not among the files, so its listeners are unknown", a.namespace, a.gateway, p.route.id())
		}
	}
	if s.scope == "global" && !s.isShared() && slices.ContainsFunc(p.set.global, func(other source) bool {
		return other != s && !other.isShared() && sameNetworkFirst(s.rule(), other.rule())
	}) {
		return "another rule has the same sourceCIDR, and neither has headers, methods or a path: the rate limit service takes both for one descriptor"
	}
	return ""
}

// sameNetworkFirst reports whether the descriptors of both rules begin with the same network, which has no number of the rule.
func sameNetworkFirst(a, b *trafficRule) bool {
	first := func(r *trafficRule) string {
		found, problems := clientsOf(r)
		if len(problems) > 0 || found.network == nil {
			return ""
		}
		for _, s := range r.ClientSelectors {
			if len(s.Headers)+len(s.Methods) > 0 || s.Path != nil {
				return ""
			}
		}
		return fmt.Sprint(found.network.prefix, found.network.inverted)
	}
	return first(a) != "" && first(a) == first(b)
}

// convertShared adds a policy for each shared rule, for all its routes.
func (c *trafficConverter) convertShared(ctx context.Context) {
	for _, p := range c.policies {
		if p.limits == nil || p.limits.Global == nil {
			continue
		}
		for i := range p.limits.Global.Rules {
			if s := (source{p, "global", i}); len(c.shared[s]) > 0 {
				c.convert(ctx, s, c.shared[s])
			}
		}
	}
}

// noteOrder notes that Envoy asks several limiters one after the other.
func (c *trafficConverter) noteOrder(p *placement) {
	if len(p.set.local) > 1 || len(p.set.domains()) > 1 {
		c.note(p.set.all()[0].policy.id()+": spec.rateLimit", "Envoy asks several limiters in turn (local limits from the slowest on, then global ones, shared ones apart), "+
			"and a request that one denies has spent from those before it; here it spends from none")
	}
}

// domains returns the limiters that Envoy asks one after the other.
func (s *ruleSet) domains() (names []string) {
	if s.hasLocal {
		names = append(names, "local")
	}
	for _, rule := range s.global {
		name := "global"
		if rule.isShared() {
			name = rule.policy.id()
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// countsDenied reports whether the global rules count requests that another of them denies. Where Envoy asks further limiters,
// such requests spend nothing.
func (s *ruleSet) countsDenied() bool { return len(s.global) > 1 && len(s.domains()) == 1 }

// convert adds the policy of the rule for the requests; of a shared rule for all of them.
func (c *trafficConverter) convert(ctx context.Context, s source, where []placement) {
	policy := c.newPolicy(where[0].route.Namespace, s.words(&where[0])...)
	selected, problems := clientsOf(s.rule())
	for _, problem := range problems {
		c.lose(s.at()+"."+problem.field, "%s", problem.text)
	}
	if len(problems) > 0 || !c.setLimit(s, policy, selected) {
		return
	}
	if s.isRest() && !c.exempt(s, policy, &where[0].set) {
		return
	}
	if s.scope == "global" && !slices.ContainsFunc(where, func(p placement) bool { return !p.set.countsDenied() }) {
		policy.Spec.Counting = v1alpha1.CountingAttempts
	}
	if err := c.placeAll(policy, s, where, selected); err != nil {
		c.lose(s.at(), "%s", err)
		return
	}
	if c.add(ctx, s.at(), policy) {
		c.addTargets(s, policy, where)
	}
}

// words returns the words of the name of the policy for the requests.
func (s source) words(p *placement) []string {
	words := []string{s.policy.Name, s.scope, strconv.Itoa(s.index)}
	if s.isShared() {
		return words
	}
	if targets := s.policy.targets(); len(targets) != 1 || targets[0].Kind == plan.TargetGateway {
		words = append(words, p.route.Name)
	}
	if !p.isWhole && len(p.rules) == 1 {
		words = append(words, p.route.ruleName(p.rules[0]))
	}
	return words
}

// placeAll sets targetRefs, matches and the key of the policy.
func (c *trafficConverter) placeAll(policy *v1alpha1.RateLimitPolicy, s source, where []placement, selected *clients) error {
	var conditions, hosts []string
	if s.isShared() && len(where) > 1 || s.isShared() && where[0].isWhole {
		if err := c.shareTargets(policy, s, where); err != nil {
			return err
		}
	} else {
		p := &where[0]
		var err error
		if hosts, conditions, err = p.place(policy); err != nil {
			return fmt.Errorf("%s: %w", p.route.id(), err)
		}
		if !s.isShared() {
			if policy.Spec.Key, err = p.route.cellKey(p.rules, p.listeners); err != nil {
				return fmt.Errorf("%s: %w", p.route.id(), err)
			}
		}
	}
	policy.Spec.Key = append(policy.Spec.Key, selected.key...)
	m := selected.match(conditions)
	if m.Hosts = hosts; len(hosts) > 0 || keyOfMatch(m) != keyOfMatch(v1alpha1.Match{}) {
		policy.Spec.Matches = []v1alpha1.Match{m}
	}
	return nil
}

// place sets the targetRefs of the policy, and returns what else the requests must fulfil.
func (p *placement) place(policy *v1alpha1.RateLimitPolicy) (hosts, conditions []string, err error) {
	var own []int
	for i, a := range p.all {
		if slices.ContainsFunc(p.listeners, a.isSameListener) {
			own = append(own, i)
		}
	}
	hosts, conditions, err = hostsBehind(p.all, own, false)
	if err != nil {
		return nil, nil, err
	}
	var needsRules bool
	if policy.Spec.TargetRefs, needsRules = p.route.targetRefs(p.rules); needsRules {
		conditions = append(conditions, "("+takenBy(p.route.orderedMatches(), p.rules)+")")
	}
	return hosts, conditions, nil
}

// shareTargets sets the targetRefs of the policy to the Gateways of the source if it is in force for all their routes, else to
// its routes.
func (c *trafficConverter) shareTargets(policy *v1alpha1.RateLimitPolicy, s source, where []placement) error {
	if c.coversGateways(s, where) {
		policy.Namespace = s.policy.Namespace
		for _, t := range s.policy.targets() {
			policy.Spec.TargetRefs = append(policy.Spec.TargetRefs, targetRef(t.Kind, t.Name))
		}
		return nil
	}
	for i := range where {
		p := &where[i]
		if p.route.Namespace != policy.Namespace {
			return fmt.Errorf("it is shared by routes of the Namespaces %s and %s, but not by all routes of a Gateway: a policy cannot target them", policy.Namespace, p.route.Namespace)
		}
		refs := *policy
		hosts, conditions, err := p.place(&refs)
		if err != nil || len(hosts)+len(conditions) > 0 {
			return fmt.Errorf("it is shared, and only some rules without names or some hosts of %s have it: a policy cannot target them together with other routes", p.route.id())
		}
		policy.Spec.TargetRefs = append(policy.Spec.TargetRefs, refs.Spec.TargetRefs...)
	}
	return nil
}

// coversGateways reports whether the policy of the shared rule names only Gateways, and all rules of all their routes have it.
func (c *trafficConverter) coversGateways(s source, where []placement) bool {
	targets := s.policy.targets()
	if len(targets) == 0 || len(s.policy.Spec.TargetSelectors) > 0 || slices.ContainsFunc(targets, func(t wiring.TargetRef) bool { return t.Kind != plan.TargetGateway || t.SectionName != "" }) {
		return false
	}
	for _, r := range c.routes {
		listeners := c.listenersOf(r)
		isOf := func(a attachment) bool {
			return a.namespace == s.policy.Namespace && slices.Contains(targets, wiring.TargetRef{Kind: plan.TargetGateway, Name: a.gateway})
		}
		if slices.ContainsFunc(listeners, isOf) && !slices.ContainsFunc(where, func(p placement) bool {
			return p.route == r && p.isWhole && !slices.ContainsFunc(listeners, func(a attachment) bool { return !isOf(a) })
		}) {
			return false
		}
	}
	return true
}
