// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package extauthz_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/extauthz"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/frontend/probe"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// sentRaw moves the headers to where Envoy sends them with encode_raw_headers.
func sentRaw(a *authv3.AttributeContext) {
	a.Request.Http.HeaderMap = &corev3.HeaderMap{}
	for name, value := range a.GetRequest().GetHttp().GetHeaders() {
		a.Request.Http.HeaderMap.Headers = append(a.Request.Http.HeaderMap.Headers, &corev3.HeaderValue{Key: name, RawValue: []byte(value)})
	}
	a.Request.Http.Headers = nil
}

func TestProbeIsAnswered(t *testing.T) {
	g := NewWithT(t)
	plans := index.NewSnapshot(1, []*plan.Plan{{Namespace: "shop", Name: "api", Mode: plan.ModeEnforce, Matches: []plan.Match{{Paths: []string{"/api/*"}}}}})
	prober := probe.New(probe.Options{
		Store: probe.NewMemoryStore(time.Now), Snapshot: func() *index.Snapshot { return plans }, Timeout: time.Minute, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler),
	})
	e := &engine{decision: limiter.Decision{Allowed: true, Reason: limiter.ReasonAllowed}}
	s := extauthz.New(extauthz.Options{Engine: e, Prober: prober})
	for name, edit := range map[string]func(*authv3.AttributeContext){"joined headers": func(*authv3.AttributeContext) {}, "raw headers": sentRaw} {
		code, err := prober.Issue(t.Context(), probe.Grant{})
		g.Expect(err).NotTo(HaveOccurred())
		e.received = nil
		r := request(header("x-weir-probe", code), edit, func(a *authv3.AttributeContext) {
			a.ContextExtensions = map[string]string{"weir.gateway": "infra/public", "domain": "edge"}
		})
		got, err := s.Check(t.Context(), r)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(e.received).To(BeNil(), "nothing is decided")
		denied := got.GetDeniedResponse()
		g.Expect(denied.GetStatus().GetCode()).To(BeEquivalentTo(403), name)
		g.Expect(got.GetStatus().GetCode()).To(BeEquivalentTo(codes.PermissionDenied))
		headers := map[string]string{}
		for _, h := range denied.GetHeaders() {
			headers[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
		}
		g.Expect(headers).To(HaveKeyWithValue("Cache-Control", "no-store"))
		report := httptypes.ProbeReport{}
		g.Expect(json.Unmarshal([]byte(headers["Weir-Probe"]), &report)).To(Succeed())
		g.Expect(report).To(Equal(httptypes.ProbeReport{
			Frontend: "ext_authz", Method: "GET", Host: "shop.example", Path: "/api/items", Domain: "edge", RemoteAddress: "192.0.2.1",
			Principal: "spiffe://mesh/shop", Targets: []string{"Gateway/infra/public"}, Policies: []string{"shop/api"},
		}))

		got, err = s.Check(t.Context(), r)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.GetOkResponse()).NotTo(BeNil(), "the code was used: decided as any other")
		g.Expect(e.received.Attributes.Headers).NotTo(HaveKey("x-weir-probe"))
	}

	code, err := prober.Issue(t.Context(), probe.Grant{})
	g.Expect(err).NotTo(HaveOccurred())
	got, err := s.Check(t.Context(), request(header("x-weir-probe", code), func(a *authv3.AttributeContext) {
		a.ContextExtensions = map[string]string{"weir.gateway": "public"}
	}))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.GetDeniedResponse().GetBody()).To(ContainSubstring(`"problem":"context_extensions[\"weir.gateway\"]: must be`))
}

// Without a Prober, and with invented codes, requests are decided.
func TestInventedCodesAreIgnored(t *testing.T) {
	g := NewWithT(t)
	e := &engine{decision: limiter.Decision{Allowed: true, Reason: limiter.ReasonAllowed}}
	got, err := checkFrom(t, e, "10.0.0.9:1", request(header("x-weir-probe", strings.Repeat("A", 26))))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.GetOkResponse()).NotTo(BeNil())
	g.Expect(e.received.Attributes.Headers).To(Equal(map[string]string{"x-user": "alice"}))
}
