// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

func (f *fixture) explain(tb testing.TB, check *limiter.Check) *limiter.Explanation {
	tb.Helper()
	x, err := f.Explain(tb.Context(), check)
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	return x
}

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
	if d.IntN(3) == 0 {
		m.Descriptors = descriptors(one(d, "user", "user=x", "kind=1 user=y"))[0]
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
	NewWithT(t).Expect(near).To(HaveLen(8), "each kind of near miss occurs: %v", near)
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
			keys = append(keys, string(script.EncodeKey(parts...)))
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
	for seed := range uint64(300) {
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
			func(m *plan.Match) { m.Domain = "" }, func(m *plan.Match) { m.Descriptors = nil },
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

func TestExplanationShowsWhatWasAsked(t *testing.T) {
	for name, tc := range map[string]struct {
		match plan.Match
		want  limiter.NearMiss
	}{
		"host":        {plan.Match{Hosts: []string{"*.shop.example"}}, limiter.NearMiss{Field: "hosts", Wants: []string{"*.shop.example"}, Got: []string{"shop.example"}}},
		"path":        {plan.Match{Paths: []string{"/login", "/in"}}, limiter.NearMiss{Field: "paths", Wants: []string{"/login", "/in"}, Got: []string{"/logn"}}},
		"method":      {plan.Match{Methods: []string{"GET"}}, limiter.NearMiss{Field: "methods", Wants: []string{"GET"}, Got: []string{"POST"}}},
		"domain":      {plan.Match{Domain: "edge"}, limiter.NearMiss{Field: "domain", Wants: []string{"edge"}}},
		"descriptors": {matchingDescriptor("kind=login user"), limiter.NearMiss{Field: "descriptors", Wants: []string{"kind=login, user"}, Got: []string{"kind=logn, user=7"}}},
		"expression":  {plan.Match{When: `request.method == "PUT"`}, limiter.NearMiss{Field: "when", Wants: []string{`request.method == "PUT"`}, Got: []string{"false"}}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.Policy, tc.want.Reason, tc.want.Match = "a/x", limiter.NearMismatch, 1
			far := plan.Match{Hosts: []string{"far.example"}, Paths: []string{"/far"}}
			x := newFixture(makePlan("a/x", matching(far, tc.match))).explain(t, &limiter.Check{Cost: 1, Attributes: plan.Attributes{
				Host: "Shop.Example:443", Method: "post", Path: "//logn?x=1", Descriptors: descriptors("kind=logn user=7"),
			}})
			NewWithT(t).Expect(x.NearMisses).To(Equal([]limiter.NearMiss{tc.want}))
		})
	}
}

// The host is the field that most policies differ in, so it comes last.
func TestNearMissesAreSortedByLikelihood(t *testing.T) {
	g, f := NewWithT(t), newFixture()
	to := func(m plan.Match) func(*plan.Plan) { return matching(m) }
	f.Use(plan.NewSnapshot(1, []*plan.Plan{
		makePlan("a/applies", to(plan.Match{Paths: []string{"/a"}})),
		makePlan("a/far", to(plan.Match{Paths: []string{"/b"}, Methods: []string{"PUT"}})),
		makePlan("a/host", to(plan.Match{Hosts: []string{"h"}})),
		makePlan("a/named"),
		makePlan("a/off", to(plan.Match{Paths: []string{"/a"}}), mode(plan.ModeDisabled)),
		makePlan("a/off-and-far", to(plan.Match{Paths: []string{"/b"}}), mode(plan.ModeDisabled)),
		makePlan("a/off-and-named", mode(plan.ModeDisabled)),
		makePlan("a/off-by-expression", to(plan.Match{When: "false"}), mode(plan.ModeDisabled)),
		makePlan("a/path", matching(plan.Match{Hosts: []string{"h"}}, plan.Match{Paths: []string{"/b"}})),
	}).WithSkipped([]plan.Skipped{{ID: "a/bad", Problem: "garbage"}, {ID: "a/later", Problem: "version 9", LastGood: true}}))
	x := f.explain(t, &limiter.Check{Cost: 1, Attributes: plan.Attributes{Path: "/a", Method: "GET"}})
	g.Expect(appliedPolicies(x)).To(Equal([]string{"a/applies"}))
	var order []string
	for _, miss := range x.NearMisses {
		order = append(order, miss.Policy+" "+string(miss.Reason)+" "+string(miss.Field)+miss.Detail)
	}
	g.Expect(order).To(Equal([]string{
		"a/off Disabled ", "a/path Mismatch paths", "a/bad NotLoaded garbage",
		"a/later NotLoaded version 9; its last readable version is in force", "a/host Mismatch hosts", "a/named ByNameOnly ",
	}))
}

// Expressions are evaluated for the policies most likely to be meant. The others come last.
func TestExplanationsEvaluateFewExpressions(t *testing.T) {
	g := NewWithT(t)
	var plans []*plan.Plan
	for i := range 300 {
		plans = append(plans, makePlan(fmt.Sprintf("a/host-%03d", i), matching(plan.Match{Hosts: []string{"h"}, When: "false"})))
	}
	plans = append(plans, makePlan("a/other", matching(plan.Match{Hosts: []string{"h"}})),
		makePlan("a/path", matching(plan.Match{Paths: []string{"/b"}, When: "true"})))
	x := newFixture(plans...).explain(t, &limiter.Check{Cost: 1, Attributes: plan.Attributes{Path: "/a"}})
	g.Expect(x.NearMisses).To(HaveLen(2 + 300 - 199))
	g.Expect(x.NearMisses[0]).To(And(HaveField("Policy", "a/path"), HaveField("Unverified", false)))
	g.Expect(x.NearMisses[1]).To(And(HaveField("Policy", "a/other"), HaveField("Unverified", false)))
	g.Expect(x.NearMisses[2:]).To(HaveEach(HaveField("Unverified", true)))
}

func TestExplanationOfKeys(t *testing.T) {
	g := NewWithT(t)
	address := plan.KeyPart{Type: plan.KeyRemoteAddress, IPv4PrefixLength: 32, IPv6PrefixLength: 64}
	f := newFixture(makePlan("a/x", keyed(apiKey, user, address), func(p *plan.Plan) { p.Limits[0].BlockMillis = 60_000 }))
	check := &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Attributes: plan.Attributes{
		Headers: map[string]string{"x-api-key": "k"}, Descriptors: descriptors("user=7"),
	}}
	for range 4 {
		f.decide(t, check)
	}
	x := f.explain(t, check)
	g.Expect(x.NearMisses).To(BeEmpty(), "the check names its policies")
	p := x.Policies[0]
	g.Expect(p.Key).To(Equal([]limiter.ExplainedKeyPart{
		{Type: plan.KeyHeader, Name: "x-api-key", Value: "k"}, {Type: plan.KeyDescriptor, Name: "user", Value: "7"}, {Type: plan.KeyRemoteAddress},
	}))
	g.Expect(p.KeyHash).To(Equal(f.KeyHash("k", "7", "")))
	g.Expect(p.Match).To(Equal(limiter.Named))
	g.Expect([]any{p.Blocked, p.BlockedBy, p.BlockLeft, p.Reason}).To(Equal([]any{true, "burst", time.Minute + time.Millisecond, limiter.ReasonBlocked}))
	check.Key = []string{"given"}
	p = f.explain(t, check).Policies[0]
	g.Expect(p.Key).To(Equal([]limiter.ExplainedKeyPart{{Value: "given"}}))
	g.Expect(p.Allowed).To(BeTrue())
}

