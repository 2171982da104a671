// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/expressiontest"
)

// Each source of a key has the value of the request. A missing one is the empty part.
func TestKeysFromValues(t *testing.T) {
	f := newFixture(makePlan("a/x", keyed(
		plan.KeyPart{Type: plan.KeyCookie, Cookie: "id"}, plan.KeyPart{Type: plan.KeyQueryParameter, QueryParameter: "q"},
		plan.KeyPart{Type: plan.KeyClaim, Claim: &plan.Claim{Payload: "jwt", Name: "org.id"}},
	)))
	for _, tc := range []struct {
		a    plan.Attributes
		want string
	}{
		{plan.Attributes{Path: "/x?q=a%20b", Headers: map[string]string{"cookie": "x=1; id=7"}, Claims: map[string]map[string]string{"jwt": {"org.id": "acme"}}}, "7|a%20b|acme"},
		{plan.Attributes{Path: "/x?q", Headers: map[string]string{"cookie": "id="}, Claims: map[string]map[string]string{"other": {"org.id": "acme"}}}, "-|-|-"},
		{plan.Attributes{}, "-|-|-"},
	} {
		f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Peek: true, Attributes: tc.a})
		NewWithT(t).Expect(f.evaluatedKeys()).To(Equal([]string{tc.want}))
	}
}

// unreadable is a request whose query is not read.
func unreadable() plan.Attributes {
	return plan.Attributes{Path: "/x?" + strings.Repeat("&", plan.MaxReadValues), Method: "GET"}
}

// A match that reads the values of a request which has too many of them holds, and the request is counted.
func TestUnreadableValuesEscapeNoPolicy(t *testing.T) {
	match := plan.Match{QueryParameters: []plan.Entry{{Key: "tier", Value: "free"}}}
	f := newFixture(makePlan("a/x", matching(match), threshold(2)))
	for i := range 4 {
		NewWithT(t).Expect(f.decide(t, &limiter.Check{Cost: 1, Attributes: unreadable()}).Allowed).To(Equal(i < 2))
	}
	gold := plan.Attributes{Path: "/x?tier=gold"}
	NewWithT(t).Expect(f.decide(t, &limiter.Check{Cost: 1, Attributes: gold}).Reason).To(Equal(limiter.ReasonNoPolicy))
}

// Policies that hold only because values are unreadable push out no policy that certainly matches, neither by their
// number nor by the time of their expressions. Those without room deny.
func TestUnreadableValuesPushNothingOut(t *testing.T) {
	costly := "(" + expressiontest.Loop(`s == "x"`) + `) || request.method == "GET"`
	for name, when := range map[string]string{"by number": "", "by expressions": costly} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			certain := makePlan("a/z", matching(plan.Match{Paths: []string{"/x"}, When: when}), threshold(1))
			plans := []*plan.Plan{certain}
			for i := range 40 {
				plans = append(plans, makePlan(fmt.Sprintf("a/p%02d", i), threshold(100), matching(plan.Match{
					QueryParameters: []plan.Entry{{Key: "tier", Value: "free"}}, When: when,
				})))
			}
			f := newFixture(plans...)
			plain := plan.Attributes{Path: "/x", Method: "GET"}
			g.Expect(f.decide(t, &limiter.Check{Cost: 1, Attributes: plain}).Allowed).To(BeTrue())
			g.Expect(f.decide(t, &limiter.Check{Cost: 1, Attributes: unreadable()}).Reason).To(Equal(limiter.ReasonMissingKey))
			x, err := f.Explain(t.Context(), &limiter.Check{Cost: 1, Attributes: unreadable()})
			g.Expect(err).NotTo(HaveOccurred())
			reasons := map[limiter.Reason]int{}
			for _, p := range x.Policies {
				reasons[p.Reason]++
				if p.Policy == "a/z" {
					g.Expect(p.Reason).To(Equal(limiter.ReasonLimitExceeded), "it has room")
				}
			}
			g.Expect(reasons).To(HaveKeyWithValue(limiter.ReasonMissingKey, BeNumerically(">", 20)))
		})
	}
}

// Among many policies that differ in a parameter, an unreadable query is denied without looking at all of them.
func TestUnreadableValuesAmongManyPolicies(t *testing.T) {
	var plans []*plan.Plan
	for i := range 5000 {
		plans = append(plans, makePlan(fmt.Sprintf("n%d/p%04d", i%1000, i), threshold(100), matching(plan.Match{
			Paths: []string{"/x"}, QueryParameters: []plan.Entry{{Key: "tier", Value: strconv.Itoa(i)}},
		})))
	}
	g, f := NewWithT(t), newFixture(plans...)
	g.Expect(f.decide(t, &limiter.Check{Cost: 1, Attributes: unreadable()}).Reason).To(Equal(limiter.ReasonMissingKey))
	x, err := f.Explain(t.Context(), &limiter.Check{Cost: 1, Attributes: unreadable()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(x.Policies)).To(BeNumerically("~", plan.MaxMatchedPolicies+1, 8))
}

// A near miss names the header or parameter that the policy wants.
func TestNearMissesOfValues(t *testing.T) {
	f := newFixture(
		makePlan("a/h", matching(plan.Match{Paths: []string{"/x"}, Headers: []plan.Entry{{Key: "x-tier", Value: "free"}, {Key: "x-b"}}})),
		makePlan("a/q", matching(plan.Match{Paths: []string{"/x"}, QueryParameters: []plan.Entry{{Key: "q", Value: "a b"}}, When: `request.query.q == "a b"`})),
	)
	a := plan.Attributes{Path: "/x?q=c", Headers: map[string]string{"x-tier": "gold", "x-c": "d"}}
	x, err := f.Explain(t.Context(), &limiter.Check{Cost: 1, Attributes: a})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(x.NearMisses).To(HaveExactElements(
		limiter.NearMiss{Policy: "a/h", Reason: limiter.NearMismatch, Field: plan.FieldHeaders, Wants: []string{"x-tier=free, x-b"}, Got: []string{"x-tier=gold"}},
		limiter.NearMiss{Policy: "a/q", Reason: limiter.NearMismatch, Field: plan.FieldQueryParameters, Wants: []string{"q=a b"}, Got: []string{"q=c"}},
	))
	x, err = f.Explain(t.Context(), &limiter.Check{Cost: 1, Attributes: plan.Attributes{Path: "/x?z=1", Headers: map[string]string{"x-tier": "free", "x-b": ""}}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(x.Policies).To(HaveExactElements(HaveField("Policy", "a/h")))
	NewWithT(t).Expect(x.NearMisses).To(HaveExactElements(And(HaveField("Policy", "a/q"), HaveField("Got", []string{"z=1"}))))
}
