// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/test/testenv"
)

// The page of a policy shows when a check last came through each of its Gateways and routes.
func TestLastChecksOfTargets(t *testing.T) {
	g := NewWithT(t)
	client, err := redisclient.New(testenv.StartRedis(t).URL, time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	s := start(t, func(o *endpoint.Options) {
		o.Redis, o.RedisPrefix, o.StoreTimeout, o.Traffic = client, "weir:", 5*time.Second, true
	})
	routed := policy("shop", "routed")
	routed.Matches = []plan.Match{{Targets: []plan.Target{"HTTPRoute/shop/shop", "Gateway/shop/public"}}}
	s.e.Use(index.NewSnapshot(8, []*plan.Plan{routed}))
	b := s.logIn("operator")
	b.open("/console/policy?policy=shop/routed")
	g.Expect(b.status).To(Equal(http.StatusOK))
	g.Expect(b.page).To(ContainSubstring("No check in the last 24 hours."))

	_, err = s.e.Decide(t.Context(), &limiter.Check{Cost: 1, Attributes: plan.Attributes{Targets: []plan.Target{"HTTPRoute/shop/shop"}}})
	g.Expect(err).NotTo(HaveOccurred())
	day := time.Now().UTC().Format("2 Jan 2006")
	g.Eventually(func() string { b.open("/console/policy?policy=shop/routed"); return b.page }, "30s").Should(And(
		ContainSubstring("The last check was reported at "+day),
		ContainSubstring("<dt><code>HTTPRoute/shop/shop</code></dt><dd>"+day),
		ContainSubstring("<dt><code>Gateway/shop/public</code></dt><dd>no check in the last 24 hours"),
	))
}
