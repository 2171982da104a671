// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-dev/weir/internal/limiter/endpoint"
)

// Each door, the decision and the command to Redis are spans of the trace that the
// caller names, one within the other, and none of them tells who the caller's
// caller is.
func TestSpans(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	h := build(t, func(o *endpoint.Options) {
		o.Tracer, o.Propagator = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)), propagation.TraceContext{}
	}, loginPlan())
	const user = "alice-who-has-a-secret"
	for door, name := range map[string]string{
		"check": "POST /v1/check", "authorize": "/v1/authorize",
		"ext_authz": "envoy.service.auth.v3.Authorization/Check",
		"ratelimit": "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
	} {
		t.Run(door, func(t *testing.T) {
			g := NewWithT(t)
			h.parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			h.doors[door](g, user)
			g.Eventually(func() []string { return names(spans.GetSpans()) }).Should(ContainElements(name, "decide", HavePrefix("evalsha")))
			// Connections belong to the pool and to no trace.
			all := slices.DeleteFunc(spans.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name == "redis.dial" })
			spans.Reset()
			ids := map[string]string{}
			for _, s := range all {
				g.Expect(s.SpanContext.TraceID().String()).To(Equal("0af7651916cd43dd8448eb211c80319c"), s.Name)
				ids[s.Name] = s.SpanContext.SpanID().String()
				g.Expect(fmt.Sprint(s.Attributes, s.Events, s.Status)).NotTo(ContainSubstring(user))
			}
			for _, s := range all {
				switch parent := s.Parent.SpanID().String(); {
				case s.Name == name:
					g.Expect(parent).To(Equal("b7ad6b7169203331"))
				case s.Name == "decide":
					g.Expect(parent).To(Equal(ids[name]))
					g.Expect(fmt.Sprint(s.Attributes)).To(And(ContainSubstring("weir.reason"), ContainSubstring("shop/login")))
				case strings.HasPrefix(s.Name, "evalsha"):
					g.Expect(parent).To(Equal(ids["decide"]))
				} // a first command also brings those of its connection
			}
		})
	}
	g := NewWithT(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		response, err := http.Get("http://" + h.HTTP.Addr() + path)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
	}
	g.Consistently(func() []string { return names(spans.GetSpans()) }, "50ms").
		ShouldNot(ContainElement(HavePrefix("HTTP")), "probes are no traffic")
}

// What a proxy passes on of its client is a key to some policy.
func TestSpansHoldNoFactsOfTheRequestAskedAbout(t *testing.T) {
	g := NewWithT(t)
	spans := tracetest.NewInMemoryExporter()
	h := build(t, func(o *endpoint.Options) {
		o.Tracer, o.Propagator = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)), propagation.TraceContext{}
	}, loginPlan())
	r, err := http.NewRequest(http.MethodGet, "http://"+h.HTTP.Addr()+"/v1/authorize/orders/secret?card=secret", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("X-Forwarded-For", "198.51.100.7, 127.0.0.1")
	r.Header.Set("User-Agent", "secret")
	response, err := http.DefaultClient.Do(r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.Body.Close()).To(Succeed())
	g.Eventually(func() []string { return names(spans.GetSpans()) }).Should(ContainElement("/v1/authorize"))
	for _, s := range spans.GetSpans() {
		g.Expect(fmt.Sprint(s.Name, s.Attributes, s.Events, s.Status)).NotTo(Or(ContainSubstring("secret"), ContainSubstring("198.51.100.7")))
	}
}

func names(spans tracetest.SpanStubs) []string {
	all := make([]string, len(spans))
	for i, s := range spans {
		all[i] = s.Name
	}
	return all
}
