// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// newOnNetworks is newOnRedis with shop/signup, of which a /24 has the key, and shop/pair, which has a key of
// two parts.
func newOnNetworks(t *testing.T) *onRedis {
	t.Helper()
	o := newOnRedis(t)
	header := plan.KeyPart{Type: plan.KeyHeader, Header: "x-account"}
	address := plan.KeyPart{Type: plan.KeyRemoteAddress, IPv4PrefixLength: 24, IPv6PrefixLength: 64}
	signup := hourly("signup", address)
	signup.Matches = []plan.Match{{Paths: []string{"/signup"}}}
	pair := hourly("pair", header, address)
	pair.Matches = []plan.Match{{Paths: []string{"/login"}}}
	o.engine.Use(index.NewSnapshot(8, []*plan.Plan{
		hourly("login", header), hourly("shared"), signup, pair,
	}))
	return o
}

// request checks a request as a proxy would, and returns the reason of the decision.
func (o *onRedis) request(path, account, address string) limiter.Reason {
	o.t.Helper()
	_, reason, _ := o.check(fmt.Sprintf(`{"attributes":{"path":%q,"remoteAddress":%q,"headers":{"x-account":%q}}}`, path, address, account))
	return reason
}

// A block of an address blocks its network, and the answer names it.
func TestBlockOfAnAddressBlocksItsNetwork(t *testing.T) {
	g, o := NewWithT(t), newOnNetworks(t)
	w := o.as("root", http.MethodPost, pathBlock, `{"policy":"shop/signup","key":"192.0.2.7","duration":"10m"}`)
	g.Expect(w.Body.String()).To(MatchJSON(`{"found":true,"key":["192.0.2.0/24"]}`))
	g.Expect(o.request("/signup", "", "192.0.2.7")).To(Equal(limiter.ReasonBlocked))
	g.Expect(o.request("/signup", "", "192.0.2.250")).To(Equal(limiter.ReasonBlocked))
	g.Expect(o.request("/signup", "", "192.0.3.7")).To(Equal(limiter.ReasonAllowed))
	state := o.state("policy=shop/signup&key=192.0.2.9")
	g.Expect(state.Blocked).To(BeTrue())
	g.Expect(state.Key).To(Equal([]string{"192.0.2.0/24"}))
	g.Expect(o.state("policy=shop/signup&key=192.0.2.0/24").Key).To(BeNil(), "the given key was used")
	w = o.as("root", http.MethodPost, pathUnblock, `{"policy":"shop/signup","key":"192.0.2.7"}`)
	g.Expect(w.Body.String()).To(MatchJSON(`{"found":true,"key":["192.0.2.0/24"]}`))
	g.Expect(o.request("/signup", "", "192.0.2.7")).To(Equal(limiter.ReasonAllowed))
}

// No call succeeds on a key that no request can have.
func TestKeysOfNoRequestAreRejected(t *testing.T) {
	o := newOnNetworks(t)
	for name, tc := range map[string]struct{ policy, key, field, detail string }{
		"one of two parts": {"shop/pair", `"user-42"`, "key", "key: shop/pair has the key [header X-Account, client address]: give both parts in this order; asGiven accepts"},
		"no address":       {"shop/signup", `"not-an-address"`, "key[0]", "key[0]: must be an IP address"},
		"a wide network":   {"shop/signup", `"192.0.0.0/16"`, "key[0]", "key[0]: is wider than the /24"},
		"no key wanted":    {"shop/shared", `"user-42"`, "key", "key: shop/shared has no key: omit it"},
	} {
		for path, more := range map[string]string{pathBlock: `,"duration":"10m"`, pathUnblock: "", pathReset: "", pathState: ""} {
			t.Run(name+" "+path, func(t *testing.T) {
				g := NewWithT(t)
				w := o.as("root", http.MethodPost, path, fmt.Sprintf(`{"policy":%q,"key":%s%s}`, tc.policy, tc.key, more))
				if path == pathState {
					w = o.as("root", http.MethodGet, path+"?"+url.Values{"policy": {tc.policy}, "key": {strings.Trim(tc.key, `"`)}}.Encode(), "")
				}
				var p problem
				g.Expect(json.Unmarshal(w.Body.Bytes(), &p)).To(Succeed())
				g.Expect(w.Code).To(Equal(http.StatusBadRequest), w.Body.String())
				g.Expect(p.Field).To(Equal(tc.field))
				g.Expect(p.Detail).To(HavePrefix(tc.detail))
			})
		}
	}
}

type problem struct{ Field, Detail string }

