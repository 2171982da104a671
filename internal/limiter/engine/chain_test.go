// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// onHost lets a policy match every request for shop.example.
var onHost = matching(plan.Match{Hosts: []string{"shop.example"}})

// onHostWhen lets a policy match the requests for shop.example for which the expression holds or fails.
func onHostWhen(when string) func(*plan.Plan) {
	return matching(plan.Match{Hosts: []string{"shop.example"}, When: when})
}

func withLimits(n int) func(*plan.Plan) {
	return func(p *plan.Plan) {
		for i := 1; i < n; i++ {
			l := p.Limits[0]
			l.Name = fmt.Sprintf("limit-%d", i)
			p.Limits = append(p.Limits, l)
		}
	}
}

// manyPlans returns n plans of a Namespace that match every request for shop.example.
func manyPlans(namespace string, n int, edits ...func(*plan.Plan)) []*plan.Plan {
	plans := make([]*plan.Plan, n)
	for i := range plans {
		plans[i] = makePlan(fmt.Sprintf("%s/p%03d", namespace, i), append([]func(*plan.Plan){onHost, threshold(1000)}, edits...)...)
	}
	return plans
}

func forHost(edits ...func(*limiter.Check)) *limiter.Check {
	check := &limiter.Check{Cost: 1, Attributes: plan.Attributes{Host: "shop.example", Headers: map[string]string{}}}
	for _, edit := range edits {
		edit(check)
	}
	return check
}

// evaluated returns the policies of the last call to the store.
func (f *fixture) evaluated() []string {
	ids := make([]string, len(f.store.last.Entries))
	for i := range ids {
		ids[i] = f.store.last.Entries[i].Policy.ID()
	}
	return ids
}

func TestATenantsPoliciesPushOutNoOther(t *testing.T) {
	g := NewWithT(t)
	tenant := manyPlans("a-tenant", 480, withLimits(16))
	platform := makePlan("platform/all", onHost, threshold(5), fails(plan.FailOpen))
	f := newFixture(append(tenant, platform)...)
	allowed := 0
	for range 12 {
		if f.decide(t, forHost()).Allowed {
			allowed++
		}
	}
	g.Expect(allowed).To(Equal(5))
	g.Expect(f.evaluated()).To(Equal([]string{"a-tenant/p000", "a-tenant/p001", "a-tenant/p002", "a-tenant/p003", "platform/all"}))
	g.Expect(testutil.GatherAndCount(f.registry, "weir_degraded_decisions_total")).To(Equal(476))
	g.Expect(testutil.GatherAndCompare(f.registry, strings.NewReader(""), "weir_expression_errors_total")).To(Succeed())
}

func TestChainBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		plans     []*plan.Plan
		policies  int
		limits    int
		unchecked int
	}{
		"policies of a Namespace that fit": {manyPlans("a", 16, withLimits(4)), 16, 64, 0},
		"too many policies":                {manyPlans("a", 17), 16, 16, 1},
		"too many limits":                  {manyPlans("a", 5, withLimits(16)), 4, 64, 1},
		"a smaller policy fits after a larger one": {
			append(manyPlans("a", 4, withLimits(15)), makePlan("a/x", onHost, withLimits(16)), makePlan("a/y", onHost, withLimits(4))), 5, 64, 1,
		},
		"all Namespaces": {allOf(9, 16, 4), 128, 512, 16},
		"limits of all Namespaces": {
			allOf(12, 4, 16), 32, 512, 16,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(tc.plans...)
			d := f.decide(t, forHost())
			g.Expect(f.store.last.Entries).To(HaveLen(tc.policies))
			g.Expect(d.Limits).To(HaveLen(tc.limits))
			g.Expect(f.evaluated()).To(HaveEach(Not(BeEmpty())))
			g.Expect(isSorted(f.evaluated())).To(BeTrue(), "the chain is in the order of IDs")
			g.Expect(testutil.GatherAndCount(f.registry, "weir_degraded_decisions_total")).To(Equal(tc.unchecked))
			g.Expect(d.Allowed).To(BeTrue())
			if tc.unchecked > 0 {
				g.Expect(d.Degraded).To(Equal(plan.FailOpen))
			} else {
				g.Expect(d.Degraded).To(BeEmpty())
			}
		})
	}
}

func isSorted(ids []string) bool {
	for i := 1; i < len(ids); i++ {
		if ids[i-1] > ids[i] {
			return false
		}
	}
	return true
}

// allOf returns the policies of several Namespaces.
func allOf(namespaces, policies, limitsEach int) (plans []*plan.Plan) {
	for i := range namespaces {
		plans = append(plans, manyPlans(fmt.Sprintf("ns%02d", i), policies, withLimits(limitsEach))...)
	}
	return plans
}

// Without turns, the ninth Namespace would get nothing, or take all that is left.
func TestNamespacesTakeTurns(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(allOf(9, 16, 4)...)
	f.decide(t, forHost())
	count := map[string]int{}
	for _, id := range f.evaluated() {
		count[strings.SplitN(id, "/", 2)[0]]++
	}
	g.Expect(count).To(HaveLen(9))
	g.Expect(count).To(HaveEach(BeNumerically(">=", 14)))
}

