// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// get returns the decoded answer of a list.
func (o *onRedis) get(token, target string) map[string]any {
	o.t.Helper()
	g := NewWithT(o.t)
	w := o.as(token, http.MethodGet, target, "")
	g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
	var out map[string]any
	g.Expect(json.Unmarshal(w.Body.Bytes(), &out)).To(Succeed())
	return out
}

// first returns the first element of the list in the answer.
func first(answer map[string]any, list string) map[string]any {
	elements, _ := answer[list].([]any)
	if len(elements) == 0 {
		return nil
	}
	element, _ := elements[0].(map[string]any)
	return element
}

// exhaust checks the key until it is denied three times.
func (o *onRedis) exhaust(policy string, parts ...string) {
	o.t.Helper()
	for range 5 {
		_, err := o.engine.Decide(o.t.Context(), &limiter.Check{Policies: []string{policy}, Key: parts, Cost: 1})
		NewWithT(o.t).Expect(err).NotTo(HaveOccurred())
	}
}

// The list masks the value of the header, and its hash stands for the key in every state call.
func TestAHashStandsForItsKey(t *testing.T) {
	for name, key := range map[string]string{
		"a short key": "secret-token",
		"a long key":  strings.Repeat("secret", 100),
		"odd bytes":   "{se}|cr:et% #",
	} {
		t.Run(name, func(t *testing.T) {
			g, o := NewWithT(t), newOnRedis(t)
			o.exhaust("shop/login", key)
			top := first(o.get("lister", "/v1/top?policy=shop/login"), "policies")
			listed := first(top, "keys")
			hash, _ := listed["keyHash"].(string)
			g.Expect(hash).To(Equal(store.EncodeKey(key).Hash()))
			g.Expect(listed).To(HaveKeyWithValue("count", 3.0))
			g.Expect(listed).To(HaveKeyWithValue("masked", true))
			g.Expect(listed["key"]).To(HaveLen(1))
			g.Expect(listed["key"].([]any)[0]).To(HaveSuffix("…"))

			target := `{"policy":"shop/login","keyHash":"` + hash + `"}`
			g.Expect(o.get("root", "/v1/state?policy=shop/login&keyHash="+hash)).To(HaveKeyWithValue("blocked", false))
			g.Expect(o.found("/v1/block", strings.Replace(target, "}", `,"duration":"10m"}`, 1))).To(BeTrue())
			g.Expect(o.get("root", "/v1/state?policy=shop/login&keyHash="+hash)).To(HaveKeyWithValue("blocked", true))
			blocked := first(o.get("root", "/v1/blocks?namespace=shop"), "blocks")
			g.Expect(blocked).To(And(HaveKeyWithValue("keyHash", hash), HaveKeyWithValue("policy", "shop/login"), HaveKeyWithValue("limit", "")))
			g.Expect(blocked["leftMs"]).To(BeNumerically("~", 600_000, 10_000))
			g.Expect(o.found("/v1/unblock", target)).To(BeTrue())
			g.Expect(o.get("root", "/v1/blocks?namespace=shop")["blocks"]).To(BeEmpty())
			g.Expect(o.found("/v1/reset", target)).To(BeTrue())
			g.Expect(o.found("/v1/reset", target)).To(BeFalse())
			g.Expect(o.log.String()).NotTo(ContainSubstring("secret"))
		})
	}
}

func TestRevealShowsHeaders(t *testing.T) {
	g, o := NewWithT(t), newOnRedis(t)
	g.Expect(o.found("/v1/block", `{"policy":"shop/login","key":"secret-token","duration":"10m"}`)).To(BeTrue())
	block := first(o.get("root", "/v1/blocks?policy=shop/login"), "blocks")
	g.Expect(block["key"]).To(Equal([]any{"secret-token"}))
	g.Expect(block).NotTo(HaveKey("masked"))
	block = first(o.get("lister", "/v1/blocks?policy=shop/login"), "blocks")
	g.Expect(block["key"]).To(Equal([]any{"secr…"}))
	g.Expect(block).To(HaveKeyWithValue("masked", true))
}

func TestUnblockAllNeedsTwoVerbs(t *testing.T) {
	g, o := NewWithT(t), newOnRedis(t)
	for _, key := range []string{"a", "b", "c"} {
		g.Expect(o.found("/v1/block", `{"policy":"shop/login","key":"`+key+`","duration":"10m"}`)).To(BeTrue())
	}
	g.Expect(o.found("/v1/block", `{"policy":"shop/shared","duration":"10m"}`)).To(BeTrue())
	const all = `{"policy":"shop/login","all":true}`
	g.Expect(o.as("unblocker", http.MethodPost, "/v1/unblock", all).Code).To(Equal(http.StatusForbidden))
	g.Expect(o.as("lister", http.MethodPost, "/v1/unblock", all).Body.String()).To(MatchJSON(`{"found":true,"lifted":3}`))
	g.Expect(o.as("root", http.MethodPost, "/v1/unblock", all).Body.String()).To(MatchJSON(`{"found":false,"lifted":0}`))
	g.Expect(o.get("root", "/v1/blocks")["blocks"]).To(HaveLen(1), "the block of the other policy")
	g.Expect(o.log.String()).To(MatchRegexp(`"Unblocked a key",.*"keyHash":"all","user":"lister"`))
}

