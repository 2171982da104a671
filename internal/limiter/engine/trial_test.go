// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/seeds"
)

// trying gives the first limit a candidate with the threshold.
func trying(threshold int64) func(*plan.Plan) {
	return func(p *plan.Plan) {
		p.Candidates = []plan.LimitOverride{{Name: p.Limits[0].Name, Threshold: threshold}}
	}
}

// candidateMetric is a series of candidates.
type candidateMetric struct {
	labels map[string]string
	value  float64
}

// candidateMetrics returns the series of candidates.
func candidateMetrics(t *testing.T, registry *prometheus.Registry) (series []candidateMetric) {
	t.Helper()
	families, err := registry.Gather()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != "weir_candidate_decisions_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			series = append(series, candidateMetric{labels, m.GetCounter().GetValue()})
		}
	}
	return series
}

// candidates returns the series of candidates, as "<policy> <limit> <live>/<candidate> <n>".
func (f *fixture) candidates(t *testing.T) (series []string) {
	t.Helper()
	f.AwaitBackground()
	for _, m := range candidateMetrics(t, f.registry) {
		series = append(series, fmt.Sprintf("%s/%s %s %s/%s %v",
			m.labels["namespace"], m.labels["policy"], m.labels["limit"], m.labels["live"], m.labels["candidate"], m.value))
	}
	slices.Sort(series)
	return series
}

// spend decides n checks, one after the other with their candidates, and returns how many were allowed.
func (f *fixture) spend(t *testing.T, n int, ids ...string) (allowed int) {
	t.Helper()
	for range n {
		if f.decide(t, named(ids...)).Allowed {
			allowed++
		}
		f.AwaitBackground()
	}
	return allowed
}

func TestCandidateIsJudgedInTheLimitsPlace(t *testing.T) {
	for _, tt := range []struct {
		name    string
		edits   []func(*plan.Plan)
		allowed int // of 6 checks
		want    []string
	}{
		{
			name: "stricter", edits: []func(*plan.Plan){trying(2)}, allowed: 3,
			want: []string{"a/x burst allowed/allowed 2", "a/x burst allowed/denied 1", "a/x burst denied/denied 3"},
		},
		{
			name: "more generous than a limit that denies", edits: []func(*plan.Plan){trying(5)}, allowed: 3,
			want: []string{"a/x burst allowed/allowed 3", "a/x burst denied/allowed 2", "a/x burst denied/denied 1"},
		},
		{
			name: "in mode Shadow", edits: []func(*plan.Plan){trying(2), mode(plan.ModeShadow)}, allowed: 6,
			want: []string{"a/x burst allowed/allowed 2", "a/x burst allowed/denied 1", "a/x burst denied/denied 3"},
		},
		{
			name: "attempts count", edits: []func(*plan.Plan){trying(2), func(p *plan.Plan) { p.Counting = plan.CountAttempts }}, allowed: 3,
			want: []string{"a/x burst allowed/allowed 2", "a/x burst allowed/denied 1", "a/x burst denied/denied 3"},
		},
		{
			name: "the threshold denies", edits: []func(*plan.Plan){trying(2), func(p *plan.Plan) { p.DenyWhen = plan.ThresholdReached }}, allowed: 2,
			want: []string{"a/x burst allowed/allowed 1", "a/x burst allowed/denied 1", "a/x burst denied/denied 4"},
		},
		{
			name: "one of two limits", allowed: 3, edits: []func(*plan.Plan){trying(2), func(p *plan.Plan) {
				p.Limits = append(p.Limits, plan.Limit{Name: "hourly", Algorithm: plan.SlidingLog, Threshold: 4, WindowMillis: 3_600_000})
			}},
			want: []string{"a/x burst allowed/allowed 2", "a/x burst allowed/denied 1", "a/x burst denied/denied 3"},
		},
		{
			name: "of a disabled policy", edits: []func(*plan.Plan){trying(2), mode(plan.ModeDisabled)}, allowed: 6,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", tt.edits...))
			g.Expect(f.spend(t, 6, "a/x")).To(Equal(tt.allowed), "a candidate denies nothing")
			g.Expect(f.candidates(t)).To(Equal(tt.want))
		})
	}
}

// Other policies of the chain keep their limits in force: a check that they deny spends nothing in the candidate.
func TestCandidatesInAChain(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", trying(2)), makePlan("a/y", threshold(1)))
	g.Expect(f.spend(t, 4, "a/x", "a/y")).To(Equal(1))
	g.Expect(f.spend(t, 3, "a/x")).To(Equal(2), "one of three is spent")
	g.Expect(f.candidates(t)).To(Equal([]string{
		"a/x burst allowed/allowed 5", // 4 in the chain, spending 1, and 1 alone
		"a/x burst allowed/denied 1",
		"a/x burst denied/denied 1",
	}))
}

func TestCandidatesOfTwoPolicies(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", trying(2)), makePlan("a/y", trying(1)))
	f.spend(t, 2, "a/x", "a/y")
	g.Expect(f.candidates(t)).To(Equal([]string{
		"a/x burst allowed/allowed 2", "a/y burst allowed/allowed 1", "a/y burst allowed/denied 1",
	}))
}

