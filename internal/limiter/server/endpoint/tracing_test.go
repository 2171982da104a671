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

	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
)

// newTraced returns an endpoint with loginPlan and the exporter of its spans.
func newTraced(t *testing.T) (*fixture, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	f := newFixture(t, func(o *endpoint.Options) {
		o.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
		o.Propagator = propagation.TraceContext{}
	}, loginPlan())
	// The cache of denials subscribes outside the trace of a request.
	NewWithT(t).Eventually(func() []string { return names(spans.GetSpans()) }).Should(ContainElement("hello"))
	spans.Reset()
	return f, spans
}

// The call of a frontend, the decision and the Redis command are nested spans in the trace of the
// caller. No span contains the user.
func TestSpansOfEachFrontend(t *testing.T) {
	f, spans := newTraced(t)
	const user = "alice-who-has-a-secret"
	for frontend, name := range map[string]string{
		"check": "POST /v1/check", "authorize": "/v1/authorize",
		"ext_authz": "envoy.service.auth.v3.Authorization/Check",
		"ratelimit": "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
	} {
		t.Run(frontend, func(t *testing.T) {
			g := NewWithT(t)
			f.parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			f.frontends[frontend](g, user)
			// Outside the trace of a request the pool opens connections, and the memory of Redis is watched.
			ofRequest := func() tracetest.SpanStubs {
				return slices.DeleteFunc(spans.GetSpans(), func(s tracetest.SpanStub) bool {
					return s.SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c"
				})
			}
			g.Eventually(func() []string { return names(ofRequest()) }).Should(ContainElements(name, "decide", HavePrefix("evalsha")))
			all := ofRequest()
			spans.Reset()
			ids := map[string]string{}
			for _, s := range all {
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
				} // the first command on a connection also has spans that set it up
			}
		})
	}
}

func TestProbesHaveNoSpans(t *testing.T) {
	g := NewWithT(t)
	f, spans := newTraced(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		response, err := http.Get("http://" + f.HTTP.Addr() + path)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
	}
	g.Consistently(func() []string { return names(spans.GetSpans()) }, "50ms").
		ShouldNot(ContainElement(HavePrefix("HTTP")))
}

// Attributes of the original request can be the key of a policy.
func TestSpansContainNoAttributesOfTheRequest(t *testing.T) {
	g := NewWithT(t)
	f, spans := newTraced(t)
	r, err := http.NewRequest(http.MethodGet, "http://"+f.HTTP.Addr()+"/v1/authorize/orders/secret?card=secret", http.NoBody)
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