func TestInvalidTargetsOfListsAndHashes(t *testing.T) {
	g, o := NewWithT(t), newOnRedis(t)
	const hash = `"keyHash":"0123456789abcdef"`
	for body, field := range map[string]string{
		`{"policy":"shop/login","keyHash":"x"}`:                "keyHash",
		`{"policy":"shop/login","keyHash":"0123456789ABCDEF"}`: "keyHash",
		`{"policy":"shop/login","key":"a",` + hash + `}`:       "keyHash",
		`{"policy":"shop/login","all":true,` + hash + `}`:      "all",
		`{"policy":"shop/login","all":1}`:                      "all",
	} {
		w := o.as("root", http.MethodPost, "/v1/unblock", body)
		g.Expect(w.Code).To(Equal(http.StatusBadRequest), body)
		g.Expect(w.Body.String()).To(ContainSubstring(`"field":"`+field+`"`), body)
	}
	g.Expect(o.as("root", http.MethodPost, "/v1/reset", `{"policy":"shop/login","all":true}`).Code).To(Equal(http.StatusBadRequest))
	for query, field := range map[string]string{
		"namespace=a/b": "namespace", "namespace=": "namespace", "policy=x": "policy", "limit=0": "limit", "limit=1001": "limit",
		"policy=shop/login&namespace=shop": "namespace", "limit=1&limit=2": "limit", "nonesuch=1": "nonesuch",
	} {
		w := o.as("root", http.MethodGet, "/v1/blocks?"+query, "")
		g.Expect(w.Code).To(Equal(http.StatusBadRequest), query)
		g.Expect(w.Body.String()).To(ContainSubstring(`"field":"`+field+`"`), query)
	}
	w := o.as("root", http.MethodPost, "/v1/unblock", `{"policy":"shop/login",`+hash+`}`)
	g.Expect(w.Code).To(Equal(http.StatusNotFound))
	g.Expect(w.Body.String()).To(And(ContainSubstring(`"code":"UnknownKey"`), ContainSubstring("name its parts instead")))
}

func TestRatesHaveAnHour(t *testing.T) {
	g, o := NewWithT(t), newOnRedis(t)
	rates := o.get("lister", "/v1/rates?namespace=shop")
	g.Expect(rates["periodSeconds"]).To(Equal(10.0))
	g.Expect(rates["total"].(map[string]any)["allowed"]).To(HaveLen(limiter.RateSamples))
	g.Expect(rates["reported"]).To(Equal([]any{"me"}))
}

// Since is in the answers only if decisions are counted for less than the whole hour.
func TestListsHaveSinceWhenTheyCount(t *testing.T) {
	g := NewWithT(t)
	observer := &fakeObserver{limiter.Activity{Total: *limiter.NewRates()}}
	engine := &fakeEngine{snapshot: index.NewSnapshot(1, []*plan.Plan{hourly("login")})}
	h := New(Options{Engine: engine, State: &fakeState{}, Authorizer: team, Blocks: fakeBlocks{}, Observer: observer})
	for _, path := range []string{pathTop, pathRates, pathKeys} {
		ask := func() string {
			return sendAs(h, "lister", http.MethodGet, path+"?namespace=shop&value=k", "").Body.String()
		}
		if path != pathKeys {
			ask = func() string { return sendAs(h, "lister", http.MethodGet, path+"?namespace=shop", "").Body.String() }
		}
		observer.activity.Since = time.Time{}
		g.Expect(ask()).To(And(ContainSubstring(`"reported"`), Not(ContainSubstring(`"since"`))), path)
		observer.activity.Since = time.Unix(1_700_000_000, 0).UTC()
		g.Expect(ask()).To(ContainSubstring(`"since":"2023-11-14T22:13:20Z"`), path)
	}
}

// fakeObserver has the same activity for every scope.
type fakeObserver struct{ activity limiter.Activity }

func (f *fakeObserver) Activity(context.Context, limiter.Scope) (*limiter.Activity, error) {
	return &f.activity, nil
}

// fakeBlocks has one block in every policy.
type fakeBlocks struct{}

func (fakeBlocks) HaveBlocks(_ context.Context, policies []string) ([]string, error) {
	return policies, nil
}

