// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter"
	cel "github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// costly returns an expression that holds and whose price is about that share of cel.MaxPrice.
func costly(g *WithT, share float64) string {
	text := "true"
	for i := 0; ; i++ {
		compiled, err := cel.Compile[bool](text)
		g.Expect(err).NotTo(HaveOccurred())
		if compiled.Price().Seconds() >= share*cel.MaxPrice.Seconds() {
			return text
		}
		text = fmt.Sprintf(`!request.path.contains("x%d") && %s`, i, text)
	}
}

func TestNamespacesHaveShares(t *testing.T) {
	g := NewWithT(t)
	quarter, all := costly(g, 0.26), costly(g, 0.8)
	plans := func(namespace, when string, n int) []*plan.Plan {
		return manyPlans(namespace, n, onHostWhen(when))
	}
	for name, tc := range map[string]struct {
		plans     []*plan.Plan
		evaluated []string
	}{
		"a share that suffices":       {plans("a", quarter, 3), []string{"a/p000", "a/p001", "a/p002"}},
		"one policy too many":         {plans("a", quarter, 4), []string{"a/p000", "a/p001", "a/p002"}},
		"another Namespace":           {append(plans("a", quarter, 4), plans("b", quarter, 1)...), []string{"a/p000", "a/p001", "a/p002", "b/p000"}},
		"policies without expression": {append(plans("a", all, 2), plans("a-b", "", 2)...), []string{"a-b/p000", "a-b/p001", "a/p000"}},
		"a cheap policy of the fourth Namespace": {
			append(append(append(plans("a", all, 1), plans("b", all, 1)...), plans("c", all, 1)...), plans("d", `request.path != "x"`, 1)...),
			[]string{"a/p000", "b/p000", "d/p000"},
		},
		"mode Enforce comes first": {
			append([]*plan.Plan{makePlan("a/a", onHostWhen(all), mode(plan.ModeShadow))}, plans("a", all, 1)...), []string{"a/p000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(tc.plans...)
			d := f.decide(t, forHost())
			g.Expect(f.evaluated()).To(Equal(tc.evaluated))
			left := len(tc.plans) - len(tc.evaluated)
			g.Expect(testutil.GatherAndCount(f.registry, "weir_degraded_decisions_total")).To(Equal(left))
			g.Expect(d.Allowed).To(BeTrue())
			if left > 0 && tc.plans[0].Mode == plan.ModeEnforce {
				g.Expect(d).To(And(HaveField("Reason", limiter.ReasonExpressionsOverBudget), HaveField("Degraded", plan.FailOpen)))
			}
			x, err := f.Explain(t.Context(), forHost())
			g.Expect(err).NotTo(HaveOccurred())
			named := 0
			for _, p := range x.Policies {
				if p.Reason == limiter.ReasonExpressionsOverBudget {
					named++
				}
			}
			g.Expect(named).To(Equal(left))
		})
	}
}

// Keys and overrides need a share, too, also of policies that a check names.
func TestSharesOfNamedPolicies(t *testing.T) {
	g := NewWithT(t)
	half := costly(g, 0.6)
	key := expression(half + ` ? "a" : "b"`)
	f := newFixture(
		makePlan("a/key", keyed(key)), makePlan("a/override", overridden(deny(when("!("+half+")"))), fails(plan.FailClosed)),
		makePlan("b/key", keyed(key)),
	)
	d := f.decide(t, named("b/key", "a/override", "a/key"))
	g.Expect(d).To(And(HaveField("Reason", limiter.ReasonExpressionsOverBudget), HaveField("Policy", "a/override")))
	g.Expect(f.evaluated()).To(Equal([]string{"b/key", "a/key"}), "the order of the check")
	g.Expect(testutil.GatherAndCompare(f.registry, strings.NewReader(`
		# HELP weir_degraded_decisions_total Decisions made by failureMode because Redis did not answer in time, or because too many policies match or their expressions take too long.
		# TYPE weir_degraded_decisions_total counter
		weir_degraded_decisions_total{cause="expressions",mode="Closed",namespace="a",policy="override"} 1
		`), "weir_degraded_decisions_total")).To(Succeed())
	g.Expect(f.decide(t, named("a/override")).Allowed).To(BeTrue())
}

// Whatever a client sends, the policies of others are decided as if there were no expressions.
func TestLongValuesChangeNoShare(t *testing.T) {
	g := NewWithT(t)
	when := costly(g, 0.26)
	f := newFixture(append(manyPlans("a", 3, onHostWhen(when)), makePlan("b/x", onHost, threshold(1)))...)
	long := forHost(func(c *limiter.Check) { c.Attributes.Path = strings.Repeat("/x", 4000) })
	g.Expect(f.decide(t, long).Degraded).To(BeEmpty())
	g.Expect(f.decide(t, long)).To(And(HaveField("Reason", limiter.ReasonLimitExceeded), HaveField("Policy", "b/x")))
}

// Expressions that read descriptors are evaluated for each of 64, whose entries are few.
func TestSharesSufficeForManyDescriptors(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", keyed(expression(`descriptor["user"]`)), matching(
		plan.Match{Domain: "edge", Descriptors: []plan.EntryMatch{{Key: "user"}}, When: `descriptor["user"] != "none"`},
	)))
	var texts []string
	for range limiter.MaxDescriptors {
		texts = append(texts, "user=alice,plan=gold")
	}
	d := f.decide(t, described(texts...))
	g.Expect(d.Degraded).To(BeEmpty())
	g.Expect(d.Limits).To(HaveLen(1))
}