// An explanation is not a decision: it changes no state and counts in no metric.
func TestExplanationsSpendAndCountNothing(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", threshold(1), matching(plan.Match{When: failingCondition})))
	for _, err := range []error{nil, nil, errors.New("away")} {
		f.store.err = err
		g.Expect(f.explain(t, described()).Decision.Allowed).To(BeTrue())
		g.Expect(f.store.last.Entries[0].Peek).To(BeTrue())
		g.Expect(f.store.last.Uncached).To(BeTrue())
	}
	g.Expect(testutil.GatherAndCount(f.registry, "weir_decisions_total", "weir_expression_errors_total", "weir_degraded_decisions_total")).To(BeZero())
}

func TestExplanationsWithoutRedis(t *testing.T) {
	for failure, want := range map[plan.FailureMode]struct {
		allowed bool
		reason  limiter.Reason
		limits  int
	}{
		plan.FailOpen:   {true, limiter.ReasonStoreUnavailable, 0},
		plan.FailClosed: {false, limiter.ReasonStoreUnavailable, 0},
		plan.FailLocal:  {true, limiter.ReasonAllowed, 1},
	} {
		g, f := NewWithT(t), newFixture(makePlan("a/x", fails(failure)))
		f.store.err = errors.New("away")
		x := f.explain(t, named("a/x"))
		g.Expect(x.Decision.Degraded).To(Equal(failure))
		p := x.Policies[0]
		g.Expect([]any{p.Allowed, p.Reason, len(p.Limits)}).To(Equal([]any{want.allowed, want.reason, want.limits}), string(failure))
	}
}

