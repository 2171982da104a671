// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// failingConditions returns an engine with two overrides whose condition fails, and a later one
// for the principal gold.
func failingConditions() *fixture {
	return newFixture(makePlan("a/x", overridden(
		allow(when("true && false")), deny(when(`request.path.split("/")[5] == ""`)),
		// A plan of another release may use an unknown field.
		deny(when(`request.mood == "bad"`)),
		limits(plan.LimitOverride{Name: "burst", Threshold: 9}),
	)))
}

// An error is counted even when a later override selects the request.
func TestExpressionErrorsAreCounted(t *testing.T) {
	g := NewWithT(t)
	f := failingConditions()
	g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue())
	gold := named("a/x")
	gold.Attributes.Principal = "gold"
	g.Expect(f.decide(t, gold).Limits[0].Threshold).To(Equal(int64(9)))
	g.Expect(testutil.GatherAndCompare(f.registry, strings.NewReader(`
# HELP weir_expression_errors_total CEL expressions of policies that failed for a request.
# TYPE weir_expression_errors_total counter
weir_expression_errors_total{field="spec.overrides[1].when",namespace="a",policy="x"} 2
weir_expression_errors_total{field="spec.overrides[2].when",namespace="a",policy="x"} 2
`), "weir_expression_errors_total")).To(Succeed())
}

func TestExpressionErrorsOfPeeksAreNotCounted(t *testing.T) {
	g := NewWithT(t)
	f := failingConditions()
	peek := named("a/x")
	peek.Peek = true
	g.Expect(f.decide(t, peek).Allowed).To(BeTrue())
	g.Expect(testutil.GatherAndCount(f.registry, "weir_expression_errors_total")).To(BeZero())
}

func TestExpressionErrorsOfARemovedPolicyAreDropped(t *testing.T) {
	g := NewWithT(t)
	f := failingConditions()
	f.decide(t, named("a/x"))
	g.Expect(testutil.GatherAndCount(f.registry, "weir_expression_errors_total")).To(Equal(2))
	f.Use(index.NewSnapshot(2, nil))
	g.Expect(testutil.GatherAndCount(f.registry, "weir_expression_errors_total")).To(BeZero())
}

// A key expression that fails is a missing key part.
func TestFailingKeyExpressionIsAMissingKey(t *testing.T) {
	for on, want := range map[plan.OnMissingKey]limiter.Reason{
		plan.MissingKeyShare: limiter.ReasonAllowed,
		plan.MissingKeySkip:  limiter.ReasonNoPolicy,
		plan.MissingKeyDeny:  limiter.ReasonMissingKey,
	} {
		t.Run(string(on), func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", keyed(plan.KeyPart{Type: plan.KeyPrincipal}, expression(`request.path.split("/")[5]`)), missing(on), matching(edge)))
			check := described()
			check.Attributes.Principal = "p"
			peek := *check
			peek.Peek = true
			g.Expect(f.decide(t, &peek).Reason).To(Equal(want))
			g.Expect(testutil.GatherAndCount(f.registry, "weir_expression_errors_total")).To(BeZero(), "peeks are not counted")
			g.Expect(f.decide(t, check).Reason).To(Equal(want))
			g.Expect(exposition(g, f.registry)).To(ContainSubstring(
				`weir_expression_errors_total{field="spec.key[1].expression.cel",namespace="a",policy="x"} 1`))
		})
	}
}
