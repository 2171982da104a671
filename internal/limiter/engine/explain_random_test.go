// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/testenv/seeds"
)

// draw generates policies and requests from a few values, so most policies match or nearly do.
type draw struct{ *rand.Rand }

func one[T any](d draw, from ...T) T { return from[d.IntN(len(from))] }

// some returns up to two of the values, in half of the cases none.
func (d draw) some(from ...string) []string {
	var values []string
	for range d.IntN(4) - 1 {
		if value := one(d, from...); !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

func (d draw) match() plan.Match {
	m := plan.Match{
		Hosts: d.some("a.example", "*.example", "b.example"), Methods: d.some("GET", "POST"),
		Paths: d.some("/a", "/a*", "/b/*"), Domain: one(d, "", "", "edge"),
		When: one(d, "", "", "", "true", "false", `request.path == "/a"`, `request.method != "GET"`, `descriptor["user"] == "x"`, failingCondition),
	}
	for _, t := range d.some("Gateway/a/g", "HTTPRoute/a/r", "HTTPRoute/a/r/s") {
		if d.IntN(3) == 0 {
			m.Targets = append(m.Targets, plan.Target(t))
		}
	}
	if d.IntN(3) == 0 {
		m.Descriptors = matchingDescriptor(one(d, "user", "user=x", "kind=1 user=y")).Descriptors
	}
	return m
}

func (d draw) policy(i int) *plan.Plan {
	p := makePlan(fmt.Sprintf("a/p%02d", i), threshold(one[int64](d, 1, 2, 9)),
		mode(one(d, plan.ModeEnforce, plan.ModeEnforce, plan.ModeShadow, plan.ModeDisabled)),
		missing(one(d, plan.MissingKeyShare, plan.MissingKeySkip, plan.MissingKeyDeny)))
	p.Limits[0].BlockMillis = one[int64](d, 0, 60_000)
	p.Key = [][]plan.KeyPart{nil, {user}, {apiKey}, {apiKey, user}}[d.IntN(4)]
	for range d.IntN(4) {
		if m := d.match(); m.Domain != "" || len(m.Hosts)+len(m.Paths) > 0 {
			p.Matches = append(p.Matches, m)
		}
	}
	if d.IntN(3) == 0 {
		overridden(one(d, allow, deny)(when(`descriptor["user"] == "y"`)))(p)
	}
	return p
}

func (d draw) check() *limiter.Check {
	a := plan.Attributes{
		Host: one(d, "a.example", "b.example", "c.example", "other"), Method: one(d, "GET", "POST", "PUT"),
		Path: one(d, "/a", "/ab", "/b/c", "/d"), Domain: one(d, "", "edge"), Headers: map[string]string{},
	}
	for _, t := range d.some("Gateway/a/g", "HTTPRoute/a/r/s") {
		a.Targets = append(a.Targets, plan.Target(t))
	}
	for range d.IntN(3) {
		a.Descriptors = append(a.Descriptors, descriptors(one(d, "user=x", "user=y", "kind=1 user=y", "kind=2"))...)
	}
	if d.IntN(2) == 0 {
		a.Headers["x-api-key"] = one(d, "k", "l")
	}
	check := &limiter.Check{Attributes: a, Cost: one[int64](d, 1, 1, 1, 3)}
	if d.IntN(4) == 0 {
		check.Key = []string{"given"}
	}
	return check
}

// repair changes the request, or the policy, as the near miss reports.
func repair(p *plan.Plan, check *limiter.Check, miss limiter.NearMiss) {
	switch miss.Reason {
	case limiter.NearDisabled:
		p.Mode = plan.ModeEnforce
	case limiter.NearByName:
		check.Policies = []string{p.ID()}
	case limiter.NearMismatch:
		repairField(p, &check.Attributes, miss)
	case limiter.NearNotLoaded: // not generated
	}
}

func repairField(p *plan.Plan, a *plan.Attributes, miss limiter.NearMiss) {
	switch want := miss.Wants[0]; miss.Field {
	case plan.FieldTargets:
		a.Targets = append(slices.Clone(a.Targets), plan.Target(want))
	case plan.FieldHosts:
		a.Host = strings.Replace(want, "*", "any", 1)
	case plan.FieldMethods:
		a.Method = want
	case plan.FieldPaths:
		a.Path = strings.TrimSuffix(want, "*")
	case plan.FieldDomain:
		a.Domain = want
	case plan.FieldDescriptors:
		a.Descriptors = append(slices.Clone(a.Descriptors), descriptors(strings.ReplaceAll(want, ", ", " "))...)
	case plan.FieldWhen:
		p.Matches = slices.Clone(p.Matches)
		p.Matches[miss.Match].When = ""
	case plan.FieldHeaders, plan.FieldQueryParameters: // not generated
	case plan.NoField: // never reported
	}
}

func appliedPolicies(x *limiter.Explanation) (ids []string) {
	for i := range x.Policies {
		ids = append(ids, x.Policies[i].Policy)
	}
	return slices.Compact(ids)
}

// An explanation agrees with the decision, and repairing what a near miss reports makes the policy
// apply.
func TestExplanationsAgreeWithDecisions(t *testing.T) {
	near := map[string]int{}
	for seed := range uint64(400) {
		g, d := NewWithT(t), draw{rand.New(rand.NewPCG(seed, 1))}
		plans := make([]*plan.Plan, 1+d.IntN(8))
		for i := range plans {
			plans[i] = d.policy(i)
			g.Expect(plans[i].Validate()).To(Succeed())
		}
		f := newFixture(plans...)
		for range d.IntN(5) {
			f.decide(t, d.check())
		}
		check := d.check()
		x := f.explain(t, check)
		explained := f.evaluatedKeys()
		peek := *check
		decision := f.decide(t, &peek)
		g.Expect(x.Decision).To(Equal(*decision), "seed %d", seed)
		if len(decision.Limits) > 0 {
			g.Expect(explained).To(Equal(f.evaluatedKeys()))
		}
		expectSamePolicies(g, f, x, decision)
		for _, miss := range x.NearMisses {
			near[string(miss.Reason)+" "+string(miss.Field)]++
			g.Expect(appliedPolicies(x)).NotTo(ContainElement(miss.Policy))
			i := slices.IndexFunc(plans, func(p *plan.Plan) bool { return p.ID() == miss.Policy })
			p, repaired := *plans[i], *check
			repair(&p, &repaired, miss)
			g.Expect(appliedPolicies(newFixture(&p).explain(t, &repaired))).To(Equal([]string{miss.Policy}), "seed %d: %+v", seed, miss)
		}
	}
	NewWithT(t).Expect(near).To(HaveLen(9), "each kind of near miss occurs: %v", near)
}

// expectSamePolicies expects the limits, keys and reasons of the decision in the policies.
func expectSamePolicies(g *WithT, f *fixture, x *limiter.Explanation, decision *limiter.Decision) {
	var limits []limiter.LimitState
	var keys []string
	for i := range x.Policies {
		p := &x.Policies[i]
		limits = append(limits, p.Limits...)
		if len(p.Limits) > 0 {
			var parts []string
			for _, part := range p.Key {
				parts = append(parts, part.Value)
			}
			keys = append(keys, string(store.EncodeKey(parts...)))
		}
	}
	g.Expect(limits).To(Equal(decision.Limits))
	if keys != nil {
		g.Expect(keys).To(Equal(f.evaluatedKeys()))
	}
	first := slices.IndexFunc(x.Policies, func(p limiter.ExplainedPolicy) bool { return !p.Allowed && p.Mode == plan.ModeEnforce })
	denies := first >= 0
	g.Expect(denies).NotTo(Equal(decision.Allowed), "a policy denies just if the decision does")
	if denies {
		g.Expect(x.Policies).To(ContainElement(SatisfyAll(
			HaveField("Policy", decision.Policy), HaveField("Reason", decision.Reason), HaveField("Limit", decision.Limit))))
	}
}

// A match without expression is reported just if it would hold without one of its fields.
func TestEveryNearMatchIsReported(t *testing.T) {
	for seed := range seeds.InMemory(300) {
		g, d := NewWithT(t), draw{rand.New(rand.NewPCG(seed, 2))}
		m := d.match()
		m.Domain, m.When = "edge", ""
		check := d.check()
		applies := func(m plan.Match) bool {
			return len(newFixture(makePlan("a/x", matching(m))).explain(t, check).Policies) > 0
		}
		wrong := 0
		for _, drop := range []func(*plan.Match){
			func(m *plan.Match) { m.Hosts = nil }, func(m *plan.Match) { m.Methods = nil }, func(m *plan.Match) { m.Paths = nil },
			func(m *plan.Match) { m.Domain = "" }, func(m *plan.Match) { m.Descriptors = nil }, func(m *plan.Match) { m.Targets = nil },
		} {
			other := m
			drop(&other)
			if !applies(m) && applies(other) {
				wrong++
			}
		}
		g.Expect(newFixture(makePlan("a/x", matching(m))).explain(t, check).NearMisses).To(HaveLen(wrong), "seed %d: %+v", seed, m)
	}
}