// Requests without the key share a budget, which shared names. An empty part alone is an error: a variable of a script may be unset.
func TestTheSharedBudgetIsNamed(t *testing.T) {
	g, o := NewWithT(t), newOnNetworks(t)
	for _, tc := range []struct{ path, address, target, query string }{
		{"/signup", "", `"policy":"shop/signup"`, "policy=shop/signup"},
		{"/login", "192.0.2.7", `"policy":"shop/pair","key":["","192.0.2.9"]`, "policy=shop/pair&key=&key=192.0.2.9"},
		{"/login", "", `"policy":"shop/pair"`, "policy=shop/pair"},
	} {
		request := func() limiter.Reason {
			_, reason, _ := o.check(fmt.Sprintf(`{"attributes":{"path":%q%s}}`, tc.path, map[bool]string{true: `,"remoteAddress":"` + tc.address + `"`}[tc.address != ""]))
			return reason
		}
		target := "{" + tc.target + `,"shared":true`
		g.Expect(request()).To(Equal(limiter.ReasonAllowed), tc.target)
		g.Expect(o.state(tc.query + "&shared=true").Limits[0].Used).To(Equal(int64(1)))
		g.Expect(o.found(pathBlock, target+`,"duration":"10m"}`)).To(BeTrue())
		g.Expect(request()).To(Equal(limiter.ReasonBlocked))
		g.Expect(o.request(tc.path, "bob", "198.51.100.1")).To(Equal(limiter.ReasonAllowed), "a request with the key")
		g.Expect(o.found(pathUnblock, target+"}")).To(BeTrue())
		g.Expect(o.found(pathReset, target+"}")).To(BeTrue())
		g.Expect(o.state(tc.query + "&shared=true").Limits[0].Used).To(BeZero())
		g.Expect(o.found(pathReset, `{"policy":"shop/signup","key":"198.51.100.1"}`)).To(Equal(tc.path == "/signup"))
		g.Expect(o.found(pathReset, `{"policy":"shop/pair","key":["bob","198.51.100.1"]}`)).To(Equal(tc.path == "/login"))
	}
	g.Expect(o.found(pathBlock, `{"policy":"shop/shared","shared":true,"duration":"10m"}`)).To(BeTrue(), "a policy without a key")

	for target, field := range map[string]string{
		`"policy":"shop/signup","key":""`:                                   "key[0]",
		`"policy":"shop/pair","key":["","192.0.2.7"]`:                       "key[0]",
		`"policy":"shop/pair","key":["","x"],"shared":true`:                 "key[1]",
		`"policy":"shop/pair","key":"","shared":true`:                       "key",
		`"policy":"shop/signup","key":"a","shared":true,"asGiven":true`:     "shared",
		`"policy":"shop/signup","keyHash":"0123456789abcdef","shared":true`: "shared",
	} {
		w := o.as("root", http.MethodPost, pathReset, "{"+target+"}")
		var p problem
		g.Expect(json.Unmarshal(w.Body.Bytes(), &p)).To(Succeed())
		g.Expect(w.Code).To(Equal(http.StatusBadRequest), w.Body.String())
		g.Expect(p.Field).To(Equal(field), target)
	}
	strict := hourly("strict", plan.KeyPart{Type: plan.KeyPrincipal})
	strict.OnMissingKey = plan.MissingKeySkip
	o.engine.Use(index.NewSnapshot(9, []*plan.Plan{strict}))
	w := o.as("root", http.MethodPost, pathReset, `{"policy":"shop/strict","shared":true}`)
	g.Expect(w.Body.String()).To(ContainSubstring("shared: requests without the key share no budget: onMissingKey of shop/strict is Skip"))
}

// Callers that give checks keys of another form are reached with asGiven, or while their key has state.
func TestKeysOfAnotherForm(t *testing.T) {
	g, o := NewWithT(t), newOnNetworks(t)
	const check = `{"policies":["shop/signup"],"key":"user-42"}`
	const given = `{"policy":"shop/signup","key":"user-42","asGiven":true`
	g.Expect(o.found(pathBlock, given+`,"duration":"10m"}`)).To(BeTrue())
	o.expect(check, 429, limiter.ReasonBlocked, "")
	g.Expect(o.found(pathUnblock, `{"policy":"shop/signup","key":"user-42"}`)).To(BeTrue(), "the key has live state")
	o.expect(check, 200, limiter.ReasonAllowed, "")
	g.Expect(o.state("policy=shop/signup&key=user-42").Limits[0].Used).To(Equal(int64(1)))
	g.Expect(o.found(pathReset, given+"}")).To(BeTrue())
	g.Expect(o.state("policy=shop/signup&key=user-42&asGiven=true").Limits[0].Used).To(BeZero())
	// asGiven uses an address as it is, too.
	g.Expect(o.state("policy=shop/signup&key=192.0.2.7&asGiven=true").Key).To(BeNil())
	for _, target := range []string{"&key=a&asGiven=1", "&asGiven=true", "&keyHash=0123456789abcdef&asGiven=true"} {
		w := o.as("root", http.MethodGet, pathState+"?policy=shop/shared"+target, "")
		g.Expect(w.Code).To(Equal(http.StatusBadRequest))
		g.Expect(w.Body.String()).To(ContainSubstring(`"field":"asGiven"`))
	}
}

