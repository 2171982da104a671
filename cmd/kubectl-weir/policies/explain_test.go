// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"bytes"
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

func TestExplainDescribesTheRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		flags checkFlags
		args  []string
		want  string // JSON, or the error
	}{
		"a URL": {
			checkFlags{method: "POST", headers: []string{"X-Account: bob", "x-a:1", "X-A: 2"}, remoteAddress: "192.0.2.1"},
			[]string{"https://shop.example:8443/a%2Fb//c?q=1#f"},
			`{"cost": 1, "attributes": {"method": "POST", "host": "shop.example:8443", "path": "/a%2Fb//c?q=1",
			  "headers": {"X-Account": ["bob"], "X-A": ["1", "2"]}, "remoteAddress": "192.0.2.1"}}`,
		},
		"a path":        {checkFlags{headers: []string{"Host: shop.example"}}, []string{"/login"}, `{"cost": 1, "attributes": {"method": "GET", "host": "shop.example", "path": "/login"}}`},
		"a host":        {checkFlags{}, []string{"http://shop.example"}, `{"cost": 1, "attributes": {"method": "GET", "host": "shop.example", "path": "/"}}`},
		"no scheme":     {checkFlags{}, []string{"shop.example/login"}, `URL "shop.example/login": must be a URL such as https://shop.example/login, or a path such as /login`},
		"a broken URL":  {checkFlags{}, []string{"https://shop.example/%zz"}, `URL "https://shop.example/%zz": must be a URL such as`},
		"nothing":       {checkFlags{method: "GET"}, nil, "URL: give the URL of the request, or its path, --target, --domain, --descriptor or --policy"},
		"by name":       {checkFlags{policies: []string{"login"}, key: []string{"bob"}}, nil, `{"policies": ["shop/login"], "key": ["bob"], "cost": 1, "attributes": {}}`},
		"with slash":    {checkFlags{policies: []string{"a/login"}}, nil, `--policy "a/login": must be a name without slash; set its Namespace with -n`},
		"no colon":      {checkFlags{headers: []string{"X-Account bob"}}, []string{"/"}, `-H "X-Account bob": must be a name, a colon and a value, such as 'X-Account: bob'`},
		"no name":       {checkFlags{headers: []string{": bob"}}, []string{"/"}, `-H ": bob": must be a name`},
		"a broken list": {checkFlags{descriptors: []string{`"a=1`}}, nil, `--descriptor "\"a=1": must be entries such as user_id=7,tier=gold`},
		"no key":        {checkFlags{descriptors: []string{"=1"}}, nil, `--descriptor "=1": entry "=1" must be a key`},
		"targets": {
			checkFlags{targets: []string{"HTTPRoute/shop/checkout", "Gateway/infra/public"}},
			nil,
			`{"cost": 1, "attributes": {"targets": ["HTTPRoute/shop/checkout", "Gateway/infra/public"]}}`,
		},
		"claims": {
			checkFlags{claims: `{"jwt": {"sub": "bob", "id": 9007199254740991}}`},
			[]string{"/"},
			`{"cost": 1, "attributes": {"method": "GET", "path": "/", "claims": {"jwt": {"sub": "bob", "id": 9007199254740991}}}}`,
		},
		"broken claims":       {checkFlags{claims: `{"jwt": "bob"}`}, []string{"/"}, `--claims: must be the claims of each payload as JSON, such as {"jwt": {"tenant": "acme"}}`},
		"more than an object": {checkFlags{claims: `{} {}`}, []string{"/"}, `--claims: must be the claims of each payload`},
		"descriptors": {
			checkFlags{domain: "envoy", descriptors: []string{"user_id=7,tier=gold", `"a=1,2",b`}},
			nil,
			`{"cost": 1, "attributes": {"domain": "envoy", "descriptors": [
			  {"entries": [{"key": "user_id", "value": "7"}, {"key": "tier", "value": "gold"}]},
			  {"entries": [{"key": "a", "value": "1,2"}, {"key": "b", "value": ""}]}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tc.flags.cost = 1
			body, err := tc.flags.body("shop", tc.args)
			if err != nil {
				g.Expect(err).To(MatchError(HavePrefix(tc.want)))
				return
			}
			g.Expect(body).To(MatchJSON(tc.want))
		})
	}
}

func TestExplanationIsSafeOnATerminal(t *testing.T) {
	g := NewWithT(t)
	escape := "\x1b]0;title\a\u202e\n"
	encoded, err := json.Marshal(map[string]any{
		"decision": map[string]any{"allowed": false, "reason": "LimitExceeded", "policy": "shop/p", "override": "vip", "limit": "l", "degraded": "Closed"},
		"policies": []any{map[string]any{
			"policy": "shop/p", "mode": "Shadow", "match": 1, "allowed": false, "reason": "LimitExceeded", "limit": "l",
			"override": "vip", "action": "Limits", "key": []any{map[string]any{"type": "Expression", "name": escape, "value": escape}},
		}},
		"nearMisses": []any{
			map[string]any{"policy": "shop/q", "reason": "Mismatch", "match": 0, "field": "hosts", "wants": []string{"a", "b"}, "got": []string{escape}, "unverified": true},
			map[string]any{"policy": "shop/r", "reason": "NotLoaded", "detail": escape},
			map[string]any{"policy": "shop/s", "reason": "Disabled", "match": 2},
			map[string]any{"policy": "shop/t", "reason": "Mismatch", "match": 0, "field": "methods", "wants": []string{"GET"}},
			map[string]any{"policy": "shop/u", "reason": "OfALaterWeir" + escape},
		},
		"hiddenPolicies": 1, "hiddenNearMisses": 2, "moreNearMisses": 3,
	})
	g.Expect(err).NotTo(HaveOccurred())
	x, out := &explanation{}, &bytes.Buffer{}
	g.Expect(json.Unmarshal(encoded, x)).To(Succeed())
	g.Expect(x.write(out)).To(Succeed())
	g.Expect(out.String()).To(Equal(`Decision:   denied, LimitExceeded, by shop/p, override vip, limit l
Degraded:   Redis does not answer, so failureMode Closed decides

Policy:       shop/p (mode Shadow: denies no request)
Applies by:   spec.matches[1]
Key:          Expression �]0;title��� "\x1b]0;title\a\u202e\n"
Override:     vip (Limits)
Verdict:      denies, LimitExceeded, by limit l

NEAR MISS   WHY IT DOES NOT APPLY
shop/q      spec.matches[0].hosts wants "a" or "b", the request has "\x1b]0;title\a\u202e\n"; its expression was not evaluated
shop/r      not loaded: �]0;title���
shop/s      spec.matches[2] matches, but the mode is Disabled
shop/t      spec.matches[0].methods wants "GET", the request has none
shop/u      OfALaterWeir�]0;title���

1 more policies apply, in Namespaces that you may not read.
2 near misses are in Namespaces that you may not read.
3 more near misses are not listed.
`))
}

func TestExplainedWindows(t *testing.T) {
	g, out := NewWithT(t), &bytes.Buffer{}
	x := &explanation{httptypes.Explanation{Policies: []httptypes.ExplainedPolicy{{Policy: "shop/p", Limits: []httptypes.ExplainedLimit{
		{Algorithm: "GCRA", Window: "1m"}, {Algorithm: "FixedWindow", Calendar: "Day UTC"}, {Algorithm: "Concurrency"},
	}}}}}
	g.Expect(x.write(out)).To(Succeed())
	g.Expect(out.String()).To(MatchRegexp(`GCRA +1m +0\D+.*\n.*FixedWindow +Day UTC +0\D+.*\n.*Concurrency +at once +0`))
}
