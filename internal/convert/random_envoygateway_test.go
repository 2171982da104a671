// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
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

// proxyCluster is a random Gateway of Envoy Gateway with routes and BackendTrafficPolicies, and the counters of its Envoy. It
// follows the translator of Envoy Gateway 1.9: a route of Envoy for each listener, host, rule and match, with counters of its
// own.
type proxyCluster struct {
	listeners []string // their hosts, all with one port; "" is every host
	routes    []proxyRoute
	policies  []*proxyPolicy // the oldest first
	counts    map[string]int64
}

type proxyRoute struct {
	name  string
	hosts []string
	rules []proxyRule
}

type proxyRule struct {
	name      string
	matches   []proxyMatch
	redirects bool
}

type proxyMatch struct{ kind, path, method string }

type proxyPolicy struct {
	name           string
	kind, target   string
	section        string
	merge          string
	bySelector     bool
	limitsNothing  bool
	global, local  []proxyLimit
	hasLocal       bool
	spec           map[string]any // of rateLimit
	creationSecond int64
}

// proxyLimit is a rule of a policy: it selects requests, and has a counter for each value of the key.
type proxyLimit struct {
	at     string
	policy string
	most   int64
	shared bool
	shadow bool
	rest   bool // has no selectors
	holds  func(q *proxyRequest) bool
	key    func(q *proxyRequest) string
}

// proxyRequest is a request as Envoy has it.
type proxyRequest struct {
	method, host, path, query, address string
	headers                            map[string]string
}

// fullPath is the path that Envoy compares.
func (q *proxyRequest) fullPath() string {
	if q.query == "" {
		return q.path
	}
	return q.path + "?" + q.query
}

// parameter returns the value of a query parameter, and whether it is there.
func (q *proxyRequest) parameter(name string) (string, bool) {
	for part := range strings.SplitSeq(q.query, "&") {
		if key, value, _ := strings.Cut(part, "="); part != "" && key == name {
			return value, true
		}
	}
	return "", false
}

// selectors are conditions of clientSelectors and their meaning. Those with a key have a counter for each value.
var selectors = []struct {
	spec  map[string]any
	holds func(q *proxyRequest) bool
	key   func(q *proxyRequest) string
}{
	{header("X-User", "Distinct", nil, false), func(q *proxyRequest) bool { _, ok := q.headers["x-user"]; return ok }, func(q *proxyRequest) string { return q.headers["x-user"] }},
	{header("X-Tier", "Exact", "free", false), func(q *proxyRequest) bool { return q.headers["x-tier"] == "free" }, nil},
	{header("X-Tier", "", "free", true), func(q *proxyRequest) bool { return q.headers["x-tier"] != "free" }, nil},
	{header("X-Tier", "RegularExpression", "fr.*|gold", false), func(q *proxyRequest) bool { return fitsAll("fr.*|gold", q.headers["x-tier"]) }, nil},
	{header("X-Tier", "RegularExpression", ".*", true), func(q *proxyRequest) bool { _, ok := q.headers["x-tier"]; return !ok }, nil},
	{list("methods", map[string]any{"value": "GET"}), func(q *proxyRequest) bool { return q.method == "GET" }, nil},
	{list("methods", map[string]any{"value": "GET", "invert": true}), func(q *proxyRequest) bool { return q.method != "GET" }, nil},
	{path("PathPrefix", "/r0/a/"), func(q *proxyRequest) bool { return fitsAll(`/r0/a(/.*|\?.*|#.*|;.*|)`, q.fullPath()) }, nil},
	{path("Exact", "/r0/a"), func(q *proxyRequest) bool { return q.fullPath() == "/r0/a" }, nil},
	{path("RegularExpression", "/r[0-9]/b.*"), func(q *proxyRequest) bool { return fitsAll("/r[0-9]/b.*", q.fullPath()) }, nil},
	{path("RegularExpression", "^/r[01]/(a|b)$"), func(q *proxyRequest) bool { return fitsAll("/r[01]/(a|b)", q.fullPath()) }, nil},
	{cidr("192.0.2.0/25", "Exact", false), func(q *proxyRequest) bool { return isIn("192.0.2.0/25", q) }, nil},
	{cidr("192.0.2.0/24", "Distinct", false), func(q *proxyRequest) bool { return isIn("192.0.2.0/24", q) }, func(q *proxyRequest) string { return q.address }},
	{cidr("2001:db8::/33", "", true), func(q *proxyRequest) bool { return !isIn("2001:db8::/33", q) }, nil},
	{cidr("198.51.100.7/32", "Distinct", true), func(q *proxyRequest) bool { return !isIn("198.51.100.7/32", q) }, func(q *proxyRequest) string { return q.address }},
	{parameter("p", "Distinct", nil), func(q *proxyRequest) bool { _, ok := q.parameter("p"); return ok }, func(q *proxyRequest) string { v, _ := q.parameter("p"); return v }},
	{parameter("p", "Exact", "1"), func(q *proxyRequest) bool { v, _ := q.parameter("p"); return v == "1" }, nil},
}

