// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/convert"
	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// cluster is a random Gateway with routes and policies of Kuadrant, and its counters.
type cluster struct {
	listeners []string // their hosts; "" is every host
	routes    []clusterRoute
	policies  []*clusterPolicy
	counts    map[string]int64
}

type clusterRoute struct {
	kind, name string
	hosts      []string // none is every host
	rules      []string // their names, which may be empty; each has the paths below /<route>-<index>
}

type clusterPolicy struct {
	name                string
	kind, target, place string // place is the name of a listener or rule, or empty
	overrides, merges   bool
	when                int // an index of predicates, -1 for none
	limits              map[string]clusterLimit
}

type clusterLimit struct {
	when    int
	counter string
	most    int64
}

// predicates are conditions of Kuadrant and their meaning.
var predicates = []struct {
	text  string
	holds func(a *plan.Attributes) bool
}{
	{"request.method == 'GET'", func(a *plan.Attributes) bool { return a.Method == http.MethodGet }},
	{"request.url_path.endsWith('/x')", func(a *plan.Attributes) bool { return strings.HasSuffix(a.Path, "/x") }},
	{"auth.identity.userid != 'root' || request.method == 'PUT'", func(a *plan.Attributes) bool { return a.Principal != "root" || a.Method == http.MethodPut }},
}

// clusterCounters are the expressions of counters and their meaning; "" is one counter for all requests.
var clusterCounters = map[string]func(a *plan.Attributes) string{
	"":                            func(*plan.Attributes) string { return "" },
	"auth.identity.userid":        func(a *plan.Attributes) string { return a.Principal },
	"request.headers['x-tenant']": func(a *plan.Attributes) string { return a.Headers["x-tenant"] },
	"request.method":              func(a *plan.Attributes) string { return a.Method },
}

func randomCluster(r *rand.Rand) *cluster {
	c := &cluster{counts: map[string]int64{}, listeners: pick(r, []string{""}, []string{"*.a.io"}, []string{"*.a.io", "x.a.io", "*.b.io"}, []string{"*.a.io", ""})}
	for i := range 1 + r.IntN(2) {
		route := clusterRoute{kind: pick(r, "HTTPRoute", "HTTPRoute", "GRPCRoute"), name: fmt.Sprintf("r%d", i), hosts: pick(r, nil, nil, []string{"x.a.io"}, []string{"*.a.io"})}
		for j := range 1 + r.IntN(2) {
			route.rules = append(route.rules, pick(r, "", fmt.Sprintf("named%d", j)))
		}
		c.routes = append(c.routes, route)
	}
	for i := range 1 + r.IntN(4) {
		p := &clusterPolicy{name: fmt.Sprintf("p%d", i), kind: "Gateway", target: "edge", when: -1, limits: map[string]clusterLimit{}}
		p.place = pick(r, "", fmt.Sprintf("l%d", r.IntN(len(c.listeners))))
		if r.IntN(2) == 0 {
			route := pick(r, c.routes...)
			rule := r.IntN(len(route.rules))
			p.kind, p.target, p.place = route.kind, route.name, pick(r, "", route.ruleName(rule))
		}
		p.overrides, p.merges = r.IntN(4) == 0, r.IntN(3) == 0
		if r.IntN(4) == 0 {
			p.when = r.IntN(len(predicates))
		}
		for range 1 + r.IntN(2) {
			p.limits[pick(r, "a", "b", "c")] = clusterLimit{
				when: r.IntN(len(predicates)+2) - 2, most: int64(r.IntN(4)),
				counter: pick(r, "", "auth.identity.userid", "request.headers['x-tenant']", "request.method"),
			}
		}
		c.policies = append(c.policies, p)
	}
	return c
}

func (r *clusterRoute) ruleName(rule int) string {
	if r.rules[rule] == "" {
		return fmt.Sprintf("rule-%d", rule+1)
	}
	return r.rules[rule]
}

// path returns a prefix of the paths of the rule.
func (r *clusterRoute) path(rule int) string { return fmt.Sprintf("/%s-%d", r.name, rule) }

