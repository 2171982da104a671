// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// targeted returns a policy with the targets.
func targeted(name string, targets ...plan.Target) *plan.Plan {
	p := hourly(name)
	p.Matches = []plan.Match{{Targets: targets}}
	return p
}

func TestTargets(t *testing.T) {
	g, c, o := NewWithT(t), loadContract(t), newOnRedis(t)
	const shop, old, public = "HTTPRoute/shop/shop", "HTTPRoute/shop/old", "Gateway/shop/public"
	cart, floor, foreign := targeted("cart", shop, old), targeted("floor", public), targeted("foreign", shop)
	host := hourly("host")
	host.Matches = []plan.Match{{Hosts: []string{"shop.example"}}}
	foreign.Namespace = "bank"
	o.engine.Use(index.NewSnapshot(9, []*plan.Plan{cart, floor, foreign, host, hourly("named")}))
	client := redis.NewClient(&redis.Options{Addr: o.redis.Addr})
	t.Cleanup(func() { _ = client.Close() })
	report := func(p *plan.Plan, selectors, target string, second int64) {
		g.Expect(client.ZAdd(t.Context(), "weir:{registry}:traffic", redis.Z{
			Score: float64(second * 1000), Member: p.ID() + " " + selectors + " " + target,
		}).Err()).To(Succeed())
	}
	report(cart, cart.Selectors(), shop, 100)
	report(cart, cart.Selectors(), "", 200)
	report(cart, "earlier", old, 300)
	report(host, host.Selectors(), "", 400)
	report(foreign, foreign.Selectors(), shop, 500)
	list := func(token, query string) *httptest.ResponseRecorder {
		w := o.as(token, http.MethodGet, pathTargets+query, "")
		g.Expect(c.violation(httptest.NewRequest(http.MethodGet, pathTargets+query, http.NoBody), "", w)).To(BeEmpty(), w.Body.String())
		return w
	}

	w := list("lister", "?namespace=shop")
	g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
	g.Expect(w.Body.String()).To(MatchJSON(`{"policies":[
		{"policy":"shop/cart","mode":"Enforce","lastCheck":"1970-01-01T00:03:20Z","targets":[
			{"target":"HTTPRoute/shop/shop","lastCheck":"1970-01-01T00:01:40Z"},{"target":"HTTPRoute/shop/old"}]},
		{"policy":"shop/floor","mode":"Enforce","targets":[{"target":"Gateway/shop/public"}]},
		{"policy":"shop/host","mode":"Enforce","lastCheck":"1970-01-01T00:06:40Z","targets":[]}],"hiddenPolicies":0}`))
	g.Expect(list("lister", "?policy=shop/floor").Body.String()).
		To(MatchJSON(`{"policies":[{"policy":"shop/floor","mode":"Enforce","targets":[{"target":"Gateway/shop/public"}]}],"hiddenPolicies":0}`))
	g.Expect(list("lister", "").Body.String()).To(ContainSubstring(`"hiddenPolicies":1`), "the policy of another Namespace")
	g.Expect(list("lister", "?namespace=bank").Code).To(Equal(http.StatusForbidden))

	o.redis.Stop()
	g.Expect(list("lister", "?namespace=shop").Code).To(Equal(http.StatusServiceUnavailable))
}

func TestTargetsWithoutReports(t *testing.T) {
	g := NewWithT(t)
	o := Options{Engine: &fakeEngine{snapshot: index.NewSnapshot(1, nil)}, State: &fakeState{}, Authorizer: team, Logger: slog.New(slog.DiscardHandler)}
	w := sendAs(New(o), "lister", http.MethodGet, pathTargets+"?namespace=shop", "")
	g.Expect(w.Code).To(Equal(http.StatusNotFound))
	g.Expect(w.Body.String()).To(ContainSubstring("NotObserved"))

	o.Traffic = noTraffic{}
	h := New(o)
	g.Expect(sendAs(h, "lister", http.MethodGet, pathTargets+"?namespace=shop", "").Code).To(Equal(http.StatusOK))
	h.sighting.Lock()
	g.Expect(sendAs(h, "lister", http.MethodGet, pathTargets+"?namespace=shop", "").Code).To(Equal(http.StatusServiceUnavailable), "another call reads")
}

// noTraffic has no sightings.
type noTraffic struct{}

func (noTraffic) Read(context.Context, time.Time) ([]plan.Sighting, error) { return nil, nil }