// A policy in mode Shadow denies nothing, and so keeps no candidate from spending.
func TestCandidateBesideAPolicyInShadow(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", trying(2)), makePlan("a/y", threshold(1), mode(plan.ModeShadow)))
	g.Expect(f.spend(t, 4, "a/x", "a/y")).To(Equal(3))
	g.Expect(f.candidates(t)).To(Equal([]string{
		"a/x burst allowed/allowed 2", "a/x burst allowed/denied 1", "a/x burst denied/denied 1",
	}))
}

// A cost above the quota is a denial, of the candidate or of the limit, and the other one still spends.
func TestCandidateWithCostsAboveTheQuota(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", trying(2)), makePlan("a/y", trying(5)))
	three := named("a/x")
	three.Cost = 3
	g.Expect(f.decide(t, three).Allowed).To(BeTrue())
	f.AwaitBackground()
	four := named("a/y")
	four.Cost = 4
	g.Expect(f.decide(t, four).Reason).To(Equal(limiter.ReasonCostExceedsThreshold))
	f.AwaitBackground()
	g.Expect(f.decide(t, named("a/y")).Limits[0].Used).To(Equal(int64(1)))
	f.AwaitBackground()
	g.Expect(f.decide(t, named("a/y")).Allowed).To(BeTrue())
	g.Expect(f.candidates(t)).To(Equal([]string{
		"a/x burst allowed/denied 1",
		"a/y burst allowed/allowed 1",
		"a/y burst allowed/denied 1", // 4 and 1 of 5 are spent
		"a/y burst denied/allowed 1",
	}))
}

func TestCandidatesJudgeOnlyTheNumbersOfThePolicy(t *testing.T) {
	g := NewWithT(t)
	changed := plan.Override{Name: "gold", Keys: []string{"gold"}, Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "burst", Threshold: 9}}}
	other := plan.Override{Name: "silver", Keys: []string{"silver"}, Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "hourly", Threshold: 9}}}
	f := newFixture(makePlan("a/x", trying(2), keyed(plan.KeyPart{Type: plan.KeyHeader, Header: "k"}), func(p *plan.Plan) {
		p.Limits = append(p.Limits, plan.Limit{Name: "hourly", Algorithm: plan.FixedWindow, Threshold: 4, WindowMillis: 3_600_000})
		p.Overrides = []plan.Override{changed, other}
	}))
	for range 4 {
		for _, key := range []string{"gold", "silver"} {
			f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Key: []string{key}, Cost: 1})
			f.AwaitBackground()
		}
		f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Key: []string{"silver"}, Cost: 1, Peek: true})
	}
	g.Expect(f.candidates(t)).To(Equal([]string{ // of silver; gold has other numbers, and a peek spends nothing
		"a/x burst allowed/allowed 2", "a/x burst allowed/denied 1", "a/x burst denied/denied 1",
	}))
}

// A candidate has blocks of its own, and the blocks of operators.
func TestCandidateBlocks(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", trying(1), func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 }))
	f.spend(t, 2, "a/x") // the candidate blocks until 10 minutes from now
	f.store.now = f.store.now.Add(2 * time.Minute)
	g.Expect(f.spend(t, 1, "a/x")).To(Equal(1), "the window has ended")
	g.Expect(f.candidates(t)).To(Equal([]string{"a/x burst allowed/allowed 1", "a/x burst allowed/denied 2"}))
}

func TestCandidateStateFollowsOperators(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/x", trying(1), func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 }))
	keys := func() (ofCandidate []string) {
		r.AwaitBackground()
		for _, key := range r.client.Keys(t.Context(), "weir:*").Val() {
			if strings.Contains(key, "+candidate") {
				ofCandidate = append(ofCandidate, key)
			}
		}
		return ofCandidate
	}
	alice := limiter.KeyName{Parts: []string{"alice"}}
	r.decide(t, named("a/x"))
	g.Expect(keys()).To(ConsistOf("weir:1:c:{alice}:a/x+candidate:burst:fw:1m"))
	r.decide(t, named("a/x"))
	g.Expect(keys()).To(ContainElement("weir:1:c:{alice}:a/x+candidate:block"))
	found, err := r.Unblock(t.Context(), "a/x", alice)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(BeFalse(), "the policy has no block")
	g.Expect(keys()).NotTo(ContainElement(HaveSuffix(":block")))
	g.Expect(r.Block(t.Context(), "a/x", alice, time.Minute)).To(Succeed())
	g.Expect(keys()).To(ContainElement("weir:1:c:{alice}:a/x+candidate:block"))
	found, err = r.Reset(t.Context(), "a/x", alice)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(BeTrue())
	g.Expect(keys()).To(BeEmpty())
}

