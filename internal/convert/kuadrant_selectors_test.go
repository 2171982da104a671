// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/convert"
)

// onRoute returns a policy of Kuadrant of that version, with the limits, on a route with two rules.
func onRoute(version, limits string) []byte {
	return fmt.Appendf(nil, `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: api, namespace: shop}
spec:
  parentRefs: [{name: public}]
  rules:
  - {name: toys, matches: [{path: {value: /toys}, method: GET, headers: [{name: a, value: b}]}, {path: {value: /dolls}}]}
  - {name: cars, matches: [{path: {type: Exact, value: /cars}}]}
---
apiVersion: kuadrant.io/%s
kind: RateLimitPolicy
metadata: {name: p, namespace: shop}
spec:
  targetRef: {group: gateway.networking.k8s.io, kind: HTTPRoute, name: api}
  limits: {l: {%s}}
`, version, limits)
}

// The limits of all versions become the policies of v1, whose decisions TestRandomKuadrant compares.
func TestKuadrantVersionsBecomeTheSamePolicies(t *testing.T) {
	written := func(g *WithT, version, limits string) string {
		policies, notes, err := conversions["kuadrant"](t.Context(), onRoute(version, limits))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(notes).NotTo(ContainElement(HaveField("Loss", true)), "%v", notes)
		g.Expect(policies).To(HaveLen(1))
		var text bytes.Buffer
		g.Expect(convert.Write(&text, policies)).To(Succeed())
		return text.String()
	}
	const rates = "rates: [{limit: 5, window: 90s}, {limit: 9, window: 24h}]"
	const oldRates = "rates: [{limit: 5, duration: 90, unit: second}, {limit: 9, duration: 1, unit: day}]"
	for name, tc := range map[string]struct{ version, limits, want string }{
		"rates of v1beta2": {"v1beta2", oldRates, rates},
		"a duration":       {"v1beta3", `rates: [{limit: 5, duration: 90s}, {limit: 9, duration: 24h}]`, rates},
		"a text as predicate": {
			"v1beta3", rates + `, when: ["request.method == 'GET'"]`, rates + `, when: [{predicate: "request.method == 'GET'"}]`,
		},
		"counters": {
			"v1beta2", oldRates + `, counters: [auth.identity.username, request.headers.x-tier, request.method]`,
			rates + `, counters: [{expression: auth.identity.username}, {expression: 'request.headers["x-tier"]'}, {expression: request.method}]`,
		},
		"what the filter for authentication found": {
			"v1beta2", oldRates + `, counters: ['metadata.filter_metadata.envoy\.filters\.http\.ext_authz.username']`,
			rates + `, counters: [{expression: auth.identity.username}]`,
		},
		"eq, neq": {
			"v1beta2", oldRates + `, when: [{selector: request.method, operator: eq, value: GET}, {selector: request.headers.x-tier, operator: neq, value: 'a"b'}]`,
			rates + `, when: [{predicate: 'request.method == "GET"'}, {predicate: 'request.headers["x-tier"] != "a\"b"'}]`,
		},
		"startswith, endswith, matches": {
			"v1beta2", oldRates + `, when: [{selector: request.url_path, operator: startswith, value: /a}, {selector: request.url_path, operator: endswith, value: z},
				{selector: request.host, operator: matches, value: '^a\.'}]`,
			rates + `, when: [{predicate: 'request.url_path.startsWith("/a")'}, {predicate: 'request.url_path.endsWith("z")'}, {predicate: 'request.host.matches("^a\\.")'}]`,
		},
		"a user agent":      {"v1", rates + `, when: [{predicate: "request.useragent == 'x'"}]`, rates + `, when: [{predicate: "request.headers[\"user-agent\"] == 'x'"}]`},
		"claims of a JWT":   {"v1", rates + `, counters: [{expression: 'request.auth.claims["tier"]'}]`, rates + `, counters: [{expression: 'request.headers["x-claim-tier"]'}]`},
		"a claim in claims": {"v1", rates + `, counters: [{expression: auth.identity.user.uid}]`, rates + `, counters: [{expression: 'request.headers["x-claim-user-uid"]'}]`},
		"a method of a claim": {
			"v1", rates + `, when: [{predicate: "auth.identity.groups.split(',')[0] == 'x'"}]`,
			rates + `, when: [{predicate: "request.headers[\"x-claim-groups\"].split(',')[0] == 'x'"}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(written(g, tc.version, tc.limits)).To(Equal(written(g, "v1", tc.want)))
		})
	}
}

func TestRouteSelectors(t *testing.T) {
	for selector, want := range map[string][]string{
		"":                                    nil,
		"{}":                                  nil,
		"{matches: [{path: {value: /toys}}]}": {"toys"},
		"{matches: [{path: {type: PathPrefix, value: /toys}, method: GET}]}":                     {"toys"},
		"{matches: [{headers: [{name: a, type: Exact, value: b}]}]}":                             {"toys"},
		"{matches: [{path: {type: Exact, value: /cars}}]}":                                       {"cars"},
		"{matches: [{path: {value: /dolls}}]}, {matches: [{path: {type: Exact, value: /cars}}]}": nil,
		"{matches: [{path: {value: /toys}, method: POST}]}":                                      {},
		"{matches: [{path: {value: /to}}]}":                                                      {},
	} {
		t.Run(selector, func(t *testing.T) {
			g := NewWithT(t)
			policies, notes, err := conversions["kuadrant"](t.Context(),
				onRoute("v1beta2", "rates: [{limit: 5, duration: 1, unit: minute}], routeSelectors: ["+selector+"]"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(notes).NotTo(ContainElement(HaveField("Loss", true)))
			if want != nil && len(want) == 0 {
				g.Expect(policies).To(BeEmpty())
				return
			}
			g.Expect(policies).To(HaveLen(1))
			var sections []string
			for _, ref := range policies[0].Spec.TargetRefs {
				if ref.SectionName != nil {
					sections = append(sections, string(*ref.SectionName))
				}
			}
			g.Expect(sections).To(Equal(want))
		})
	}
}

// What policies cannot express is lost by its field, and not a policy that never applies.
func TestLossesOfKuadrantExpressions(t *testing.T) {
	const rates = "rates: [{limit: 5, window: 1m}], "
	for limits, want := range map[string]string{
		`when: [{predicate: "request.host == 'a.example:8080'"}]`:               "compares request.host with 'a.example:8080'",
		`when: [{predicate: "request.host.endsWith(':8080')"}]`:                 "compares request.host with ':8080'",
		`when: [{predicate: "request.host in ['a.example', 'b.example:80']"}]`:  "compares request.host with 'b.example:80'",
		`when: [{predicate: "request.headers['host'] == 'a.example:8080'"}]`:    "compares request.host with 'a.example:8080'",
		`when: [{predicate: "'x' in auth.identity.groups"}]`:                    "claims that are text in a header",
		`counters: [{expression: 'auth.identity.metadata.annotations["a/b"]'}]`: "claims that are text in a header",
		`when: [{selector: request.method, operator: incl, value: GET}]`:        `the operator "incl" is not one of`,
		`routeSelectors: [{hostnames: [a.example]}]`:                            "hostnames of route selectors",
	} {
		t.Run(limits, func(t *testing.T) {
			g := NewWithT(t)
			policies, notes, err := conversions["kuadrant"](t.Context(), onRoute("v1", rates+limits))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(policies).To(BeEmpty())
			g.Expect(notes).To(ContainElement(And(HaveField("Loss", true), HaveField("Text", ContainSubstring(want)),
				HaveField("At", HavePrefix("RateLimitPolicy shop/p: spec.limits.l")))))
		})
	}
	for predicate, note := range map[string]string{
		"request.host == 'a.example'":                  "request.host has no port",
		"request.host.split(':')[0] == 'a.example'":    "request.host has no port",
		"request.headers['origin'] == 'http://a.b:80'": "a header that is absent",
	} {
		g := NewWithT(t)
		policies, notes, err := conversions["kuadrant"](t.Context(), onRoute("v1", rates+`when: [{predicate: "`+predicate+`"}]`))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(policies).To(HaveLen(1), "%v", notes)
		g.Expect(fmt.Sprint(notes)).To(ContainSubstring(note))
		g.Expect(strings.Count(fmt.Sprint(notes), "lost")).To(BeZero())
	}
}
