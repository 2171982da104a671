// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gatewayapi

import (
	"maps"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// objects are the objects of a case, in YAML.
type objects struct {
	gateways, routes, policies []string
}

const (
	publicGateway = "{metadata: {namespace: infra, name: public}, spec: {listeners: [{name: http}, {name: https}]}}"
	shopRoute     = "{metadata: {namespace: shop, name: shop, labels: {app: shop}}, spec: {parentRefs: [{namespace: infra, name: public}], rules: [{name: checkout}, {name: search}, {}]}}"
	onHTTPS       = "{metadata: {namespace: shop, name: shop}, spec: {parentRefs: [{namespace: infra, name: public, sectionName: https}], rules: [{name: checkout}, {name: search}]}}"
	namedRules    = "{metadata: {namespace: shop, name: shop}, spec: {parentRefs: [{namespace: infra, name: public}], rules: [{name: checkout}, {name: search}]}}"

	callsWeir  = "extAuth: {grpc: {backendRefs: [{namespace: weir-system, name: weir, port: 8081}]}}"
	extension  = "extAuth: {grpc: {backendRefs: [{name: proxy-of-weir}]}, contextExtensions: [{name: weir.gateway, value: infra/public}]}"
	callsOther = "extAuth: {http: {backendRefs: [{namespace: weir-system, name: opa}]}}"
	merges     = "mergeType: StrategicMerge"

	ofGateway  = "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}]"
	ofListener = "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public, sectionName: https}]"
	ofRoute    = "targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]"
	ofRule     = "targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop, sectionName: checkout}]"
	byLabel    = "targetSelectors: [{kind: HTTPRoute, matchLabels: {app: shop}}]"

	isAccepted  = "status: {ancestors: [{ancestorRef: {kind: Gateway, namespace: infra, name: public}, conditions: [{type: Accepted, status: 'True', reason: Accepted, observedGeneration: 1}]}]}"
	isInvalid   = "status: {ancestors: [{ancestorRef: {kind: Gateway, namespace: infra, name: public}, conditions: [{type: Accepted, status: 'False', reason: Invalid, observedGeneration: 1}]}]}"
	isConflict  = "status: {ancestors: [{ancestorRef: {kind: Gateway, namespace: infra, name: public}, conditions: [{type: Accepted, status: 'False', reason: Conflicted, observedGeneration: 1}]}]}"
	isOutdated  = "status: {ancestors: [{ancestorRef: {kind: Gateway, namespace: infra, name: public}, conditions: [{type: Accepted, status: 'True', reason: Accepted, observedGeneration: 0}]}]}"
	isElsewhere = "status: {ancestors: [{ancestorRef: {kind: Gateway, namespace: infra, name: other}, conditions: [{type: Accepted, status: 'True', reason: Accepted, observedGeneration: 1}]}]}"
	onlyHTTP    = "status: {ancestors: [{ancestorRef: {kind: Gateway, namespace: infra, name: public, sectionName: http}, conditions: [{type: Accepted, status: 'True', reason: Accepted, observedGeneration: 1}]}]}"
	// A merged SecurityPolicy has an ancestor for the Gateway and one for each listener.
	isHalfMerged = "status: {ancestors: [{ancestorRef: {kind: Gateway, namespace: infra, name: public}, conditions: [{type: Accepted, status: 'True', observedGeneration: 1}]}, " +
		"{ancestorRef: {kind: Gateway, namespace: infra, name: public, sectionName: http}, conditions: [{type: Accepted, status: 'False', reason: Invalid, observedGeneration: 1}, {type: Merged, status: 'True'}]}]}"
)

// policyIn returns a SecurityPolicy from the lines of its spec, and perhaps its status.
func policyIn(namespace, name string, lines ...string) string {
	text := []string{"metadata: {namespace: " + namespace + ", name: " + name + ", generation: 1}", "spec:"}
	for _, line := range lines {
		if !strings.HasPrefix(line, "status:") {
			line = "  " + line
		}
		text = append(text, line)
	}
	return strings.Join(text, "\n")
}

// snapshot returns the objects, all of which are readable.
func (o objects) snapshot(tb testing.TB) *Snapshot {
	tb.Helper()
	g := NewWithT(tb)
	var all []client.Object
	for _, text := range o.gateways {
		all = append(all, decoded(g, text, &Gateway{}))
	}
	for _, text := range o.routes {
		all = append(all, decoded(g, text, &HTTPRoute{}))
	}
	for _, text := range o.policies {
		all = append(all, decoded(g, text, &SecurityPolicy{}))
	}
	return NewSnapshot([]types.NamespacedName{{Namespace: "weir-system", Name: "weir"}}, all...)
}

func decoded(g *WithT, text string, into client.Object) client.Object {
	g.Expect(yaml.Unmarshal([]byte(text), into)).To(Succeed(), text)
	return into
}

const (
	route    = plan.Target("HTTPRoute/shop/shop")
	checkout = plan.Target("HTTPRoute/shop/shop/checkout")
	search   = plan.Target("HTTPRoute/shop/shop/search")
	gateway  = plan.Target("Gateway/infra/public")
	https    = plan.Target("Gateway/infra/public/https")
)

func TestBypassIsReportedOnlyWhereItIsCertain(t *testing.T) {
	weir := policyIn("infra", "weir", ofGateway, callsWeir, isAccepted)
	cors := policyIn("shop", "cors", ofRoute, isAccepted)
	onRule := policyIn("shop", "rule", ofRule, isAccepted)
	onRoute := policyIn("shop", "weir", ofRoute, callsWeir, isAccepted)
	for name, tc := range map[string]struct {
		route    string // shopRoute if empty
		policies []string
		bypassed []plan.Target
		pending  []plan.Target
	}{
		"the Gateway alone": {policies: []string{weir}},
		"no SecurityPolicy": {},
		"the route's replaces the Gateway's": {
			policies: []string{weir, cors}, bypassed: []plan.Target{route, checkout, search, gateway},
		},
		"the Gateway's is invalid, since no pod of Weir is ready": {
			policies: []string{policyIn("infra", "weir", ofGateway, callsWeir, isInvalid), cors},
			bypassed: []plan.Target{route, checkout, search, gateway},
		},
		"Weir is named by an extension": {
			policies: []string{policyIn("infra", "weir", ofGateway, extension), cors}, bypassed: []plan.Target{route, checkout, search, gateway},
		},
		"the Gateway asks another service": {policies: []string{policyIn("infra", "opa", ofGateway, callsOther), cors}},
		"the Gateway asks nothing":         {policies: []string{policyIn("infra", "cors", ofGateway), cors}},
		"the route's merges":               {policies: []string{weir, policyIn("shop", "cors", ofRoute, merges, isAccepted)}},
		"the route's asks Weir":            {policies: []string{weir, onRoute}},
		"the route's asks another service": {policies: []string{weir, policyIn("shop", "opa", ofRoute, callsOther, isAccepted)}},
		"the route's is invalid":           {policies: []string{weir, policyIn("shop", "cors", ofRoute, isInvalid)}},
		"the route's is in conflict":       {policies: []string{weir, policyIn("shop", "cors", ofRoute, isConflict), policyIn("shop", "other", ofRoute, merges, isAccepted)}},
		"the route's has no status":        {policies: []string{weir, policyIn("shop", "cors", ofRoute)}},
		"the route's status is outdated": {
			policies: []string{weir, policyIn("shop", "cors", ofRoute, isOutdated)}, pending: []plan.Target{route, checkout, search, gateway},
		},
		"the route's is accepted at another Gateway": {policies: []string{weir, policyIn("shop", "cors", ofRoute, isElsewhere)}},
		"two on the route, one in conflict": {
			policies: []string{weir, cors, policyIn("shop", "other", ofRoute, callsWeir, isConflict)},
			bypassed: []plan.Target{route, checkout, search, gateway},
		},
		"two on the route, both accepted":   {policies: []string{weir, cors, policyIn("shop", "other", ofRoute, isAccepted)}},
		"two on the Gateway, both accepted": {policies: []string{weir, policyIn("infra", "other", ofGateway, isAccepted), cors}},
		"in another Namespace":              {policies: []string{weir, policyIn("other", "cors", ofRoute, isAccepted)}},
		"by label": {
			policies: []string{weir, policyIn("shop", "cors", byLabel, isAccepted)}, bypassed: []plan.Target{route, checkout, search, gateway},
		},
		"by another label": {policies: []string{weir, policyIn("shop", "cors", "targetSelectors: [{kind: HTTPRoute, matchLabels: {app: other}}]", isAccepted)}},
		"another one selects by label, perhaps across Namespaces": {
			policies: []string{weir, cors, policyIn("infra", "all", "targetSelectors: [{kind: HTTPRoute, matchLabels: {app: shop}, namespaces: {from: All}}]", callsWeir)},
		},
		"the deprecated targetRef": {
			policies: []string{weir, policyIn("shop", "cors", "targetRef: {kind: HTTPRoute, name: shop}", isAccepted)},
			bypassed: []plan.Target{route, checkout, search, gateway},
		},
		"the listener's asks nothing": {policies: []string{weir, policyIn("infra", "https", ofListener), cors}},
		"the listener's asks Weir, the route attaches to it": {
			route: onHTTPS, policies: []string{policyIn("infra", "weir", ofListener, callsWeir), cors},
			bypassed: []plan.Target{route, checkout, search, gateway, https},
		},
		"the listener's asks nothing, the route attaches to it": {route: onHTTPS, policies: []string{weir, policyIn("infra", "https", ofListener), cors}},
		"the status is of another listener":                     {route: onHTTPS, policies: []string{weir, policyIn("shop", "cors", ofRoute, onlyHTTP)}},
		"the rule's replaces the Gateway's":                     {policies: []string{weir, onRule}, bypassed: []plan.Target{route, checkout, gateway}},
		"the rule's replaces the route's":                       {policies: []string{onRoute, onRule}, bypassed: []plan.Target{route, checkout, gateway}},
		"the rule's merges with the Gateway's, not with the route's": {
			policies: []string{onRoute, policyIn("shop", "rule", ofRule, merges, isAccepted)}, bypassed: []plan.Target{route, checkout, gateway},
		},
		"the rule's merges with the Gateway's, which asks Weir": {policies: []string{weir, onRoute, policyIn("shop", "rule", ofRule, merges, isAccepted)}},
		"the rule's merges with the Gateway's, which asks another service": {
			policies: []string{policyIn("infra", "opa", ofGateway, callsOther), onRoute, policyIn("shop", "rule", ofRule, merges, isAccepted)},
		},
		"the rule's merges, and one listener rejects that": {policies: []string{onRoute, policyIn("shop", "rule", ofRule, merges, isHalfMerged)}},
		"the rule's merges, nothing else asks Weir":        {policies: []string{policyIn("shop", "rule", ofRule, merges, isAccepted)}},
		"the route's while no pod of Weir is ready": {
			policies: []string{policyIn("shop", "weir", ofRoute, callsWeir, isInvalid), onRule}, bypassed: []plan.Target{route, checkout, gateway},
		},
		"the rule's asks Weir itself": {policies: []string{weir, policyIn("shop", "rule", ofRule, callsWeir, isAccepted)}},
		"the route's, except for a rule that asks Weir": {
			policies: []string{weir, cors, policyIn("shop", "rule", ofRule, callsWeir, isAccepted)}, bypassed: []plan.Target{route, search, gateway},
		},
		"every rule asks Weir": {
			route: namedRules,
			policies: []string{
				weir, cors, policyIn("shop", "rule", ofRule, callsWeir, isAccepted),
				policyIn("shop", "search", "targetRefs: [{kind: HTTPRoute, name: shop, sectionName: search}]", callsWeir, isAccepted),
			},
		},
		"a rule that does not exist": {policies: []string{weir, policyIn("shop", "rule", "targetRefs: [{kind: HTTPRoute, name: shop, sectionName: missing}]", isAccepted)}},
		"the route attaches to another Gateway": {
			route: "{metadata: {namespace: shop, name: shop}, spec: {parentRefs: [{name: public}], rules: [{name: checkout}, {name: search}]}}", policies: []string{weir, cors},
		},
		"the route attaches to a ListenerSet": {
			route:    "{metadata: {namespace: shop, name: shop}, spec: {parentRefs: [{kind: ListenerSet, group: gateway.networking.k8s.io, namespace: infra, name: public}], rules: [{name: checkout}, {name: search}]}}",
			policies: []string{weir, cors},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := objects{gateways: []string{publicGateway}, routes: []string{shopRoute}, policies: tc.policies}
			if tc.route != "" {
				o.routes = []string{tc.route}
			}
			s := o.snapshot(t)
			var bypassed, pending []plan.Target
			for _, target := range []plan.Target{route, checkout, search, gateway, https} {
				switch f := s.Judge([]plan.Target{target}); f.Result {
				case Bypassed:
					bypassed = append(bypassed, target)
					g.Expect(f.Message).To(And(ContainSubstring("SecurityPolicy shop/"), ContainSubstring("HTTPRoute shop/shop")))
				case Pending:
					pending = append(pending, target)
				case Nothing, NotFound, Unchecked:
					g.Expect(f).To(BeZero())
				}
			}
			g.Expect(bypassed).To(Equal(tc.bypassed))
			g.Expect(pending).To(Equal(tc.pending))
		})
	}
}