// foundIn returns the keys that a search finds, as "policy key blocked count".
func (o *onRedis) foundIn(token, query string) (found []string) {
	o.t.Helper()
	keys, _ := o.get(token, pathKeys+"?"+query)["keys"].([]any)
	for _, k := range keys {
		m, _ := k.(map[string]any)
		found = append(found, fmt.Sprint(m["policy"], m["key"], m["blocked"], m["count"]))
	}
	return found
}

func TestKeysAreFoundByAValue(t *testing.T) {
	g, o := NewWithT(t), newOnNetworks(t)
	for range 4 { // two are denied
		o.request("/login", "user-42", "192.0.2.7")
	}
	g.Expect(o.found(pathBlock, `{"policy":"shop/pair","key":["user-42","198.51.100.9"],"duration":"10m"}`)).To(BeTrue())
	g.Expect(o.found(pathBlock, `{"policy":"shop/login","key":"user-42","duration":"10m"}`)).To(BeTrue())
	g.Expect(o.found(pathBlock, `{"policy":"shop/login","key":"user-43","duration":"10m"}`)).To(BeTrue())
	both := []string{"shop/pair[user-42 198.51.100.0/24] true 0", "shop/pair[user-42 192.0.2.0/24] false 2"}
	g.Expect(o.foundIn("root", "policy=shop/pair&part=x-account&value=user-42")).To(Equal(both))
	g.Expect(o.foundIn("root", "namespace=shop&value=user-42")).To(Equal(append([]string{"shop/login[user-42] true 0"}, both...)))
	g.Expect(o.foundIn("root", "policy=shop/pair&part=remoteAddress&value=192.0.2.99")).To(Equal(both[1:]))
	g.Expect(o.foundIn("root", "policy=shop/pair&part=remoteAddress&value=user-42")).To(BeEmpty())
	g.Expect(o.foundIn("lister", "policy=shop/login&value=user-42")).To(Equal([]string{"shop/login[use…] true 0"}), "masked")
	g.Expect(o.foundIn("root", "value=user")).To(BeEmpty(), "the value of a whole part")
}

func TestLongValuesAreFound(t *testing.T) {
	g, o := NewWithT(t), newOnRedis(t)
	long := strings.Repeat("k", 300)
	g.Expect(o.found(pathBlock, `{"policy":"shop/login","key":"`+long+`","duration":"10m"}`)).To(BeTrue())
	g.Expect(o.foundIn("root", "policy=shop/login&value="+long)).To(HaveLen(1))
}

func TestInvalidSearches(t *testing.T) {
	g, o := NewWithT(t), newOnNetworks(t)
	for query, want := range map[string]string{
		"policy=shop/pair":                         "value: is required",
		"value=a&part=x-account":                   "part: needs policy",
		"policy=shop/pair&value=a&part=user":       "part: shop/pair has no such part: its parts are x-account, remoteAddress",
		"policy=shop/shared&value=a&part=user":     "part: shop/shared has no key",
		"policy=shop/pair&value=%00":               "value: must not contain control characters",
		"policy=shop/pair&value=a&limit=1":         "limit: is not a known parameter",
		"policy=shop/pair&value=a&namespace=shop":  "namespace: cannot be combined with policy",
		"policy=shop/pair&value=a&value=b&part=c":  "value: occurs twice",
		"policy=shop/login&value=a&part=x-account": "",
	} {
		w := o.as("root", http.MethodGet, pathKeys+"?"+query, "")
		if want == "" {
			g.Expect(w.Code).To(Equal(http.StatusOK))
			continue
		}
		g.Expect(w.Code).To(Equal(http.StatusBadRequest), query)
		g.Expect(w.Body.String()).To(ContainSubstring(`"detail":"` + want))
	}
}
