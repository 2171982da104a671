// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

func (f *fixture) explain(tb testing.TB, check *limiter.Check) *limiter.Explanation {
	tb.Helper()
	x, err := f.Explain(tb.Context(), check)
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	return x
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
		"targets":     {plan.Match{Targets: []plan.Target{"Gateway/a/x"}}, limiter.NearMiss{Field: "targets", Wants: []string{"Gateway/a/x"}, Got: []string{"HTTPRoute/a/y"}}},
		"expression":  {plan.Match{When: `request.method == "PUT"`}, limiter.NearMiss{Field: "when", Wants: []string{`request.method == "PUT"`}, Got: []string{"false"}}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.Policy, tc.want.Reason, tc.want.Match = "a/x", limiter.NearMismatch, 1
			far := plan.Match{Hosts: []string{"far.example"}, Paths: []string{"/far"}}
			x := newFixture(makePlan("a/x", matching(far, tc.match))).explain(t, &limiter.Check{Cost: 1, Attributes: plan.Attributes{
				Targets: []plan.Target{"HTTPRoute/a/y"}, Host: "Shop.Example:443", Method: "post", Path: "//logn?x=1", Descriptors: descriptors("kind=logn user=7"),
			}})
			NewWithT(t).Expect(x.NearMisses).To(Equal([]limiter.NearMiss{tc.want}))
		})
	}
}

// The host is the field that most policies differ in, so it comes last.
func TestNearMissesAreSortedByLikelihood(t *testing.T) {
	g, f := NewWithT(t), newFixture()
	to := func(m plan.Match) func(*plan.Plan) { return matching(m) }
	f.Use(index.NewSnapshot(1, []*plan.Plan{
		makePlan("a/applies", to(plan.Match{Paths: []string{"/a"}})),
		makePlan("a/far", to(plan.Match{Paths: []string{"/b"}, Methods: []string{"PUT"}})),
		makePlan("a/host", to(plan.Match{Hosts: []string{"h"}})),
		makePlan("a/named"),
		makePlan("a/off", to(plan.Match{Paths: []string{"/a"}}), mode(plan.ModeDisabled)),
		makePlan("a/off-and-far", to(plan.Match{Paths: []string{"/b"}}), mode(plan.ModeDisabled)),
		makePlan("a/off-and-named", mode(plan.ModeDisabled)),
		makePlan("a/off-by-expression", to(plan.Match{When: "false"}), mode(plan.ModeDisabled)),
		makePlan("a/path", matching(plan.Match{Hosts: []string{"h"}}, plan.Match{Paths: []string{"/b"}})),
	}).WithSkipped([]index.Skipped{{ID: "a/bad", Problem: "garbage"}, {ID: "a/later", Problem: "version 9", LastGood: true}}))
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
	g.Expect([]any{p.Blocked, p.BlockedBy, p.BlockLeft, p.Reason}).To(Equal([]any{true, "burst", time.Minute, limiter.ReasonBlocked}))
	check.Key = []string{"given"}
	p = f.explain(t, check).Policies[0]
	g.Expect(p.Key).To(Equal([]limiter.ExplainedKeyPart{{Value: "given"}}))
	g.Expect(p.Allowed).To(BeTrue())
}

func TestExplanationOfADisabledPolicy(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/off", mode(plan.ModeDisabled)), makePlan("a/x"))
	policies := f.explain(t, named("a/off", "a/x")).Policies
	g.Expect(policies).To(HaveLen(2))
	g.Expect(policies[0]).To(Equal(limiter.ExplainedPolicy{
		Policy: "a/off", Mode: plan.ModeDisabled, Match: limiter.Named, Descriptor: -1,
		Key: []limiter.ExplainedKeyPart{}, Allowed: true, Reason: limiter.ReasonDisabled,
	}))
	g.Expect([]any{policies[1].Policy, policies[1].Reason}).To(Equal([]any{"a/x", limiter.ReasonAllowed}))
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

func TestExplanationsOfChainsWithoutRedis(t *testing.T) {
	f := newFixture(makePlan("a/open"), makePlan("a/five", localMode, threshold(5)), makePlan("a/three", localMode), makePlan("a/closed", fails(plan.FailClosed)))
	f.store.err = errors.New("away")
	quotas := func(ids ...string) (all []int64) {
		for _, p := range f.explain(t, named(ids...)).Policies {
			for _, l := range p.Limits {
				all = append(all, l.Quota)
			}
		}
		return all
	}
	NewWithT(t).Expect(quotas("a/open", "a/five", "a/three")).To(Equal([]int64{5, 3}))
	NewWithT(t).Expect(quotas("a/five", "a/closed")).To(BeEmpty(), "a/closed denies without limits")
}

// Descriptors that give a policy the same key, with the same outcome, are explained once.
func TestExplanationsOfDescriptors(t *testing.T) {
	matched := matching(matchingDescriptor("user"))
	plans := overridden(allow(when(`descriptor["plan"] == "gold"`)), deny(when(`descriptor["plan"] == "ended"`)))
	f := newFixture(makePlan("a/x", keyed(user), matched, plans), makePlan("a/y", keyed(user), matched, plans))
	check := described("user=m", "user=n", "user=m b=1", "user=m plan=gold", "user=n plan=gold", "user=n plan=gold b=1", "user=m plan=ended")
	var explained []string
	for _, p := range f.explain(t, check).Policies {
		explained = append(explained, fmt.Sprint(p.Policy, " ", p.Key[0].Value, " ", p.Reason))
	}
	NewWithT(t).Expect(explained).To(ConsistOf(
		"a/x m Allowed", "a/x n Allowed", "a/x m Exempt", "a/x n Exempt", "a/x m DeniedByOverride",
		"a/y m Allowed", "a/y n Allowed", "a/y m Exempt", "a/y n Exempt", "a/y m DeniedByOverride"))
}

func TestExplanationsRunOneAtATime(t *testing.T) {
	g, f := NewWithT(t), newFixture(makePlan("a/x"))
	inside, release := make(chan struct{}), make(chan struct{})
	f.store.during(func() { inside <- struct{}{}; <-release })
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
	f.store.around = nil
	f.explain(t, named("a/x"))
}

func TestExplanationsReturnTheErrorsOfDecisions(t *testing.T) {
	g, f := NewWithT(t), newFixture()
	_, err := f.Explain(t.Context(), named("a/x"))
	g.Expect(err).To(MatchError(limiter.ErrNotReady))
	f.Use(index.NewSnapshot(1, nil))
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
			snapshot := index.NewSnapshot(1, plans)
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