func list(field string, value map[string]any) map[string]any {
	return map[string]any{field: []any{value}}
}

func header(name, kind string, value any, invert bool) map[string]any {
	return list("headers", selector(map[string]any{"name": name, "invert": invert}, kind, value))
}

func parameter(name, kind string, value any) map[string]any {
	return list("queryParams", selector(map[string]any{"name": name}, kind, value))
}

func path(kind, value string) map[string]any {
	return map[string]any{"path": selector(map[string]any{}, kind, value)}
}

func cidr(value, kind string, invert bool) map[string]any {
	return map[string]any{"sourceCIDR": selector(map[string]any{"invert": invert}, kind, value)}
}

func selector(fields map[string]any, kind string, value any) map[string]any {
	if kind != "" {
		fields["type"] = kind
	}
	if value != nil {
		fields["value"] = value
	}
	return fields
}

func fitsAll(pattern, text string) bool {
	return regexp.MustCompile("^(?:" + pattern + ")$").MatchString(text)
}

func isIn(network string, q *proxyRequest) bool {
	return netip.MustParsePrefix(network).Contains(netip.MustParseAddr(q.address))
}

// shapes are what the random policies limit.
var shapes = map[string]struct{ global, local, merges, shared bool }{
	"global":            {global: true},
	"local":             {local: true},
	"shared":            {global: true, shared: true},
	"merged":            {global: true, local: true, merges: true},
	"merged and shared": {global: true, local: true, merges: true, shared: true},
}

func randomProxyCluster(r *rand.Rand, shape string) *proxyCluster {
	c := &proxyCluster{counts: map[string]int64{}, listeners: pick(r, []string{""}, []string{""}, []string{"*.a.io"}, []string{"*.a.io", "x.a.io"}, []string{"*.a.io", ""})}
	for i := range 1 + r.IntN(2) {
		route := proxyRoute{name: fmt.Sprintf("r%d", i), hosts: pick(r, nil, []string{"x.a.io"}, []string{"*.a.io"}, []string{"x.a.io", "y.a.io"}, []string{"x.a.io", "*.a.io"})}
		prefix := "/" + route.name
		for j := range 1 + r.IntN(3) {
			rule := proxyRule{name: pick(r, "", fmt.Sprintf("named%d", j)), redirects: r.IntN(8) == 0}
			for range 1 + r.IntN(2) {
				rule.matches = append(rule.matches, pick(r,
					proxyMatch{"PathPrefix", prefix, ""}, proxyMatch{"PathPrefix", prefix + "/a", ""}, proxyMatch{"Exact", prefix + "/a", ""},
					proxyMatch{"PathPrefix", prefix, "PUT"}, proxyMatch{"RegularExpression", prefix + "/[ab].*", ""}))
			}
			route.rules = append(route.rules, rule)
		}
		route.rules = append(route.rules, proxyRule{name: pick(r, "", "last"), matches: []proxyMatch{{"PathPrefix", prefix, ""}}})
		c.routes = append(c.routes, route)
	}
	for i := range 1 + r.IntN(4) {
		c.policies = append(c.policies, c.randomPolicy(r, i, shape))
	}
	return c
}