func TestExplanationsRunOneAtATime(t *testing.T) {
	g, f := NewWithT(t), newFixture(makePlan("a/x"))
	inside, release := make(chan struct{}), make(chan struct{})
	f.store.during = func() { inside <- struct{}{}; <-release }
	done := make(chan error)
	go func() { _, err := f.Explain(t.Context(), named("a/x")); done <- err }()
	<-inside
	_, err := f.Explain(t.Context(), named("a/x"))
	g.Expect(err).To(MatchError(limiter.ErrExplaining))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.Explain(canceled, named("a/x"))
	g.Expect(err).To(MatchError(context.Canceled))
	close(release)
	g.Expect(<-done).To(Succeed())
	f.store.during = nil
	f.explain(t, named("a/x"))
}

func TestExplanationsReturnTheErrorsOfDecisions(t *testing.T) {
	g, f := NewWithT(t), newFixture()
	_, err := f.Explain(t.Context(), named("a/x"))
	g.Expect(err).To(MatchError(limiter.ErrNotReady))
	f.Use(plan.NewSnapshot(1, nil))
	_, err = f.Explain(t.Context(), named("a/x"))
	g.Expect(err).To(BeAssignableToTypeOf(&limiter.UnknownPolicyError{}))
	_, err = f.Explain(t.Context(), &limiter.Check{})
	g.Expect(err).To(BeAssignableToTypeOf(&limiter.FieldError{}))
}

// BenchmarkExplain measures explanations among 10,000 policies: all near misses by their host, and
// by an expression that was not compiled before.
func BenchmarkExplain(b *testing.B) {
	for name, when := range map[string]string{"fields": "", "expressions": `request.headers["x-tier"] != "%d"`} {
		b.Run(name, func(b *testing.B) {
			var plans []*plan.Plan
			for i := range 10_000 {
				m := plan.Match{Hosts: []string{fmt.Sprintf("h%d.example", i)}, Paths: []string{"/login"}, Methods: []string{"POST"}}
				if when != "" {
					m.When = fmt.Sprintf(when, i)
				}
				plans = append(plans, makePlan(fmt.Sprintf("n%d/login", i%100*1000+i/100), keyed(apiKey), matching(m, plan.Match{Hosts: m.Hosts, Paths: []string{"/in"}})))
			}
			snapshot := plan.NewSnapshot(1, plans)
			check := &limiter.Check{Cost: 1, Attributes: plan.Attributes{Host: "h7.example", Path: "/login", Method: "POST"}}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				f := newFixture()
				f.Use(snapshot)
				b.StartTimer()
				if x := f.explain(b, check); len(x.Policies) != 1 || len(x.NearMisses) != 9_999 {
					b.Fatal(len(x.Policies), len(x.NearMisses))
				}
			}
		})
	}
}
