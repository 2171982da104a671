// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package extauthz

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/probe"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// frontendName is the name of this frontend in answers to probes.
const frontendName = "ext_authz"

// probe returns the answer if the request is a probe, else nil. problem is why it would not be decided, or nil.
func (s *Service) probe(ctx context.Context, r *authv3.AttributeContext_HttpRequest, a *plan.Attributes, problem error) *authv3.CheckResponse {
	codes := codesOf(r)
	if len(codes) == 0 {
		return nil
	}
	report, ok := s.options.Prober.Answer(ctx, &probe.Request{Codes: codes, Frontend: frontendName, Attributes: a, Problem: problem})
	if !ok {
		return nil
	}
	return denied(http.StatusForbidden, []answer.Header{
		{Name: answer.HeaderContentType, Value: answer.TypeJSON},
		{Name: probe.AnswerHeader, Value: report},
		{Name: "Cache-Control", Value: "no-store"},
	}, report)
}

// codesOf returns the values of probe.Header.
func codesOf(r *authv3.AttributeContext_HttpRequest) (codes []string) {
	if value, sent := r.GetHeaders()[strings.ToLower(probe.Header)]; sent {
		codes = append(codes, value)
	}
	for _, h := range r.GetHeaderMap().GetHeaders() {
		if strings.EqualFold(h.GetKey(), probe.Header) {
			codes = append(codes, cmp.Or(h.GetValue(), string(h.GetRawValue())))
		}
	}
	return codes
}