func TestBypassNamesTheObjects(t *testing.T) {
	weir := policyIn("infra", "weir", ofGateway, callsWeir)
	for want, policies := range map[string][]string{
		"Requests of HTTPRoute shop/shop do not reach Weir: SecurityPolicy shop/cors has no extAuth and replaces the one of Gateway infra/public.": {
			weir, policyIn("shop", "cors", ofRoute, isAccepted),
		},
		"Requests of rule checkout of HTTPRoute shop/shop do not reach Weir: SecurityPolicy shop/rule has no extAuth and replaces the one of HTTPRoute shop/shop.": {
			policyIn("shop", "weir", ofRoute, callsWeir), policyIn("shop", "rule", ofRule, isAccepted),
		},
	} {
		s := objects{gateways: []string{publicGateway}, routes: []string{shopRoute}, policies: policies}.snapshot(t)
		NewWithT(t).Expect(s.Judge([]plan.Target{"HTTPRoute/shop/other", route})).To(Equal(Finding{Result: Bypassed, Message: want}))
	}
}

// Ready depends only on objects that Weir can read.
func TestMissingCountsOnlyReadableKinds(t *testing.T) {
	s := newSnapshot(nil)
	s.add(decoded(NewWithT(t), "metadata: {namespace: shop, name: shop}\nspec: {rules: [{name: checkout}]}", &HTTPRoute{}))
	s.kinds = map[kind]availability{kindHTTPRoute: readable, kindGRPCRoute: absent, kindGateway: forbidden}
	s.index()
	for name, tc := range map[string]struct {
		targets []plan.Target
		want    string
	}{
		"found":          {[]plan.Target{"HTTPRoute/shop/shop", "HTTPRoute/shop/shop/checkout"}, ""},
		"not found":      {[]plan.Target{"HTTPRoute/shop/shop", "HTTPRoute/shop/shpo"}, "HTTPRoute shop/shpo does not exist."},
		"no such rule":   {[]plan.Target{"HTTPRoute/shop/shop/chekout"}, "HTTPRoute shop/shop has no rule with the name chekout."},
		"absent kind":    {[]plan.Target{"GRPCRoute/shop/shop"}, ""},
		"forbidden kind": {[]plan.Target{"Gateway/shop/public"}, ""},
		"of each kind": {
			[]plan.Target{"GRPCRoute/shop/shop", "Gateway/shop/public", "HTTPRoute/shop/a", "HTTPRoute/shop/b"},
			"HTTPRoute shop/a does not exist. HTTPRoute shop/b does not exist.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			missing, isKnown := s.Missing(tc.targets)
			g.Expect(isKnown).To(BeTrue())
			g.Expect(missing).To(Equal(tc.want))
		})
	}
	g := NewWithT(t)
	delete(s.kinds, kindGRPCRoute)
	_, isKnown := s.Missing([]plan.Target{"HTTPRoute/shop/shpo", "GRPCRoute/shop/shop"})
	g.Expect(isKnown).To(BeFalse(), "pending")
	missing, isKnown := s.Missing([]plan.Target{"HTTPRoute/shop/shpo"})
	g.Expect(isKnown).To(BeTrue(), "another kind does not matter")
	g.Expect(missing).NotTo(BeEmpty())
}

