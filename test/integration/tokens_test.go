// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"sigs.k8s.io/yaml"
)

// tokenStream is one request through Envoy with the rate limits of a page.
type tokenStream struct {
	client ratelimitv3.RateLimitServiceClient
	domain string
	limits []*routev3.RateLimit
	user   string
	id     string
}

// call makes the call of the filter when the request arrives, or when the stream is done, with these tokens in its
// metadata. Without metadata, -1, Envoy omits the descriptor. It returns nil if there is no call.
func (s *tokenStream) call(t *testing.T, done bool, tokens int64) *ratelimitv3.RateLimitResponse {
	t.Helper()
	r := &ratelimitv3.RateLimitRequest{Domain: s.domain}
	for _, limit := range s.limits {
		if limit.GetApplyOnStreamDone() != done {
			continue
		}
		d := &commonv3.RateLimitDescriptor{HitsAddend: limit.GetHitsAddend().GetNumber()}
		if limit.GetHitsAddend().GetFormat() != "" {
			if tokens < 0 {
				continue
			}
			d.HitsAddend = wrapperspb.UInt64(uint64(tokens))
		}
		for _, action := range limit.GetActions() {
			entry := &commonv3.RateLimitDescriptor_Entry{Key: action.GetRequestHeaders().GetDescriptorKey(), Value: s.user}
			if generic := action.GetGenericKey(); generic != nil {
				entry.Key, entry.Value = generic.GetDescriptorKey(), strings.ReplaceAll(generic.GetDescriptorValue(), "%STREAM_ID%", s.id)
			}
			d.Entries = append(d.Entries, entry)
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	if len(r.GetDescriptors()) == 0 {
		return nil
	}
	response, err := s.client.ShouldRateLimit(t.Context(), r)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return response
}

// The configuration with IDs is valid for Envoy, and its calls keep the budget of the policy beside it.
func TestTokenBudgetsOfThePage(t *testing.T) {
	g := NewWithT(t)
	page := blocks(t, "envoy-ai-gateway.md")
	e := readBootstrap(g, page[2])
	filter := unpack(g, e.filter, &ratelimitfilterv3.RateLimit{})
	perRoute := unpack(g, e.routes.GetRoutes()[0].GetTypedPerFilterConfig()["envoy.filters.http.ratelimit"], &ratelimitfilterv3.RateLimitPerRoute{})
	g.Expect(e.weir.GetPortValue()).To(BeEquivalentTo(8081))
	w := newWorld(t, page[1], page[3])
	client := ratelimitv3.NewRateLimitServiceClient(dial(t, w))
	stream := func(i int) *tokenStream {
		return &tokenStream{client: client, domain: filter.GetDomain(), limits: perRoute.GetRateLimits(), user: "alice", id: fmt.Sprint("stream-", i)}
	}
	const ok, over = ratelimitv3.RateLimitResponse_OK, ratelimitv3.RateLimitResponse_OVER_LIMIT
	for i := range 24 { // 24 estimates of 4096 fit in 100000
		g.Expect(stream(i).call(t, false, -1).GetOverallCode()).To(Equal(ok))
	}
	denied := stream(24)
	g.Expect(denied.call(t, false, -1).GetOverallCode()).To(Equal(over), "what is in flight counts")
	g.Expect(denied.call(t, true, -1)).To(BeNil())
	g.Expect(stream(0).call(t, false, -1).GetOverallCode()).To(Equal(over), "its ID is open")
	for i := range 24 {
		g.Expect(stream(i).call(t, true, 1000).GetOverallCode()).To(Equal(ok))
	}
	left := stream(25).call(t, false, -1)
	g.Expect(left.GetOverallCode()).To(Equal(ok))
	g.Expect(left.GetStatuses()[0].GetLimitRemaining()).To(BeEquivalentTo(100_000 - 24*1000 - 4096))
}

// costRule is a rule of a BackendTrafficPolicy.
type costRule struct {
	Cost struct {
		Request  struct{ Number uint64 }
		Response struct{ Metadata metadataKey }
	}
}

type metadataKey struct{ Namespace, Key string }

// The configuration of Envoy Gateway is replayed in the calls that it translates to: a peek, and a charge.
func TestPublishedTokenBudgets(t *testing.T) {
	g := NewWithT(t)
	page := blocks(t, "envoy-ai-gateway.md")
	var published struct {
		Spec struct {
			RateLimit struct{ Global struct{ Rules []costRule } }
		}
	}
	g.Expect(yaml.Unmarshal([]byte(page[0]), &published)).To(Succeed())
	cost := published.Spec.RateLimit.Global.Rules[0].Cost
	route := "httproute/ai/chat/rule/0/match/0/*"
	actions := []*routev3.RateLimit_Action{
		{ActionSpecifier: &routev3.RateLimit_Action_GenericKey_{GenericKey: &routev3.RateLimit_Action_GenericKey{DescriptorKey: route, DescriptorValue: route}}},
		{ActionSpecifier: &routev3.RateLimit_Action_RequestHeaders_{RequestHeaders: &routev3.RateLimit_Action_RequestHeaders{HeaderName: "x-user-id", DescriptorKey: "rule-0-match-0"}}},
	}
	format := fmt.Sprintf("%%DYNAMIC_METADATA(%s:%s)%%", cost.Response.Metadata.Namespace, cost.Response.Metadata.Key)
	limits := []*routev3.RateLimit{
		{Actions: actions, HitsAddend: &routev3.RateLimit_HitsAddend{Number: wrapperspb.UInt64(cost.Request.Number)}},
		{Actions: actions, HitsAddend: &routev3.RateLimit_HitsAddend{Format: format}, ApplyOnStreamDone: true},
	}
	for _, limit := range limits {
		g.Expect(limit.ValidateAll()).To(Succeed())
	}
	w := newWorld(t, page[1], page[3])
	s := &tokenStream{client: ratelimitv3.NewRateLimitServiceClient(dial(t, w)), domain: "ai/gateway/http", limits: limits, user: "alice"}
	const ok, over = ratelimitv3.RateLimitResponse_OK, ratelimitv3.RateLimitResponse_OVER_LIMIT
	for range 3 {
		g.Expect(s.call(t, false, -1).GetOverallCode()).To(Equal(ok), "nothing is held for what is in flight")
	}
	for range 3 {
		g.Expect(s.call(t, true, 40_000).GetOverallCode()).To(Equal(ok), "a charge is never denied")
	}
	denied := s.call(t, false, -1)
	g.Expect(denied.GetOverallCode()).To(Equal(over))
	g.Expect(string(denied.GetRawBody())).To(ContainSubstring(`"used":120000`))
	g.Expect(s.call(t, true, 5).GetOverallCode()).To(Equal(ok), "the call after a 429")
	g.Expect(string(s.call(t, false, -1).GetRawBody())).To(ContainSubstring(`"used":120005`))
}
