// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// movedNamespace has the Gateway whose limits are moved.
const movedNamespace = "moved"

// series are the requests, in their order: each is sent once more than any limit admits, and others are in between.
var series = []struct {
	times                     int
	method, host, path, extra string
}{
	{4, http.MethodGet, "toys.example", "/", ""},
	{4, http.MethodGet, "a.toys.example", "/", ""}, // another host has another counter
	{2, http.MethodGet, "b.toys.example", "/", ""},
	{4, http.MethodGet, "toys.example", "/cart", ""}, // so has another match
	{4, http.MethodPost, "toys.example", "/login", ""},
	{2, http.MethodGet, "toys.example", "/login", ""}, // which is of the second rule
	{3, http.MethodGet, "toys.example", "/", "X-User: ann"},
	{3, http.MethodPost, "toys.example", "/", "X-User: bob"},
	{2, http.MethodGet, "toys.example", "/cart/x", "X-User: ann"},
	{2, http.MethodPut, "toys.example", "/cart", "X-Tier: free, X-Agent: bot-1"},
	{1, http.MethodPut, "toys.example", "/cart", "X-Tier: free, X-Agent: robot-1"},
	{2, http.MethodGet, "toys.example", "/cart/all", ""},
	{2, http.MethodGet, "toys.example", "/cart/all?page=1", ""}, // Envoy compares the path with the query
	{3, http.MethodGet, "toys.example", "/address/x?y=z", ""},
	{3, http.MethodGet, "books.example", "/", ""},
	{3, http.MethodGet, "books.example", "/search?q=1", ""},
	{5, http.MethodGet, "books.example", "/tier", ""},
	{1, http.MethodGet, "books.example", "/tier", "X-Tier: gold"},
	{5, http.MethodGet, "free.example", "/", ""},
	{1, http.MethodGet, "toys.example", "/", ""},
}

// moved is the Gateway with its routes.
type moved struct {
	*gateway
	plugin *plugin
}

// send sends a request through Envoy. extra are headers, separated by commas.
func (m *moved) send(ctx context.Context, method, host, path, extra string) (got answer) {
	GinkgoHelper()
	args := []string{"http", "-method", method, "-timeout", "30s", "-header", "Host: " + host}
	for header := range strings.SplitSeq(extra, ", ") {
		if header != "" {
			args = append(args, "-header", header)
		}
	}
	Expect(m.asker.run(ctx, &got, append(args, "http://"+m.address+path)...)).To(Succeed())
	return got
}

// answers returns each request of the series with its status.
func (m *moved) answers(ctx context.Context) (all []string) {
	GinkgoHelper()
	for i, s := range series {
		for n := range s.times {
			got := m.send(ctx, s.method, s.host, s.path, s.extra)
			all = append(all, fmt.Sprintf("%d.%d %s %s%s %s: %d", i, n, s.method, s.host, s.path, s.extra, got.Status))
		}
	}
	return all
}

// limiters returns which limiters answer requests for /ready of the limited routes: the headers of each are its own.
func (m *moved) limiters(ctx context.Context) (names []string) {
	GinkgoHelper()
	for _, host := range []string{"toys.example", "books.example"} {
		got := m.send(ctx, http.MethodGet, host, "/ready", "")
		for name, header := range map[string]string{"Envoy": "X-Ratelimit-Limit", "Weir": "Ratelimit"} {
			if _, has := got.Headers[header]; has {
				names = append(names, name)
			}
		}
	}
	return names
}

func startMove(ctx SpecContext, g *gateway) *moved {
	GinkgoHelper()
	m := &moved{gateway: &gateway{installation: &installation{namespace: g.namespace, shop: movedNamespace, asker: g.asker}}}
	m.plugin = newPlugin(m.installation)
	createNamespace(ctx, movedNamespace)
	apply(ctx, movedNamespace, "upstream.yaml", map[string]string{"image": clientImage, "name": "upstream"})
	apply(ctx, movedNamespace, "moved.yaml", nil)
	rolledOut(ctx, movedNamespace, "upstream")
	kubectl(ctx, "wait", "--namespace", movedNamespace, "--for=condition=Programmed", "--timeout=120s", "gateway/moved")
	m.address = kubectl(ctx, "get", "gateway", "moved", "--namespace", movedNamespace, "--output=jsonpath={.status.addresses[0].value}")
	return m
}

// moveSpecs converts the limits of Envoy Gateway, and compares the answers before and after.
func moveSpecs(installed func() *gateway) {
	It("moves limits of Envoy Gateway to Weir, answer by answer", func(ctx SpecContext) {
		m := startMove(ctx, installed())
		Eventually(m.limiters).WithContext(ctx).WithTimeout(time.Minute).Should(Equal([]string{"Envoy", "Envoy"}))
		before := m.answers(ctx)
		Expect(before).To(ContainElement(HaveSuffix(": 429")))

		By("converting")
		objects := kubectl(ctx, "get", "gateways,httproutes,backendtrafficpolicies,securitypolicies", "--namespace", movedNamespace, "--output=yaml")
		converted, err := tryTool(ctx, objects, m.plugin.path, "convert", "envoy-gateway", "-", "--weir-namespace="+m.namespace, "--service="+release)
		Expect(err).NotTo(HaveOccurred())
		kubectl(ctx, "delete", "backendtrafficpolicies", "--all", "--namespace", movedNamespace)
		m.apply(ctx, strings.NewReplacer("timeout: 100ms", "timeout: 5s", "maxInterval: 100ms", "maxInterval: 5s").Replace(converted))
		kubectl(ctx, "wait", "--namespace", movedNamespace, "--for=condition=Ready", "--timeout=120s", "ratelimitpolicies", "--all")
		Eventually(m.limiters).WithContext(ctx).WithTimeout(time.Minute).Should(Equal([]string{"Weir", "Weir"}))

		Expect(m.answers(ctx)).To(Equal(before))
		AddReportEntry("answers before and after", strings.Join(before, "\n"))
	}, NodeTimeout(5*time.Minute))
}
