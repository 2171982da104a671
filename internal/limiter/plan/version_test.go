// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !weir_next_version

package plan_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// A release before does not know these members, and would match more requests.
func TestValuesNeedTheNewVersion(t *testing.T) {
	for name, change := range map[string]func(p *plan.Plan){
		"headers":            func(p *plan.Plan) { p.Matches[0].Headers = descriptor("x-tier") },
		"only these entries": func(p *plan.Plan) { p.Matches[0] = only("k") },
		"a prefix":           func(p *plan.Plan) { p.Matches[0].Descriptors = wanted("k=v*") },
		"an exception":       func(p *plan.Plan) { p.Matches[0].Descriptors = wanted("k=!v") },
		"parameters":         func(p *plan.Plan) { p.Matches[0].QueryParameters = descriptor("q") },
		"a cookie":           func(p *plan.Plan) { p.Key[0] = plan.KeyPart{Type: plan.KeyCookie, Cookie: "c"} },
		"a parameter":        func(p *plan.Plan) { p.Key[0] = plan.KeyPart{Type: plan.KeyQueryParameter, QueryParameter: "q"} },
		"a claim": func(p *plan.Plan) {
			p.Key[0] = plan.KeyPart{Type: plan.KeyClaim, Claim: &plan.Claim{Payload: "a", Name: "b"}}
		},
		"a condition": func(p *plan.Plan) { p.Matches[0].When = `request.query["q"] == ""` },
		"a key": func(p *plan.Plan) {
			p.Key[0] = plan.KeyPart{Type: plan.KeyExpression, Expression: "request . cookies.a"}
		},
		"an override": func(p *plan.Plan) {
			p.Overrides = []plan.Override{{Name: "o", Action: plan.ActionAllow, When: "claims.a.b == '1'"}}
		},
		"a group": func(p *plan.Plan) {
			p.Overrides = []plan.Override{{Name: "o", Action: plan.ActionAllow, Groups: []string{"gold"}}}
		},
		"a cost of reservations": func(p *plan.Plan) {
			p.Reservations = plan.Reservations{MaxTTLMillis: 1000, MaxOpen: 1, Cost: "response.code"}
		},
		"blocks on commits": func(p *plan.Plan) {
			p.Reservations = plan.Reservations{MaxTTLMillis: 1000, MaxOpen: 1, BlockOnCommit: true}
		},
		"slices":          func(p *plan.Plan) { *p = *slicedPlan() },
		"no such members": nil,
	} {
		p := valid()
		if change != nil {
			change(p)
		}
		NewWithT(t).Expect(p.Validate()).To(Succeed(), name)
		_, err := plan.EncodeAs(p, plan.Version-1)
		if change == nil {
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
		} else {
			NewWithT(t).Expect(err).To(MatchError(plan.ErrInexpressible), name)
		}
		data, err := plan.Encode(p)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(plan.Decode(data)).To(Equal(p))
	}
	for _, r := range []plan.Record{keyGroup(), exception()} {
		_, err := plan.EncodeAs(r, plan.Version-1)
		NewWithT(t).Expect(err).To(MatchError(plan.ErrInexpressible), r.ID())
	}
}
