// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// oneHitEach returns the check of descriptors with one hit each.
func oneHitEach(texts ...string) *limiter.Check {
	check := described(texts...)
	for range texts {
		check.Hits = append(check.Hits, limiter.Hits{Cost: 1})
	}
	return check
}

// allowed returns which descriptors of the check are allowed.
func (f *fixture) allowed(t *testing.T, check *limiter.Check) (all []bool) {
	t.Helper()
	for _, s := range f.decide(t, check).Descriptors {
		all = append(all, s.Allowed)
	}
	return all
}

// Denials that need no counter deny each descriptor that they are for, and count once for each policy and
// override.
func TestOutrightDenialsOfDescriptors(t *testing.T) {
	g := NewWithT(t)
	mallory, trudy := deny(when(`descriptor["user"] == "mallory"`)), deny(when(`descriptor["user"] == "trudy"`))
	trudy.Name = "another"
	matched := matching(matchingDescriptor("user"))
	alice := deny(when(`descriptor["user"] == "alice"`))
	f := newFixture(
		makePlan("a/shadow", keyed(user), matched, overridden(alice), mode(plan.ModeShadow)),
		makePlan("a/x", keyed(user), matched, overridden(mallory, trudy)),
		makePlan("a/y", keyed(user), matched, overridden(mallory)))
	g.Expect(f.allowed(t, oneHitEach("user=mallory", "user=alice", "user=mallory b=1", "user=trudy"))).
		To(Equal([]bool{false, true, false, false}))
	g.Expect(exposition(g, f.registry)).To(And(
		ContainSubstring(`weir_decisions_total{limit="",namespace="a",policy="x",verdict="denied"} 2`),
		ContainSubstring(`weir_decisions_total{limit="",namespace="a",policy="y",verdict="denied"} 1`)))
}

func TestDeniedKeyDeniesAllItsDescriptors(t *testing.T) {
	f := byDescriptors()
	check := oneHitEach("user=x", "user=y", "user=x b=1")
	check.Hits[0].Cost = 3
	f.allowed(t, check)
	NewWithT(t).Expect(f.allowed(t, oneHitEach("user=x", "b=1", "user=x b=1"))).To(Equal([]bool{false, true, false}))
}

// A descriptor has the outcome of all its policies that are not in mode Shadow.
func TestOutcomesOfADescriptor(t *testing.T) {
	g := NewWithT(t)
	matched, hour := matching(matchingDescriptor("user")), func(p *plan.Plan) { p.Limits[0].WindowMillis = 3_600_000 }
	f := newFixture(
		makePlan("a/shadow", matched, threshold(1), mode(plan.ModeShadow)),
		makePlan("a/tight", matched, threshold(2)),
		makePlan("a/large", matched, threshold(9), hour))
	var last limiter.DescriptorState
	for _, remaining := range []int64{1, 0, 0} {
		last = f.decide(t, oneHitEach("user=x")).Descriptors[0]
		g.Expect([]any{last.Tightest.Policy, last.Tightest.Remaining}).To(Equal([]any{"a/tight", remaining}))
	}
	g.Expect([]any{last.Allowed, last.RetryAfter}).To(Equal([]any{false, time.Minute}))
}

// Without Redis only the policies with failureMode Closed deny, and only their descriptors.
func TestOutcomesOfDescriptorsWithoutRedis(t *testing.T) {
	f := newFixture(
		makePlan("a/open", matching(matchingDescriptor("user"))),
		makePlan("a/closed", matching(matchingDescriptor("team")), fails(plan.FailClosed)))
	f.store.err = lost()
	NewWithT(t).Expect(f.allowed(t, oneHitEach("user=x", "team=y"))).To(Equal([]bool{true, false}))
}

// An enforced denial outside the counters denies the chain, also before one that is in Shadow.
func TestOutrightDenialBeforeOneInShadowSpendsNothing(t *testing.T) {
	g := NewWithT(t)
	keyless := func(id string, m plan.Mode) *plan.Plan {
		return makePlan(id, keyed(apiKey), missing(plan.MissingKeyDeny), mode(m))
	}
	f := newFixture(keyless("a/enforced", plan.ModeEnforce), keyless("a/shadow", plan.ModeShadow), makePlan("a/counting"))
	check := &limiter.Check{Policies: []string{"a/enforced", "a/shadow", "a/counting"}, Cost: 1}
	for range 2 {
		d := f.decide(t, check)
		g.Expect([]any{d.Reason, d.Policy}).To(Equal([]any{limiter.ReasonMissingKey, "a/enforced"}))
		g.Expect(usedOf(d)).To(Equal(map[string]int64{"a/counting": 0}))
	}
}
