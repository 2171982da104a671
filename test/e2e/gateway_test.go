// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// docs/integrations/envoy-gateway.md, as printed.
var _ = Describe("weir behind Envoy Gateway", Ordered, func() {
	var g *gateway

	BeforeAll(func(ctx SpecContext) { g = installGateway(ctx) }, NodeTimeout(10*time.Minute))

	It("limits the route of the SecurityPolicy and no other", func(ctx SpecContext) {
		g.applyPrinted(ctx, "name: shop-clients")
		g.ready(ctx, "shop-clients")
		g.applyPatient(ctx, "kind: ReferenceGrant")
		g.checked(ctx, "/")
		client := g.newClient()
		for range 3 {
			got := g.get(ctx, "/", client)
			Expect(got.Status).To(Equal(http.StatusOK), got.Body)
			Expect(got.Headers.Get("RateLimit-Policy")).To(Equal(`"shop/shop-clients-burst";q=3;w=10`))
		}
		denied := g.get(ctx, "/", client)
		Expect(denied.Status).To(Equal(http.StatusTooManyRequests))
		Expect(denied.Headers.Get("Content-Type")).To(Equal("application/problem+json"))
		Expect(denied.Headers.Get("Retry-After")).To(MatchRegexp("^([1-9]|10)$"))
		Expect(denied.Headers.Get("RateLimit")).To(MatchRegexp(`^"shop/shop-clients-burst";r=0;t=([1-9]|10)$`))
		Expect(denied.Body).To(ContainSubstring(`"policy":"shop/shop-clients"`))
		Expect(g.statusOf(ctx, "/")).To(Equal(http.StatusOK), "another client")
		for range 5 {
			got := g.get(ctx, "/assets/logo", client)
			Expect(got.Status).To(Equal(http.StatusOK))
			Expect(got.Headers).NotTo(HaveKey("Ratelimit"))
			Expect(got.Body).To(HavePrefix(`{"method":"GET","host":"shop.example","uri":"/assets/logo"`), "of the upstream")
		}
	}, NodeTimeout(5*time.Minute))

	It("admits within the timeout while Weir is frozen", func(ctx SpecContext) {
		g.applyPrinted(ctx, "kind: ReferenceGrant")
		g.translated(ctx)
		frozen := func() (got load) {
			g.whileFrozen(ctx, func() {
				var err error
				got, err = g.load(ctx, 50, time.Second) // less than until the pods are unready
				Expect(err).NotTo(HaveOccurred())
			})
			Expect(got.Errors).To(BeEmpty())
			Expect(got.Statuses).To(Equal(map[string]int{"200": got.Sent}))
			AddReportEntry("milliseconds while Weir is frozen", got)
			g.checked(ctx, "/")
			return got
		}
		// Envoy Gateway reports the edit before Envoy has it; and without ready pods, Envoy would not ask at all. So
		// every attempt begins with ready pods.
		Eventually(frozen).WithContext(ctx).WithTimeout(time.Minute).
			Should(HaveField("P50", And(BeNumerically(">=", 100), BeNumerically("<", 1000))), "the timeout, not Envoy Gateway's default of 10 s")
	}, NodeTimeout(5*time.Minute))

	It("loses no request while the replicas are replaced", Label(onlyInAll), func(ctx SpecContext) {
		g.applyPatient(ctx, "kind: ReferenceGrant")
		g.policy(ctx, "shop-clients", "{matches: [{hosts: [shop.example]}], "+hourly(500)[1:])
		g.ready(ctx, "shop-clients")
		var got load
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			got, err = g.load(ctx, 50, 40*time.Second)
		}()
		kubectl(ctx, "rollout", "restart", "deployment/weir-manager", "--namespace", g.namespace)
		rolledOut(ctx, g.namespace, "weir-manager")
		Expect(done).NotTo(BeClosed(), "the load has to last longer")
		Eventually(done).WithContext(ctx).WithTimeout(time.Minute).Should(BeClosed())
		Expect(err).NotTo(HaveOccurred())
		AddReportEntry("requests during the rollout", got)
		Expect(got.Errors).To(BeEmpty())
		Expect(got.Statuses).To(Equal(map[string]int{"200": 500, "429": got.Sent - 500}))
		g.applyPrinted(ctx, "name: shop-clients")
		g.ready(ctx, "shop-clients")
	}, NodeTimeout(5*time.Minute))

	It("admits at once without a ready replica", Label(onlyInAll), func(ctx SpecContext) {
		kubectl(ctx, "scale", "deployment/weir-manager", "--namespace", g.namespace, "--replicas=0")
		Eventually(g.accepted).WithArguments(ctx, "weir").Should(And(HavePrefix("False/Invalid/"), ContainSubstring("no ready endpoints")))
		g.unchecked(ctx, "/")
		got, err := g.load(ctx, 50, 2*time.Second)
		Expect(err).NotTo(HaveOccurred())
		AddReportEntry("milliseconds without Weir", got)
		Expect(got.Errors).To(BeEmpty())
		Expect(got.Statuses).To(Equal(map[string]int{"200": got.Sent}))
		Expect(got.P50).To(BeNumerically("<", 100), "does not wait for the timeout")
		By("denying with failOpen: false")
		g.failOpen(ctx, false)
		Eventually(g.statusOf).WithArguments(ctx, "/").Should(Equal(http.StatusInternalServerError))
		kubectl(ctx, "scale", "deployment/weir-manager", "--namespace", g.namespace, "--replicas=2")
		g.checked(ctx, "/")
		By("denying after the timeout with failOpen: false")
		g.whileFrozen(ctx, func() { Expect(g.statusOf(ctx, "/")).To(Equal(http.StatusForbidden)) })
		g.failOpen(ctx, true)
		g.checked(ctx, "/")
	}, NodeTimeout(5*time.Minute))

	It("admits without the ReferenceGrant, or fails with failOpen: false", Label(onlyInAll), func(ctx SpecContext) {
		kubectl(ctx, "delete", "referencegrant", "weir-shop", "--namespace", g.namespace)
		Eventually(g.accepted).WithArguments(ctx, "weir").Should(And(HavePrefix("False/Invalid/"), ContainSubstring("not permitted by any ReferenceGrant")))
		g.unchecked(ctx, "/")
		g.failOpen(ctx, false)
		Eventually(g.statusOf).WithArguments(ctx, "/").Should(Equal(http.StatusInternalServerError))
		g.applyPatient(ctx, "kind: ReferenceGrant")
		Eventually(g.accepted).WithArguments(ctx, "weir").Should(HavePrefix("True/Accepted/"))
		g.checked(ctx, "/")
	}, NodeTimeout(5*time.Minute))

	It("limits all routes of a Gateway, except those that replace its SecurityPolicy", func(ctx SpecContext) {
		kubectl(ctx, "delete", "securitypolicy", "weir", "--namespace", g.shop)
		g.applyPatient(ctx, "    kind: Gateway\n    name: shop\n  extAuth:")
		g.checked(ctx, "/")
		g.checked(ctx, "/assets/logo")
		g.apply(ctx, strings.Replace(g.printed("name: assets\n  namespace: shop\nspec:\n  mergeType"), "  mergeType: StrategicMerge\n", "", 1))
		g.unchecked(ctx, "/assets/logo")
		g.checked(ctx, "/")
		Expect(g.accepted(ctx, "assets")).To(HavePrefix("True/Accepted/"))
		Expect(g.accepted(ctx, "weir")).To(HavePrefix("True/Accepted/"))
		Expect(g.securityCondition(ctx, "weir", "Overridden")).To(And(HavePrefix("True/Overridden/"), ContainSubstring("shop/assets")))
		g.applyPrinted(ctx, "name: assets\n  namespace: shop\nspec:\n  mergeType")
		g.checked(ctx, "/assets/logo")
		Eventually(g.securityCondition).WithArguments(ctx, "weir", "Merged").Should(And(HavePrefix("True/Merged/"), ContainSubstring("shop/assets")))
		By("naming a route as merged of which one rule has no limit")
		apply(ctx, g.shop, "rules.yaml", nil)
		g.unchecked(ctx, "/rules/replaced")
		g.checked(ctx, "/rules/merged")
		Eventually(g.securityCondition).WithArguments(ctx, "weir", "Merged").Should(ContainSubstring("shop/rules"))
		Expect(g.securityCondition(ctx, "weir", "Overridden")).NotTo(ContainSubstring("shop/rules"))
	}, NodeTimeout(5*time.Minute))

	It("rejects spellings and repeated headers", func(ctx SpecContext) {
		g.applyPrinted(ctx, "kind: HTTPRouteFilter")
		for _, path := range []string{"/a%2fb", "/a;b", "/%2561", "/a%00b"} {
			Eventually(g.statusOf).WithArguments(ctx, path).Should(Equal(http.StatusBadRequest), path)
		}
		hidden := []string{"X-Forwarded-Host: a", "X-Http-Method-Override: b", "X-Original-Url: /c"}
		Eventually(func() string { return g.get(ctx, "/", append(hidden, "X-Kept: d", g.newClient())...).Body }).
			Should(And(ContainSubstring(`"X-Kept":["d"]`), Not(Or(ContainSubstring("-Host"), ContainSubstring("-Override"), ContainSubstring("-Url")))))
		g.applyPrinted(ctx, "name: shop-accounts")
		g.ready(ctx, "shop-accounts")
		Expect(g.get(ctx, "/", g.newClient(), "X-Api-Key: alice").Status).To(Equal(http.StatusOK))
		Expect(g.get(ctx, "/", g.newClient(), "X-Api-Key: alice", "X-Api-Key: bob").Status).To(Equal(http.StatusForbidden))
	}, NodeTimeout(5*time.Minute))

	It("counts by a claim of the JWT, which clients cannot forge", func(ctx SpecContext) {
		keys, alice := signed(map[string]string{"iss": "https://accounts.example", "sub": "alice"})
		remote := "      remoteJWKS:\n        uri: https://accounts.example/keys.json\n"
		manifest := g.printed(remote)
		g.apply(ctx, strings.Replace(manifest, remote, "      localJWKS: {type: Inline, inline: '"+keys+"'}\n", 1))
		g.ready(ctx, "shop-subjects")
		Eventually(g.statusOf).WithArguments(ctx, "/").Should(Equal(http.StatusUnauthorized))
		for n := range 3 {
			got := g.get(ctx, "/", g.newClient(), alice, "X-Jwt-Sub: forged-"+strconv.Itoa(n))
			Expect(got.Status).To(Equal(http.StatusOK))
			Expect(got.Body).To(ContainSubstring(`"X-Jwt-Sub":["alice"]`))
		}
		Expect(g.get(ctx, "/", g.newClient(), alice, "X-Jwt-Sub: forged").Status).To(Equal(http.StatusTooManyRequests))
	}, NodeTimeout(5*time.Minute))

	moveSpecs(func() *gateway { return g })
	taskSpecs(func() *gateway { return g })
})