// The verdict of a candidate that cannot be judged is unknown. It delays and fails no check.
func TestCandidateVerdictUnknown(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", trying(2)))
	calls := 0
	f.store.during(func() {
		if calls++; calls == 2 {
			f.store.err = errors.New("lost")
		}
	})
	g.Expect(f.decide(t, named("a/x")).Degraded).To(BeEmpty())
	g.Expect(f.candidates(t)).To(Equal([]string{"a/x burst allowed/unknown 1"}))
	g.Expect(f.decide(t, named("a/x")).Degraded).To(Equal(plan.FailOpen))
	f.AwaitBackground()
	g.Expect(calls).To(Equal(3), "a check without verdict is not compared")

	f.store.around, f.store.err = nil, nil
	f.FillBackground()
	g.Expect(f.decide(t, named("a/x")).Degraded).To(BeEmpty())
	g.Expect(exposition(g, f.registry)).To(ContainSubstring(
		`weir_candidate_decisions_total{candidate="unknown",limit="burst",live="allowed",namespace="a",policy="x"} 2`))
}

// Many callers at once spend the quota of the candidate exactly, on a real Redis.
func TestCandidatesAreExactUnderConcurrency(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/x", threshold(200), trying(50), func(p *plan.Plan) { p.Limits[0].WindowMillis = 3_600_000 }))
	var wait sync.WaitGroup
	var allowed atomic.Int64
	for range 64 {
		wait.Go(func() {
			for range 10 {
				d, err := r.Decide(t.Context(), named("a/x"))
				if err == nil && d.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wait.Wait()
	g.Expect(allowed.Load()).To(Equal(int64(200)))
	verdicts := map[string]float64{}
	r.AwaitBackground()
	for _, m := range candidateMetrics(t, r.registry) {
		verdicts[m.labels["candidate"]] += m.value
	}
	g.Expect(verdicts["allowed"]).To(Equal(50.0))
	g.Expect(verdicts["allowed"] + verdicts["denied"] + verdicts["unknown"]).To(Equal(640.0))
}

// A policy with candidates decides their verdicts as another one would with these numbers in force.
func TestCandidatesDecideAsLimitsInForce(t *testing.T) {
	for seed := range seeds.InMemory(150) {
		r := rand.New(rand.NewPCG(seed, 0))
		live, tried := tryAtRandom(r)
		candidate, inForce := newFixture(live), newFixture(tried)
		want := map[string]int{}
		for range 120 {
			check := func() *limiter.Check { return named("a/x") }
			cost, key, draw := 1+r.Int64N(3), string(rune('a'+r.IntN(2))), r.Uint32()
			ask := func(f *fixture) *limiter.Decision {
				c := check()
				c.Cost, c.Key, f.store.draw = cost, []string{key}, draw
				return f.decide(t, c)
			}
			decided, expected := ask(candidate), ask(inForce)
			candidate.AwaitBackground()
			for i, l := range decided.Limits {
				if tried.Limits[i].Name != "steady" {
					want[fmt.Sprintf("a/x %s %s/%s", l.Limit, verdict(l.Allowed), verdict(expected.Limits[i].Allowed))]++
				}
			}
			step := time.Duration(r.Int64N(20)) * time.Second
			candidate.store.now, inForce.store.now = candidate.store.now.Add(step), inForce.store.now.Add(step)
		}
		var series []string
		for name, n := range want {
			series = append(series, fmt.Sprint(name, " ", n))
		}
		NewWithT(t).Expect(candidate.candidates(t)).To(ConsistOf(series), "seed %d: %+v", seed, live.Candidates)
	}
}

func verdict(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

// tryAtRandom returns a policy with candidates, and one that has their numbers in force.
func tryAtRandom(r *rand.Rand) (live, tried *plan.Plan) {
	all := []plan.Algorithm{plan.FixedWindow, plan.SlidingLog, plan.SlidingWindow, plan.TokenBucket, plan.GCRA, plan.Suppressed}
	limit := func(name string) plan.Limit {
		l := plan.Limit{Name: name, Algorithm: all[r.IntN(len(all))], Threshold: 1 + r.Int64N(12), WindowMillis: 60_000}
		if l.Algorithm.Refills() {
			l.Burst = 1 + r.Int64N(9)
		}
		if l.Algorithm.Buckets() {
			l.BucketMicros = 5_000_000
		}
		if l.Algorithm == plan.Suppressed {
			l.HardLimitPercent = 150
		}
		if r.IntN(3) == 0 {
			l.BlockMillis = 30_000
		}
		return l
	}
	numbers := func(l plan.Limit) plan.LimitOverride {
		o := plan.LimitOverride{Name: l.Name, Threshold: 1 + r.Int64N(12)}
		if l.Algorithm.Refills() {
			o.Burst = 1 + r.Int64N(9)
		}
		if r.IntN(2) == 0 {
			o.WindowMillis = 90_000
		}
		return o
	}
	live = makePlan("a/x", func(p *plan.Plan) {
		p.Limits = []plan.Limit{limit("first"), limit("steady"), limit("second")}
		p.Candidates = []plan.LimitOverride{numbers(p.Limits[0]), numbers(p.Limits[2])}
		if r.IntN(4) == 0 {
			p.Mode = plan.ModeShadow
		}
	})
	tried = makePlan("a/x", func(p *plan.Plan) { p.Mode = live.Mode })
	tried.Limits, _ = live.CandidateLimits(nil)
	return live, tried
}
