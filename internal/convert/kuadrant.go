// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// KuadrantOptions are what the manifests do not contain.
type KuadrantOptions struct {
	// Namespace is the Namespace of objects without one.
	Namespace string
	// ByMatches selects requests by the hosts, paths, methods and headers of the routes in place of targetRefs, for proxies
	// that do not name the route of a request.
	ByMatches bool
}

// Kuadrant converts RateLimitPolicies of Kuadrant (kuadrant.io/v1, v1beta3 and v1beta2) with the HTTPRoutes and GRPCRoutes that they target, and
// those attached to the Gateways that they target, into one policy per limit and route, in the Namespace of the route.
// Other objects are skipped.
func Kuadrant(ctx context.Context, files []File, o KuadrantOptions) ([]*v1alpha1.RateLimitPolicy, []Note, error) {
	c := &kuadrantConverter{collector: newCollector(), options: o, kuadrantObjects: kuadrantObjects{routeObjects: routeObjects{gateways: map[string]*gateway{}}}}
	manifests, err := c.readManifests(files, o.Namespace)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range manifests {
		unknown, err := c.read(m)
		if err != nil {
			return nil, nil, err
		}
		if unknown != "" {
			c.lose(m.id(), "%s", unknown)
		}
	}
	for _, p := range c.tokens {
		c.loseTokens(p)
	}
	c.notePolicies(c.convertRoutes(ctx))
	return c.finish(c.differences()...)
}

// convertRoutes converts the limits in force for each route. It returns the policies of which a limit is in force.
func (c *kuadrantConverter) convertRoutes(ctx context.Context) (inForce map[*kuadrantPolicy]bool) {
	inForce = map[*kuadrantPolicy]bool{}
	for _, r := range c.routes {
		scopes := c.scopesOf(r)
		for _, s := range scopes {
			inForce[s.source] = true
			if s.isSplit(scopes) {
				c.lose(s.at(), "%s: other conditions apply to it in one rule than in another, and both share a counter", r.id())
				continue
			}
			c.convert(ctx, s)
		}
	}
	return inForce
}

// notePolicies notes the policies without limits, without targets, and of which no limit is in force.
func (c *kuadrantConverter) notePolicies(inForce map[*kuadrantPolicy]bool) {
	for _, p := range c.sources {
		limits, field := p.effective()
		switch problem := c.problem(p); {
		case len(limits.Limits) == 0:
			c.lose(p.id()+": "+field+".limits", "is empty")
		case problem != "":
			c.lose(p.id()+": spec.targetRef", "%s", problem)
		case !inForce[p]:
			c.note(p.id(), "has no effect: other policies replace it")
		}
	}
}

func (c *kuadrantConverter) differences() []string {
	differences := []string{"windows start at the first request of a key"}
	if c.options.ByMatches || c.usesMatches {
		differences = append(differences, "requests that a more specific match of another rule or route takes are limited, too")
	}
	if !c.options.ByMatches {
		differences = append(differences, "the policies name their routes: they apply to checks that name the route, see kubectl weir wire; for other proxies set --by-matches")
	}
	return differences
}

type kuadrantConverter struct {
	collector
	kuadrantObjects
	options     KuadrantOptions
	usesMatches bool // a rule without a name is selected by its matches
}

// loseTokens notes the limits of a TokenRateLimitPolicy.
func (c *kuadrantConverter) loseTokens(p *kuadrantPolicy) {
	limits, field := p.effective()
	for _, name := range slices.Sorted(maps.Keys(limits.Limits)) {
		c.lose(p.id()+": "+field+".limits."+name, "tokens are counted after the response, which checks of a route do not see. "+
			"Let the proxy send them as hits of Envoy's rate limit service, to a policy with lateCharges: see docs/integrations/envoy-ai-gateway.md")
	}
	if len(limits.Limits) == 0 {
		c.lose(p.id()+": "+field+".limits", "is empty")
	}
}

// scope is a limit with the rules of one route, and the listeners, where it is in force.
type scope struct {
	effectiveLimit
	when  []kuadrantWhen // for all limits
	route *route
	spots []spot
}

// at returns the path of the limit in its source.
func (s *scope) at() string { return s.source.id() + ": " + s.field + ".limits." + s.name }

// isSplit reports whether another scope has the same limit under other conditions.
func (s *scope) isSplit(scopes []*scope) bool {
	return slices.ContainsFunc(scopes, func(other *scope) bool { return other != s && other.source == s.source && other.name == s.name })
}