func (c *proxyCluster) randomPolicy(r *rand.Rand, number int, shape string) *proxyPolicy {
	p := &proxyPolicy{name: fmt.Sprintf("p%d", number), kind: "Gateway", target: "edge", creationSecond: int64(number), spec: map[string]any{}}
	if r.IntN(4) == 0 {
		p.section = fmt.Sprintf("l%d", r.IntN(len(c.listeners)))
	}
	if r.IntN(2) == 0 {
		route := pick(r, c.routes...)
		p.kind, p.target, p.section = "HTTPRoute", route.name, pick(r, "", pick(r, route.rules...).name)
		p.bySelector = p.section == "" && r.IntN(4) == 0
		if shapes[shape].merges {
			p.merge = pick(r, "", "StrategicMerge", "JSONMerge")
		}
	}
	if p.limitsNothing = r.IntN(6) == 0; p.limitsNothing {
		return p
	}
	if shapes[shape].global {
		p.global = p.randomLimits(r, "global", r.IntN(3), shapes[shape].shared)
	}
	if shapes[shape].local && (r.IntN(2) == 0 || !shapes[shape].global) {
		p.hasLocal = true
		p.local = p.randomLimits(r, "local", r.IntN(3), false)
	}
	return p
}

// randomLimits returns rules, of which the last may have no selectors, and adds them to the spec.
func (p *proxyPolicy) randomLimits(r *rand.Rand, scope string, n int, shares bool) (limits []proxyLimit) {
	rules := []any{}
	withoutSelectors := r.IntN(3) > 0
	for i := range n + 1 {
		l := proxyLimit{
			at: fmt.Sprintf("BackendTrafficPolicy shop/%s: spec.rateLimit.%s.rules[%d]", p.name, scope, i), policy: p.name,
			most: 1 + int64(r.IntN(4)), shared: shares && r.IntN(2) == 0, shadow: r.IntN(10) == 0,
			holds: func(*proxyRequest) bool { return true }, key: func(*proxyRequest) string { return "" },
		}
		requests, rule := l.most, map[string]any{"shared": l.shared, "shadowMode": l.shadow}
		if scope == "global" && r.IntN(4) == 0 {
			cost := int64(1 + r.IntN(3))
			requests = l.most*cost + int64(r.IntN(int(cost)))
			rule["cost"] = map[string]any{"request": map[string]any{"from": "Number", "number": cost}}
		}
		rule["limit"] = map[string]any{"requests": requests, "unit": "Hour"}
		if l.rest = i == n && withoutSelectors; !l.rest {
			rule["clientSelectors"] = l.selectSome(r)
		}
		rules, limits = append(rules, rule), append(limits, l)
	}
	p.spec[scope] = map[string]any{"rules": rules}
	return limits
}

// selectSome adds one or two selectors of different kinds.
func (l *proxyLimit) selectSome(r *rand.Rand) (specs []any) {
	used := map[string]bool{}
	for range 1 + r.IntN(2) {
		s := pick(r, selectors...)
		field := fmt.Sprint(slices.Collect(mapsKeys(s.spec)))
		if used[field] {
			continue
		}
		used[field] = true
		holds, key := l.holds, l.key
		l.holds = func(q *proxyRequest) bool { return holds(q) && s.holds(q) }
		if s.key != nil {
			l.key = func(q *proxyRequest) string { return key(q) + "/" + s.key(q) }
		}
		specs = append(specs, s.spec)
	}
	return specs
}