// manifests returns the objects as YAML. Later policies are younger.
func (c *cluster) manifests(g *WithT) []byte {
	object := func(api, kind, namespace, name string, spec any) map[string]any {
		return map[string]any{"apiVersion": api, "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec}
	}
	const gatewayAPI = "gateway.networking.k8s.io/v1"
	var listeners, items []any
	for i, host := range c.listeners {
		listeners = append(listeners, map[string]any{"name": fmt.Sprintf("l%d", i), "hostname": host})
	}
	items = append(items, object(gatewayAPI, "Gateway", "shop", "edge", map[string]any{"listeners": listeners}))
	for _, route := range c.routes {
		var rules []any
		for i, name := range route.rules {
			match := map[string]any{"path": map[string]any{"type": "PathPrefix", "value": route.path(i)}}
			if route.kind == "GRPCRoute" {
				match = map[string]any{"method": map[string]any{"service": route.path(i)[1:]}}
			}
			rules = append(rules, map[string]any{"name": name, "matches": []any{match}})
		}
		items = append(items, object(gatewayAPI, route.kind, "shop", route.name, map[string]any{
			"parentRefs": []any{map[string]any{"name": "edge"}}, "hostnames": route.hosts, "rules": rules,
		}))
	}
	for i, p := range c.policies {
		o := object("kuadrant.io/v1", "RateLimitPolicy", "shop", p.name, p.spec())
		o["metadata"].(map[string]any)["creationTimestamp"] = time.Unix(int64(1_700_000_000+i), 0).UTC().Format(time.RFC3339)
		items = append(items, o)
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	g.Expect(err).NotTo(HaveOccurred())
	return text
}

func (p *clusterPolicy) spec() map[string]any {
	when := func(predicate int) []any {
		if predicate < 0 {
			return nil
		}
		return []any{map[string]any{"predicate": predicates[predicate].text}}
	}
	limits := map[string]any{}
	for name, l := range p.limits {
		limit := map[string]any{"rates": []any{map[string]any{"limit": l.most, "window": "1h"}}, "when": when(l.when)}
		if l.counter != "" {
			limit["counters"] = []any{map[string]any{"expression": l.counter}}
		}
		limits[name] = limit
	}
	rules := map[string]any{"limits": limits, "when": when(p.when), "strategy": "atomic"}
	if p.merges {
		rules["strategy"] = "merge"
	}
	target := map[string]any{"group": "gateway.networking.k8s.io", "kind": p.kind, "name": p.target}
	if p.place != "" {
		target["sectionName"] = p.place
	}
	if p.overrides {
		return map[string]any{"targetRef": target, "overrides": rules}
	}
	return map[string]any{"targetRef": target, "defaults": rules}
}

// sourced is a limit with its policy.
type sourced struct {
	clusterLimit

	policy *clusterPolicy
	name   string
}

// at returns the place of the limit in its policy.
func (l sourced) at() string {
	field := "spec.defaults"
	if l.policy.overrides {
		field = "spec.overrides"
	}
	return "RateLimitPolicy shop/" + l.policy.name + ": " + field + ".limits." + l.name
}

// isLost reports whether a note names the limit, or the target of its policy, as lost.
func (l sourced) isLost(notes []convert.Note) bool {
	return isLost(notes, l.at()) || isLost(notes, "RateLimitPolicy shop/"+l.policy.name+": spec.targetRef")
}

// ruleset is the limits of a policy or of several, with the condition for all of them: an index of predicates, -1 for none.
type ruleset struct {
	when   int
	limits map[string]sourced
}

func (p *clusterPolicy) ruleset() ruleset {
	own := ruleset{when: p.when, limits: map[string]sourced{}}
	for name, l := range p.limits {
		own.limits[name] = sourced{l, p, name}
	}
	return own
}

// or returns the ruleset with what it lacks from the other one.
func (s ruleset) or(other ruleset) ruleset {
	if s.when < 0 {
		s.when = other.when
	}
	for name, l := range other.limits {
		if _, exists := s.limits[name]; !exists {
			s.limits[name] = l
		}
	}
	return s
}

// resolve returns the limits in force, of policies from the Gateway to the rule. It follows the documentation: overrides of
// an object win over policies of objects below it, defaults give way to them.
func resolve(policies []*clusterPolicy) ruleset {
	if len(policies) == 0 {
		return ruleset{when: -1, limits: map[string]sourced{}}
	}
	p := policies[0]
	own, below := p.ruleset(), resolve(policies[1:])
	switch {
	case p.overrides && p.merges:
		return own.or(below)
	case p.overrides || len(below.limits) == 0:
		return own
	case p.merges:
		return below.or(own)
	}
	return below
}

// inForce returns the limits for a rule of the route behind a listener.
func (c *cluster) inForce(route *clusterRoute, rule, listener int) ruleset {
	var policies []*clusterPolicy
	for _, at := range []struct{ kind, target, place string }{
		{"Gateway", "edge", ""},
		{"Gateway", "edge", fmt.Sprintf("l%d", listener)},
		{route.kind, route.name, ""},
		{route.kind, route.name, route.ruleName(rule)},
	} {
		for _, p := range c.policies {
			if p.kind == at.kind && p.target == at.target && p.place == at.place {
				policies = append(policies, p)
			}
		}
	}
	return resolve(policies)
}

// arrival is a request that reaches a rule of a route through a listener.
type arrival struct {
	attributes     plan.Attributes
	route          *clusterRoute
	rule, listener int
}

// listenerOf returns the listener that takes the host, the most specific one, or -1.
func (c *cluster) listenerOf(host string) int {
	best := -1
	for i, own := range c.listeners {
		if acceptsHost(own, host) && (best < 0 || len(own) > len(c.listeners[best]) || own == host) {
			best = i
		}
	}
	return best
}

func acceptsHost(own, host string) bool {
	return own == "" || own == host || strings.HasPrefix(own, "*.") && strings.HasSuffix(host, own[1:])
}

// request returns a random request, nil if no listener or no route takes its host.
func (c *cluster) request(r *rand.Rand) *arrival {
	route := &c.routes[r.IntN(len(c.routes))]
	rule := r.IntN(len(route.rules))
	a := plan.Attributes{
		Method: pick(r, http.MethodGet, http.MethodPut), Host: pick(r, "x.a.io", "y.a.io", "z.b.io", "c.io"), Path: route.path(rule) + pick(r, "/x", "/y"),
		Principal: pick(r, "root", "ann"), Headers: map[string]string{"x-tenant": pick(r, "t1", "t2")},
	}
	listener := c.listenerOf(a.Host)
	if listener < 0 || len(route.hosts) > 0 && !slices.ContainsFunc(route.hosts, func(own string) bool { return acceptsHost(own, a.Host) }) {
		return nil
	}
	return &arrival{a, route, rule, listener}
}

// targets returns what a proxy reports of the request.
func (a *arrival) targets(g *WithT) (all []plan.Target) {
	for _, t := range []struct{ kind, name, section string }{
		{"Gateway", "edge", fmt.Sprintf("l%d", a.listener)}, {a.route.kind, a.route.name, a.route.rules[a.rule]},
	} {
		target, err := plan.NewTarget(t.kind, "shop", t.name, t.section)
		g.Expect(err).NotTo(HaveOccurred())
		all = append(all, target)
	}
	return all
}

// counters returns the counters of the limits that apply to the request. It reports false if one of the limits is lost.
func (c *cluster) counters(a *arrival, notes []convert.Note) (applying map[string]int64, isKnown bool) {
	applying = map[string]int64{}
	rules := c.inForce(a.route, a.rule, a.listener)
	holds := func(predicate int) bool { return predicate < 0 || predicates[predicate].holds(&a.attributes) }
	for _, l := range rules.limits {
		if l.isLost(notes) {
			return nil, false
		}
		if holds(rules.when) && holds(l.when) {
			applying[fmt.Sprint(a.route.name, l.policy.name, l.name, clusterCounters[l.counter](&a.attributes))] = l.most
		}
	}
	return applying, true
}

func TestRandomKuadrant(t *testing.T) {
	for name, byMatches := range map[string]bool{"by targetRefs": false, "by matches": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			seen := tally{}
			for seed := range uint64(40) {
				r := rand.New(rand.NewPCG(seed, 3))
				c := randomCluster(r)
				data := c.manifests(g)
				policies, notes, err := convert.Kuadrant(t.Context(), fileOf(data), convert.KuadrantOptions{Namespace: "shop", ByMatches: byMatches})
				g.Expect(err).NotTo(HaveOccurred(), "%s", data)
				c.countLimits(&seen, notes)
				e := newEngine(t, policies, &modelStore{now: time.Unix(1_900_000_000, 0)})
				for range 60 {
					a := c.request(r)
					if a == nil {
						continue
					}
					applying, isKnown := c.counters(a, notes)
					if !isKnown {
						continue
					}
					if !byMatches {
						a.attributes.Targets = a.targets(g)
					}
					want := countAll(c.counts, applying)
					decision, err := e.Decide(t.Context(), &limiter.Check{Cost: 1, Attributes: a.attributes})
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(decision.Allowed).To(Equal(want), "seed %d, %+v: %v %s\n%s%v", seed, a, decision.Reason, decision.Policy, data, notes)
					seen.count(want)
				}
			}
			seen.expect(g)
		})
	}
}

// countLimits counts the limits of all policies, and the lost ones.
func (c *cluster) countLimits(seen *tally, notes []convert.Note) {
	for _, p := range c.policies {
		for _, l := range p.ruleset().limits {
			seen.converted++
			if l.isLost(notes) {
				seen.lost++
			}
		}
	}
}
