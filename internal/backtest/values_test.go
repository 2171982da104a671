// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Policies that read headers, queries, cookies and claims need the fields of the log that have them.
func TestValuesNeedAttributes(t *testing.T) {
	p := &plan.Plan{
		Namespace: "shop", Name: "p",
		Matches: []plan.Match{
			{Headers: []plan.Entry{{Key: "x-tier", Value: "free"}}},
			{QueryParameters: []plan.Entry{{Key: "q"}}, When: `request.cookies["a"] == claims.jwt.sub`},
		},
		Key: []plan.KeyPart{
			{Type: plan.KeyCookie, Cookie: "c"},
			{Type: plan.KeyQueryParameter, QueryParameter: "q"},
			{Type: plan.KeyClaim, Claim: &plan.Claim{Payload: "jwt", Name: "https://a.example/t"}},
		},
	}
	NewWithT(t).Expect(needed([]*plan.Plan{p})).To(Equal([]Attribute{
		"claim.jwt.https://a.example/t", "claim.jwt.sub", "header.cookie", "header.x-tier", AttributePath, AttributeStatus, AttributeTime,
	}))
	whole := needing(`claims.exists(p, p == "x")`)
	NewWithT(t).Expect(missing(whole, nil)).To(HaveExactElements(MatchError(ContainSubstring("reads all of claim, which no log has"))))
}

// The names of a payload and of a claim may have dots. Each entry has claims of its own.
func TestClaimsOfALog(t *testing.T) {
	g := NewWithT(t)
	a, err := ParseAttribute("claim.a.jwt.org.id")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = ParseAttribute("claim.")
	g.Expect(err).To(MatchError(ContainSubstring("claim.PAYLOAD.NAME")))
	var first, second entry
	g.Expect(setterOf(a)(&first, "acme")).To(Succeed())
	second.attributes = first.attributes
	g.Expect(setterOf("claim.a.jwt.sub")(&second, "bob")).To(Succeed())
	g.Expect(first.attributes.Claims["a.jwt"]).To(Equal(map[string]string{"org.id": "acme"}))
	g.Expect(first.attributes.Claims["a"]).To(Equal(map[string]string{"jwt.org.id": "acme"}))
	g.Expect(second.attributes.Claims["a.jwt"]).To(Equal(map[string]string{"org.id": "acme", "sub": "bob"}))
}