func mapsKeys(m map[string]any) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// manifests returns the objects as YAML.
func (c *proxyCluster) manifests(g *WithT) []byte {
	const gatewayAPI = "gateway.networking.k8s.io/v1"
	object := func(api, kind, name string, spec any) map[string]any {
		return map[string]any{"apiVersion": api, "kind": kind, "metadata": map[string]any{"namespace": "shop", "name": name, "labels": map[string]any{"name": name}}, "spec": spec}
	}
	var listeners, items []any
	for i, host := range c.listeners {
		listeners = append(listeners, map[string]any{"name": fmt.Sprintf("l%d", i), "hostname": host, "port": 80, "protocol": "HTTP"})
	}
	items = append(items, object(gatewayAPI, "Gateway", "edge", map[string]any{"listeners": listeners}))
	for _, route := range c.routes {
		var rules []any
		for _, rule := range route.rules {
			var matches []any
			for _, m := range rule.matches {
				match := map[string]any{"path": map[string]any{"type": m.kind, "value": m.path}}
				if m.method != "" {
					match["method"] = m.method
				}
				matches = append(matches, match)
			}
			fields := map[string]any{"name": rule.name, "matches": matches}
			if rule.redirects {
				fields["filters"] = []any{map[string]any{"type": "RequestRedirect"}}
			}
			rules = append(rules, fields)
		}
		items = append(items, object(gatewayAPI, "HTTPRoute", route.name, map[string]any{"parentRefs": []any{map[string]any{"name": "edge"}}, "hostnames": route.hosts, "rules": rules}))
	}
	for _, p := range c.policies {
		spec := map[string]any{}
		switch target := map[string]any{"group": "gateway.networking.k8s.io", "kind": p.kind, "name": p.target}; {
		case p.bySelector:
			spec["targetSelectors"] = []any{map[string]any{"kind": p.kind, "matchLabels": map[string]any{"name": p.target}}}
		default:
			if p.section != "" {
				target["sectionName"] = p.section
			}
			spec["targetRefs"] = []any{target}
		}
		if p.merge != "" {
			spec["mergeType"] = p.merge
		}
		if !p.limitsNothing {
			spec["rateLimit"] = p.spec
		}
		o := object("gateway.envoyproxy.io/v1alpha1", "BackendTrafficPolicy", p.name, spec)
		o["metadata"].(map[string]any)["creationTimestamp"] = time.Unix(1_700_000_000+p.creationSecond, 0).UTC().Format(time.RFC3339)
		items = append(items, o)
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	g.Expect(err).NotTo(HaveOccurred())
	return text
}

// proxyArrival is a route of Envoy that takes a request.
type proxyArrival struct {
	route                 *proxyRoute
	listener, rule, match int
	host                  string
}

// arrivals returns all routes of Envoy.
func (c *proxyCluster) arrivals() (all []proxyArrival) {
	for listener, own := range c.listeners {
		for i := range c.routes {
			for _, host := range c.hostsOf(own, c.routes[i].hosts) {
				for rule := range c.routes[i].rules {
					for match := range c.routes[i].rules[rule].matches {
						all = append(all, proxyArrival{&c.routes[i], listener, rule, match, host})
					}
				}
			}
		}
	}
	return all
}

// arrivalOf returns the route of Envoy: of the most specific host, the first match in the order of Envoy Gateway.
func (c *proxyCluster) arrivalOf(q *proxyRequest) (best *proxyArrival) {
	all := slices.DeleteFunc(c.arrivals(), func(a proxyArrival) bool { return a.host != "*" && !acceptsHost(a.host, q.host) })
	most := 0
	for i := range all {
		most = max(most, specificity(all[i].host))
	}
	for i := range all {
		a := &all[i]
		if specificity(a.host) == most && a.at().fits(q) && (best == nil || a.at().rank() > best.at().rank()) {
			best = a
		}
	}
	return best
}

// rank is higher for matches that Envoy Gateway puts before others.
func (m *proxyMatch) rank() int {
	rank := map[string]int{"Exact": 20000, "RegularExpression": 10000}[m.kind] + 10*len(m.path)
	if m.method != "" {
		rank++
	}
	return rank
}

func (a *proxyArrival) at() *proxyMatch { return &a.route.rules[a.rule].matches[a.match] }

func specificity(host string) int {
	if strings.HasPrefix(host, "*") {
		return len(host)
	}
	return 1000
}

func (m *proxyMatch) fits(q *proxyRequest) bool {
	if m.method != "" && m.method != q.method {
		return false
	}
	switch m.kind {
	case "Exact":
		return q.path == m.path
	case "RegularExpression":
		return fitsAll(m.path, q.path)
	}
	return q.path == m.path || strings.HasPrefix(q.path, m.path+"/")
}

// hostsOf returns the hosts of a route behind a listener; hosts of other listeners are left to these.
func (c *proxyCluster) hostsOf(own string, hosts []string) (found []string) {
	if len(hosts) == 0 {
		return []string{cmp.Or(own, "*")}
	}
	for _, host := range hosts {
		switch {
		case own == "" || acceptsHost(own, host):
		case strings.HasPrefix(host, "*.") && acceptsHost(host, own):
			host = own
		default:
			continue
		}
		if host != own && slices.Contains(c.listeners, host) || slices.Contains(found, host) {
			continue
		}
		found = append(found, host)
	}
	return found
}

// proxySet is the limits in force for a route of Envoy.
type proxySet struct {
	global, local []proxyLimit
	hasLocal      bool
}

func (p *proxyPolicy) set() proxySet {
	if p == nil || p.limitsNothing {
		return proxySet{}
	}
	return proxySet{p.global, p.local, p.hasLocal}
}

func (c *proxyCluster) policyOf(kind, target, section string) *proxyPolicy {
	for _, p := range c.policies {
		if p.kind == kind && p.target == target && p.section == section {
			return p
		}
	}
	return nil
}

// limitsAt returns the limits in force.
func (c *proxyCluster) limitsAt(a *proxyArrival) proxySet {
	if a.route.rules[a.rule].redirects {
		return proxySet{}
	}
	parent := cmp.Or(c.policyOf("Gateway", "edge", fmt.Sprintf("l%d", a.listener)), c.policyOf("Gateway", "edge", ""))
	var own *proxyPolicy
	if name := a.route.rules[a.rule].name; name != "" {
		own = c.policyOf("HTTPRoute", a.route.name, name)
	}
	if own = cmp.Or(own, c.policyOf("HTTPRoute", a.route.name, "")); own == nil {
		return parent.set()
	}
	set, of := own.set(), parent.set()
	switch own.merge {
	case "StrategicMerge":
		set.global = slices.Concat(of.global, set.global)
		set.local = mergedLocal(set, slices.Concat(withSelectors(of.local), withSelectors(set.local)), of)
		set.hasLocal = set.hasLocal || of.hasLocal
	case "JSONMerge":
		if len(set.global) == 0 {
			set.global = of.global
		}
		selecting := withSelectors(set.local)
		if len(selecting) == 0 {
			selecting = withSelectors(of.local)
		}
		set.local = mergedLocal(set, selecting, of)
		set.hasLocal = set.hasLocal || of.hasLocal
	}
	return set
}

func withSelectors(limits []proxyLimit) []proxyLimit {
	return slices.DeleteFunc(slices.Clone(limits), func(l proxyLimit) bool { return l.rest })
}

// mergedLocal returns the rules with the default of the set, or of its parent if the set has no local limits.
func mergedLocal(set proxySet, selecting []proxyLimit, of proxySet) []proxyLimit {
	from := set.local
	if !set.hasLocal {
		from = of.local
	}
	for _, l := range from {
		if l.rest {
			selecting = append(selecting, l)
		}
	}
	return selecting
}

// use is a limit that a request spends from.
type use struct {
	counter string
	most    int64
	global  bool
	shadow  bool
}

// uses returns the counters of the request. It reports false if one of their limits is lost.
func (c *proxyCluster) uses(a *proxyArrival, q *proxyRequest, set proxySet, notes []convert.Note) (uses []use, isKnown bool) {
	at := fmt.Sprint(a.listener, a.host, a.route.name, a.rule, a.match)
	isSelected := false
	isKnown = true
	add := func(l proxyLimit, isGlobal bool) {
		counter := l.at + l.key(q)
		if !l.shared || !isGlobal {
			counter = at + counter
		}
		uses = append(uses, use{counter, l.most, isGlobal, l.shadow})
		isKnown = isKnown && !isLost(notes, l.at)
	}
	for _, l := range withSelectors(set.local) {
		if l.holds(q) {
			isSelected = true
			add(l, false)
		}
	}
	for _, l := range set.local {
		if l.rest && !isSelected {
			add(l, false)
		}
	}
	for _, l := range set.global {
		if l.holds(q) {
			add(l, true)
		}
	}
	return uses, isKnown
}

// limiters counts the limiters that Envoy asks one after the other.
func (s *proxySet) limiters() int {
	names := map[string]bool{}
	if s.hasLocal {
		names["local"] = true
	}
	for _, l := range s.global {
		if l.shared {
			names[l.policy] = true
		} else {
			names["global"] = true
		}
	}
	return max(len(names), len(withSelectors(s.local)))
}

// decide counts the request. Global limits of one kind all count; Envoy asks several limiters one after the other, which a
// note names: here such requests spend from all limits or from none. Limits in Shadow mode deny nothing.
func (c *proxyCluster) decide(uses []use, set proxySet) bool {
	allowed := true
	for _, u := range uses {
		allowed = allowed && (c.counts[u.counter] < u.most || u.shadow)
	}
	countsDenied := set.limiters() == 1 && len(set.global) > 1
	for _, u := range uses {
		if allowed || countsDenied {
			c.counts[u.counter]++
		}
	}
	return allowed
}

func (c *proxyCluster) randomRequest(r *rand.Rand) *proxyRequest {
	q := &proxyRequest{
		method: pick(r, "GET", "PUT", "POST"), host: pick(r, "x.a.io", "x.a.io", "y.a.io", "z.a.io", "b.io"),
		path: "/" + pick(r, c.routes...).name + pick(r, "/a", "/a", "/b", "/a/c", "/a;c", ""), query: pick(r, "", "", "p=1", "p=2", "z=1"),
		address: pick(r, "192.0.2.1", "192.0.2.1", "192.0.2.200", "198.51.100.7", "2001:db8::1", "2001:db8:8000::1"), headers: map[string]string{},
	}
	if r.IntN(4) > 0 {
		q.headers["x-user"] = pick(r, "ann", "bob")
	}
	if r.IntN(4) > 0 {
		q.headers["x-tier"] = pick(r, "free", "gold", "friend", "other")
	}
	return q
}

// attributes returns what Envoy sends to Weir.
func (a *proxyArrival) attributes(g *WithT, q *proxyRequest) plan.Attributes {
	attributes := plan.Attributes{Method: q.method, Host: q.host, Path: q.path, Query: q.query, RemoteAddress: netip.MustParseAddr(q.address), Headers: q.headers}
	for _, t := range []struct{ kind, name, section string }{
		{"Gateway", "edge", ""}, {"HTTPRoute", a.route.name, a.route.rules[a.rule].name},
	} {
		target, err := plan.NewTarget(t.kind, "shop", t.name, t.section)
		g.Expect(err).NotTo(HaveOccurred())
		attributes.Targets = append(attributes.Targets, target)
	}
	return attributes
}

func TestRandomEnvoyGateway(t *testing.T) {
	for shape := range shapes {
		t.Run(shape, func(t *testing.T) {
			g := NewWithT(t)
			seen := tally{}
			for seed := range uint64(45) {
				r := rand.New(rand.NewPCG(seed, 5))
				c := randomProxyCluster(r, shape)
				data := c.manifests(g)
				policies, _, notes, err := convert.EnvoyGateway(t.Context(), fileOf(data), convert.EnvoyGatewayOptions{Namespace: "shop", Replicas: 1, WeirNamespace: "weir-system", Service: "weir"})
				g.Expect(err).NotTo(HaveOccurred(), "%s", data)
				c.countLimits(&seen, notes)
				e := newEngine(t, policies, &modelStore{now: time.Unix(1_900_000_000, 0)})
				for range 120 {
					q := c.randomRequest(r)
					a := c.arrivalOf(q)
					if a == nil {
						continue
					}
					set := c.limitsAt(a)
					uses, isKnown := c.uses(a, q, set, notes)
					if !isKnown {
						continue
					}
					want := c.decide(uses, set)
					decision, err := e.Decide(t.Context(), &limiter.Check{Cost: 1, Attributes: a.attributes(g, q)})
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(decision.Allowed).To(Equal(want), "seed %d, %+v at %+v: %v %s\n%v\n%s%v", seed, q, a, decision.Reason, decision.Policy, uses, data, notes)
					seen.count(want)
				}
			}
			t.Logf("%+v", seen)
			seen.expect(g)
			g.Expect(seen.allowed + seen.denied).To(BeNumerically(">", 2000))
		})
	}
}

// countLimits counts the limits of all policies, and the lost ones.
func (c *proxyCluster) countLimits(seen *tally, notes []convert.Note) {
	for _, p := range c.policies {
		for _, l := range slices.Concat(p.global, p.local) {
			seen.converted++
			if isLost(notes, l.at) {
				seen.lost++
			}
		}
	}
}