// scopesOf returns the limits in force for the route, in the order of the policies and of their names.
func (c *kuadrantConverter) scopesOf(r *route) (found []*scope) {
	for rule := range r.Spec.Rules {
		for i, a := range c.attachments(r) {
			effective := c.effectiveLimits(r, rule, a)
			for _, name := range slices.Sorted(maps.Keys(effective.limits)) {
				l := effective.limits[name]
				n := slices.IndexFunc(found, func(s *scope) bool {
					return s.source == l.source && s.name == name && slices.Equal(s.when, effective.when)
				})
				if n < 0 {
					n, found = len(found), append(found, &scope{effectiveLimit: l, when: effective.when, route: r})
				}
				found[n].spots = append(found[n].spots, spot{rule, i})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b *scope) int {
		return cmp.Compare(slices.Index(c.sources, a.source), slices.Index(c.sources, b.source))
	})
	return found
}

// convert adds the policy of the limit for the route.
func (c *kuadrantConverter) convert(ctx context.Context, s *scope) {
	at := s.at()
	words := []string{s.source.Name, s.name}
	if s.source.Spec.TargetRef.Kind == plan.TargetGateway {
		words = append(words, s.route.Name)
	}
	if slices.ContainsFunc(s.limit.RouteSelectors, func(r routeSelector) bool { return len(r.Hostnames) > 0 }) {
		c.lose(at+".routeSelectors", "hostnames of route selectors are not converted: write a route for these hosts")
		return
	}
	policy := c.newPolicy(s.route.Namespace, words...)
	conditions, err := c.conditions(at, slices.Concat(s.when, s.limit.When))
	if err != nil {
		c.lose(at+".when", "%s", err)
		return
	}
	if policy.Spec.Key, err = c.counters(at, &s.limit); err != nil {
		c.lose(at+".counters", "%s", err)
		return
	}
	if len(policy.Spec.Key) > 0 {
		policy.Spec.OnMissingKey = v1alpha1.OnMissingKeySkip
	}
	if !c.rates(at, policy, s.name, &s.limit) {
		return
	}
	if err := c.place(policy, s, conditions); err != nil {
		c.lose(at, "%s: %s", s.route.id(), err)
		return
	}
	c.add(ctx, at, policy)
}

// rates sets the limits of the policy, and reports whether all could be converted.
func (c *kuadrantConverter) rates(at string, policy *v1alpha1.RateLimitPolicy, name string, limit *kuadrantLimit) bool {
	if len(limit.Rates) == 0 {
		return c.lose(at+".rates", "is empty")
	}
	for i, rate := range limit.Rates {
		at := fmt.Sprintf("%s.rates[%d]", at, i)
		exact, err := time.ParseDuration(rate.Window)
		window := exact.Truncate(time.Second)
		switch {
		case err != nil:
			return c.lose(at+".window", "%q is not a duration", rate.Window)
		case window > plan.MaxFixedWindow || window < time.Second:
			return c.lose(at+".window", "windows are 1s to 8784h")
		case window != exact:
			c.note(at+".window", "is %s: Kuadrant counts whole seconds", windowOf(window))
		}
		l := v1alpha1.Limit{Name: slug(name, 55), Algorithm: v1alpha1.AlgorithmFixedWindow, Window: windowOf(window)}
		if len(limit.Rates) > 1 {
			l.Name = fmt.Sprintf("%s-%d", l.Name, i+1)
		}
		if slices.ContainsFunc(policy.Spec.Limits, func(other v1alpha1.Limit) bool { return other.Window == l.Window }) {
			c.note(at, "has no effect: Kuadrant keeps the first rate with a window")
			continue
		}
		if !c.setThreshold(at+".limit", policy, &l, uint64(max(rate.Limit, 0))) {
			return false
		}
		policy.Spec.Limits = append(policy.Spec.Limits, l)
	}
	return true
}

// place sets the targetRefs and matches of the policy to the requests of the scope that fulfil the conditions.
func (c *kuadrantConverter) place(policy *v1alpha1.RateLimitPolicy, s *scope, conditions []string) error {
	rules, listeners := sidesOf(s.spots)
	if len(s.spots) != len(rules)*len(listeners) {
		return errors.New("the limit applies to other rules behind one listener than behind another")
	}
	hosts, exclusions, err := hostsBehind(c.attachments(s.route), listeners, c.options.ByMatches)
	if err != nil {
		return err
	}
	conditions = append(exclusions, conditions...)
	needsMatches := true
	if !c.options.ByMatches {
		policy.Spec.TargetRefs, needsMatches = s.route.targetRefs(rules)
		c.usesMatches = c.usesMatches || needsMatches
	}
	switch {
	case needsMatches:
		policy.Spec.Matches = s.route.matches(rules, hosts, conditions)
	case len(hosts) > 0 || len(conditions) > 0:
		policy.Spec.Matches = []v1alpha1.Match{{Hosts: hosts, When: allOf(conditions)}}
	}
	return nil
}