func TestOrderWithinANamespace(t *testing.T) {
	g := NewWithT(t)
	plans := append(manyPlans("a", 14),
		makePlan("a/a-fails", onHostWhen(`int(request.headers["n"]) > 1`), mode(plan.ModeShadow)),
		makePlan("a/a-shadow", onHost, mode(plan.ModeShadow)),
		makePlan("a/z-enforces", onHost),
		makePlan("a/z-shadow", onHost, mode(plan.ModeShadow)),
	)
	f := newFixture(plans...)
	d := f.decide(t, forHost())
	g.Expect(f.evaluated()).To(HaveLen(16))
	g.Expect(f.evaluated()).To(ContainElements("a/a-shadow", "a/z-enforces"))
	g.Expect(f.evaluated()).NotTo(ContainElements("a/a-fails", "a/z-shadow"))
	g.Expect(d.Degraded).To(BeEmpty(), "policies in mode Shadow cannot have denied")
	g.Expect(testutil.GatherAndCount(f.registry, "weir_degraded_decisions_total")).To(Equal(2))
}

func TestFailureModeOfPoliciesThatDoNotFit(t *testing.T) {
	for name, tc := range map[string]struct {
		mode    plan.FailureMode
		shadow  bool
		allowed bool
		counted string
	}{
		"Open admits":            {mode: plan.FailOpen, allowed: true, counted: "Open"},
		"Local admits":           {mode: plan.FailLocal, allowed: true, counted: "Open"},
		"Closed denies":          {mode: plan.FailClosed, counted: "Closed"},
		"Shadow does not matter": {mode: plan.FailClosed, shadow: true, allowed: true, counted: "Closed"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			last := makePlan("a/z", onHost, fails(tc.mode))
			if tc.shadow {
				last.Mode = plan.ModeShadow
			}
			f := newFixture(append(manyPlans("a", 16), last)...)
			d := f.decide(t, forHost())
			g.Expect(d.Allowed).To(Equal(tc.allowed))
			if !tc.allowed {
				g.Expect(d.Reason).To(Equal(limiter.ReasonStoreUnavailable))
				g.Expect(d.Policy).To(Equal("a/z"))
				g.Expect(f.store.last.Denied).To(BeTrue(), "the others spend nothing")
			}
			g.Expect(testutil.GatherAndCompare(f.registry, strings.NewReader(`
				# HELP weir_degraded_decisions_total Decisions made by failureMode because Redis did not answer in time, or because too many policies match or their expressions take too long.
				# TYPE weir_degraded_decisions_total counter
				weir_degraded_decisions_total{cause="chain",mode="`+tc.counted+`",namespace="a",policy="z"} 1
				`), "weir_degraded_decisions_total")).To(Succeed())
		})
	}
}

func TestADenialIsNotMarkedForPoliciesThatDoNotFit(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(append(manyPlans("a", 16), makePlan("a/a", onHost, threshold(1)), makePlan("b/z", onHost))...)
	f.decide(t, forHost())
	d := f.decide(t, forHost())
	g.Expect(d.Reason).To(Equal(limiter.ReasonLimitExceeded))
	g.Expect(d.Degraded).To(BeEmpty())
}

// A client can make every expression fail, by one long header.
func TestFailedExpressionsPushNothingOut(t *testing.T) {
	g := NewWithT(t)
	var plans []*plan.Plan
	for i := range 40 {
		plans = append(plans, makePlan(fmt.Sprintf("a/tier-%02d", i), threshold(1000),
			onHostWhen(fmt.Sprintf(`request.headers["x-tier"] == "%d"`, i))))
	}
	f := newFixture(plans...)
	tier := func(value string) *limiter.Check {
		return forHost(func(c *limiter.Check) { c.Attributes.Headers["x-tier"] = value })
	}
	g.Expect(f.decide(t, tier("39")).Limits).To(HaveLen(1))
	d := f.decide(t, tier(strings.Repeat("x", 9000)))
	g.Expect(d.Allowed).To(BeFalse())
	g.Expect(d.Reason).To(Equal(limiter.ReasonMissingKey))
	g.Expect(d.Policy).To(Equal("a/tier-16"))
	g.Expect(f.store.last.Denied).To(BeTrue())
}

// The client that makes expressions fail must not take the room of the policies that certainly match.
func TestCertainMatchesComeFirst(t *testing.T) {
	g := NewWithT(t)
	plans := manyPlans("z", 0)
	for i := range 20 {
		plans = append(plans, makePlan(fmt.Sprintf("a/a-%02d", i), onHostWhen(`request.headers["h"] == "x"`), mode(plan.ModeShadow)))
	}
	plans = append(plans, makePlan("a/login", onHost, threshold(1)))
	f := newFixture(plans...)
	long := forHost(func(c *limiter.Check) { c.Attributes.Headers["h"] = strings.Repeat("x", 9000) })
	g.Expect(f.decide(t, long).Allowed).To(BeTrue())
	g.Expect(f.decide(t, long)).To(HaveField("Reason", limiter.ReasonLimitExceeded))
}