// A kind whose watch could not be started has no objects yet; it does not lack them.
func TestKindsWithoutAWatchArePending(t *testing.T) {
	g := NewWithT(t)
	i := &informer{kind: kindGateway, state: readable}
	g.Expect(i.availability()).To(Equal(pending))
	i.running, i.synced = func() {}, func() bool { return false }
	g.Expect(i.availability()).To(Equal(pending))
	i.synced = func() bool { return true }
	g.Expect(i.availability()).To(Equal(readable))
	for _, state := range []availability{absent, forbidden} {
		g.Expect((&informer{state: state}).availability()).To(Equal(state))
	}
}

func TestMissingTargets(t *testing.T) {
	s := objects{gateways: []string{publicGateway}, routes: []string{shopRoute}}.snapshot(t)
	for name, tc := range map[string]struct {
		targets []plan.Target
		kinds   map[kind]availability
		want    Finding
	}{
		"all exist":  {targets: []plan.Target{route, checkout, gateway, https}},
		"a route":    {targets: []plan.Target{route, "HTTPRoute/shop/other"}, want: Finding{NotFound, "HTTPRoute shop/other does not exist."}},
		"a rule":     {targets: []plan.Target{"HTTPRoute/shop/shop/pay"}, want: Finding{NotFound, "HTTPRoute shop/shop has no rule with the name pay."}},
		"a Gateway":  {targets: []plan.Target{"Gateway/shop/public"}, want: Finding{NotFound, "Gateway shop/public does not exist."}},
		"a listener": {targets: []plan.Target{"Gateway/infra/public/tcp"}, want: Finding{NotFound, "Gateway infra/public has no listener with the name tcp."}},
		"another kind of route": {
			targets: []plan.Target{"GRPCRoute/shop/shop"}, want: Finding{NotFound, "GRPCRoute shop/shop does not exist."},
		},
		"a kind": {
			targets: []plan.Target{"HTTPRoute/shop/shop"}, kinds: map[kind]availability{kindHTTPRoute: absent},
			want: Finding{NotFound, "HTTPRoute shop/shop does not exist: the API server has no kind HTTPRoute."},
		},
		"two": {
			targets: []plan.Target{"HTTPRoute/shop/a", "HTTPRoute/shop/b"}, want: Finding{NotFound, "HTTPRoute shop/a does not exist. HTTPRoute shop/b does not exist."},
		},
		"a kind that is not read yet":        {targets: []plan.Target{"HTTPRoute/shop/other"}, kinds: map[kind]availability{kindHTTPRoute: pending}, want: Finding{Result: Pending}},
		"a kind that cannot be read":         {targets: []plan.Target{"HTTPRoute/shop/other"}, kinds: map[kind]availability{kindHTTPRoute: forbidden}},
		"SecurityPolicies not read yet":      {targets: []plan.Target{route}, kinds: map[kind]availability{kindSecurityPolicy: pending}, want: Finding{Result: Pending}},
		"SecurityPolicies that cannot be":    {targets: []plan.Target{route}, kinds: map[kind]availability{kindSecurityPolicy: forbidden}},
		"SecurityPolicies are not installed": {targets: []plan.Target{route}, kinds: map[kind]availability{kindSecurityPolicy: absent}},
	} {
		t.Run(name, func(t *testing.T) {
			changed := *s
			changed.kinds = map[kind]availability{kindGateway: readable, kindHTTPRoute: readable, kindGRPCRoute: readable, kindSecurityPolicy: readable}
			maps.Copy(changed.kinds, tc.kinds)
			NewWithT(t).Expect(changed.Judge(tc.targets)).To(Equal(tc.want))
		})
	}
}