func (fakeBlocks) Blocks(_ context.Context, policies []string, _ int) (*limiter.BlockList, error) {
	list := &limiter.BlockList{}
	for _, policy := range policies {
		list.Blocks = append(list.Blocks, limiter.BlockedKey{Policy: policy, Key: limiter.ListedKey{Parts: []string{"k"}, Hash: "h"}, Left: time.Second})
	}
	return list, nil
}

// Policies of Namespaces that the caller may not list are counted, not named.
func TestForeignPoliciesAreCountedNotNamed(t *testing.T) {
	g := NewWithT(t)
	engine := &fakeEngine{snapshot: index.NewSnapshot(1, []*plan.Plan{
		hourly("login"), {Namespace: "bank", Name: "secret", Mode: plan.ModeEnforce, Limits: hourly("x").Limits},
	})}
	rates := limiter.NewRates()
	rates.Denied[limiter.RateSamples-1], rates.Denied[limiter.RateSamples-10] = 4, 5
	observer := &fakeObserver{limiter.Activity{
		Policies: []limiter.PolicyActivity{{Policy: "bank/secret", Rates: rates}, {Policy: "shop/login", Rates: rates}}, Total: *rates,
	}}
	h := New(Options{Engine: engine, State: &fakeState{}, Authorizer: team, Blocks: fakeBlocks{}, Observer: observer})
	for _, path := range []string{pathBlocks, pathTop, pathRates} {
		w := sendAs(h, "lister", http.MethodGet, path, "")
		g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
		g.Expect(w.Body.String()).To(And(ContainSubstring("shop/login"), ContainSubstring(`"hiddenPolicies":1`), Not(ContainSubstring("bank"))))
		g.Expect(sendAs(h, "lister", http.MethodGet, path+"?namespace=bank", "").Code).To(Equal(http.StatusForbidden))
		g.Expect(sendAs(h, "lister", http.MethodGet, path+"?policy=bank/secret", "").Code).To(Equal(http.StatusForbidden))
		w = sendAs(h, "inspector", http.MethodGet, path, "")
		g.Expect(w.Body.String()).To(And(ContainSubstring(`"hiddenPolicies":2`), Not(ContainSubstring("login"))))
	}
	w := sendAs(h, "lister", http.MethodGet, pathTop, "")
	g.Expect(w.Body.String()).To(ContainSubstring(
		`"decisions":{"lastMinute":{"allowed":0,"denied":4,"shadowDenied":0,"candidateDenied":0,"candidateAllowed":0},"last5Minutes":{"allowed":0,"denied":9,"shadowDenied":0,`))
}

func TestListsWithoutObservation(t *testing.T) {
	g := NewWithT(t)
	h := New(Options{Engine: &fakeEngine{}, State: &fakeState{}, Authorizer: team})
	w := sendAs(h, "root", http.MethodGet, pathTop+"?namespace=shop", "")
	g.Expect(w.Code).To(Equal(http.StatusNotFound))
	g.Expect(w.Body.String()).To(And(ContainSubstring(`"code":"NotObserved"`), ContainSubstring("--observe=false")))
}

func TestMask(t *testing.T) {
	header, address := plan.KeyPart{Type: plan.KeyHeader}, plan.KeyPart{Type: plan.KeyRemoteAddress}
	p := &plan.Plan{Key: []plan.KeyPart{header, address}}
	for name, tc := range map[string]struct {
		plan   *plan.Plan
		key    limiter.ListedKey
		reveal bool
		want   []string
	}{
		"only headers":   {p, limiter.ListedKey{Parts: []string{"secret-token", "192.0.2.1"}}, false, []string{"secr…", "192.0.2.1"}},
		"revealed":       {p, limiter.ListedKey{Parts: []string{"secret-token", "192.0.2.1"}}, true, []string{"secret-token", "192.0.2.1"}},
		"at most half":   {p, limiter.ListedKey{Parts: []string{"abc", "x"}}, false, []string{"a…", "x"}},
		"characters":     {p, limiter.ListedKey{Parts: []string{"äöüßäöüß", "x"}}, false, []string{"äöüß…", "x"}},
		"a missing part": {p, limiter.ListedKey{Parts: []string{"", "x"}}, false, []string{"", "x"}},
		"a cut key":      {p, limiter.ListedKey{Parts: []string{"secret|192.0.2.1"}, Cut: true}, false, []string{"secr…"}},
		"no plan":        {nil, limiter.ListedKey{Parts: []string{"secret-token", "192.0.2.1"}}, false, []string{"secr…", "192.…"}},
		"the shared key": {p, limiter.ListedKey{}, false, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(listedKeyOf(tc.plan, &tc.key, tc.reveal).Key).To(Equal(tc.want))
		})
	}
}