// A match that certainly holds counts, in whatever order the matches of the policy are.
func TestAPolicyWithACertainMatchIsCertain(t *testing.T) {
	g := NewWithT(t)
	when := plan.Match{Hosts: []string{"shop.example"}, When: `int(request.path) == 1`}
	certain := plan.Match{Hosts: []string{"shop.example"}}
	f := newFixture(append(manyPlans("b", 17), makePlan("b/a", matching(when, certain), threshold(0)))...)
	d := f.decide(t, forHost())
	g.Expect(d.Policy).To(Equal("b/a"))
	g.Expect(d.Reason).To(Equal(limiter.ReasonCostExceedsThreshold))
}

func TestDescriptorsAreBounded(t *testing.T) {
	g := NewWithT(t)
	p := makePlan("a/x", withLimits(16), keyed(plan.KeyPart{Type: plan.KeyDescriptor, Descriptor: "user"}), matching(matchingDescriptor("user")))
	f := newFixture(p)
	var texts []string
	for i := range limiter.MaxDescriptors {
		texts = append(texts, fmt.Sprintf("user=%d", i))
	}
	check := described(texts...)
	d := f.decide(t, check)
	g.Expect(f.store.last.Entries).To(HaveLen(4))
	g.Expect(d.Limits).To(HaveLen(64))
	for i := range texts { // one key counts once
		texts[i] = "user=1"
	}
	d = f.decide(t, described(texts...))
	g.Expect(d.Limits).To(HaveLen(16))
	g.Expect(d.Degraded).To(BeEmpty())
}

func TestNamedChainsKeepTheirBounds(t *testing.T) {
	g := NewWithT(t)
	plans := manyPlans("a", 16, withLimits(16))
	f := newFixture(plans...)
	var ids []string
	for _, p := range plans {
		ids = append(ids, p.ID())
	}
	d := f.decide(t, named(ids...))
	g.Expect(d.Limits).To(HaveLen(256))
	g.Expect(d.Degraded).To(BeEmpty())
}

func TestExplanationNamesPoliciesThatDoNotFit(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(append(manyPlans("a", 17), makePlan("b/x", onHost, fails(plan.FailClosed)))...)
	x, err := f.Explain(t.Context(), forHost())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(x.Policies).To(HaveLen(18))
	g.Expect(x.Policies[16]).To(And(
		HaveField("Policy", "a/p016"), HaveField("Reason", limiter.ReasonTooManyPolicies), HaveField("Allowed", true), HaveField("Limits", BeEmpty())))
	g.Expect(x.Policies[17]).To(And(HaveField("Policy", "b/x"), HaveField("Reason", limiter.ReasonAllowed), HaveField("Limits", HaveLen(1))))
}

// A script error of one Namespace, such as a key that holds another type, does not concern the others.
func TestScriptErrorsConcernOneNamespace(t *testing.T) {
	failure := &store.Error{Cause: store.CauseScript, Err: context.DeadlineExceeded, Unwritten: true}
	for name, tc := range map[string]struct {
		mode    plan.FailureMode
		allowed bool
	}{
		"Open":   {plan.FailOpen, true},
		"Closed": {plan.FailClosed, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/bad", onHost, fails(tc.mode)), makePlan("b/x", onHost, threshold(1)), makePlan("c/x", onHost))
			f.store.failWith("a/bad", failure)
			d := f.decide(t, forHost())
			g.Expect(d.Allowed).To(Equal(tc.allowed))
			g.Expect(d.Reason).To(Equal(limiter.ReasonStoreUnavailable))
			g.Expect(d.Degraded).To(Equal(tc.mode))
			g.Expect(d.Limits).To(HaveExactElements(HaveField("Policy", "b/x"), HaveField("Policy", "c/x")))
			if tc.allowed {
				d = f.decide(t, forHost())
				g.Expect(d.Policy).To(Equal("b/x"), "it has spent, and denies the second check")
				g.Expect(d.Reason).To(Equal(limiter.ReasonLimitExceeded))
			}
			g.Expect(testutil.GatherAndCount(f.registry, "weir_degraded_decisions_total")).To(Equal(1))
		})
	}
}

func TestCallsThatMayHaveWrittenAreNotRepeated(t *testing.T) {
	for name, failure := range map[string]*store.Error{
		"timeout":      {Cause: store.CauseTimeout, Err: context.DeadlineExceeded},
		"script error": {Cause: store.CauseScript, Err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/bad", onHost), makePlan("b/x", onHost))
			calls := f.store.failWith("a/bad", failure)
			d := f.decide(t, forHost())
			g.Expect(d.Reason).To(Equal(limiter.ReasonStoreUnavailable))
			g.Expect(d.Limits).To(BeEmpty())
			g.Expect(*calls).To(Equal(1))
		})
	}
}
