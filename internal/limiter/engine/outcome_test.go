// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

const failureCost = `response.code in [401, 403] ? 1 : 0`

// countingOutcomes makes the policy compute the cost of commits.
func countingOutcomes(text string) func(*plan.Plan) {
	return func(p *plan.Plan) {
		reservable(p)
		p.Reservations.Cost = text
	}
}

func outcomeOf(r *limiter.Reservation, code int) *limiter.Commit {
	return &limiter.Commit{Reservation: r, Cost: limiter.NoCost, Response: &limiter.Response{Code: code}}
}

func TestCommitsCostWhatTheOutcomeCosts(t *testing.T) {
	for code, used := range map[int]int64{0: 0, 200: 0, 400: 0, 401: 1, 403: 1, 500: 0, 999: 0} {
		g := NewWithT(t)
		f := newFixture(makePlan("a/x", countingOutcomes(failureCost)))
		r := f.reserve(t, reserve(3, "a/x")).Reservation
		g.Expect(f.used(t)).To(Equal([]int64{3, 3}))
		committed, err := f.Commit(t.Context(), outcomeOf(r, code))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(committed.Policies).To(HaveExactElements(And(
			HaveField("Committed", true), HaveField("Cost", used), HaveField("Estimate", int64(3)))), "code %d", code)
		g.Expect(f.used(t)).To(Equal([]int64{used, 0}), "code %d", code)
	}
}

// Each policy takes its cost from one place: its expression or the commit.
func TestCommitsOfPoliciesWithAndWithoutExpression(t *testing.T) {
	failed := &limiter.Response{Code: 401}
	for name, tc := range map[string]struct {
		commit limiter.Commit
		field  string
		used   []int64 // of a/x, which computes its cost, and a/y
	}{
		"costs of the other":       {limiter.Commit{Costs: limiter.Costs{"a/y": 7}, Response: failed}, "", []int64{1, 7}},
		"a cost for the other":     {limiter.Commit{Cost: 7, Response: failed}, "", []int64{1, 7}},
		"the estimate":             {limiter.Commit{Cost: limiter.NoCost, Response: failed}, "", []int64{1, 2}},
		"an unknown outcome":       {limiter.Commit{Cost: 7, Response: &limiter.Response{}}, "", []int64{0, 7}},
		"sent again":               {limiter.Commit{Cost: 7, CostIsFinal: true}, "", []int64{7, 7}},
		"costs of both":            {limiter.Commit{Costs: limiter.Costs{"a/x": 1, "a/y": 7}, Response: failed}, `costs["a/x"]`, nil},
		"costs without response":   {limiter.Commit{Costs: limiter.Costs{"a/x": 1, "a/y": 7}}, `costs["a/x"]`, nil},
		"costs of neither":         {limiter.Commit{Costs: limiter.Costs{"a/z": 1}, Response: failed}, "costs", nil},
		"a cost without response":  {limiter.Commit{Cost: 7}, "response", nil},
		"no response, other costs": {limiter.Commit{Costs: limiter.Costs{"a/y": 7}}, "response", nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", countingOutcomes(failureCost)), makePlan("a/y", reservable))
			tc.commit.Reservation = f.reserve(t, reserve(2, "a/x", "a/y")).Reservation
			_, err := f.Commit(t.Context(), &tc.commit)
			if tc.field != "" {
				g.Expect(fieldOf(err)).To(Equal(tc.field))
				g.Expect(f.usedOf(t, "a/x", "a/y")).To(Equal([]int64{2, 2, 2, 2}), "both are held")
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(f.usedOf(t, "a/x", "a/y")).To(Equal([]int64{tc.used[0], 0, tc.used[1], 0}))
		})
	}
}

// A plan of another release may have an expression that this one does not know.
func TestExpressionsThatFailSpendTheEstimate(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", countingOutcomes("response.flags")))
	r := f.reserve(t, reserve(3, "a/x")).Reservation
	_, err := f.Commit(t.Context(), outcomeOf(r, 200))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.used(t)).To(Equal([]int64{3, 0}))
	g.Expect(testutil.GatherAndCompare(f.registry, strings.NewReader(`
# HELP weir_expression_errors_total CEL expressions of policies that failed for a request.
# TYPE weir_expression_errors_total counter
weir_expression_errors_total{field="spec.reservations.cost.cel",namespace="a",policy="x"} 1
`), "weir_expression_errors_total")).To(Succeed())
}

// Envoy sends the outcome in place of the hits.
func TestHitsThatCommitAnOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		code int
		hits int64
		used int64
	}{
		"a failure":              {401, 1, 1},
		"a failure and no hits":  {403, 0, 1},
		"a success":              {200, 1, 0},
		"a success of many hits": {200, 9, 0},
		"no response":            {0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", byUser, countingOutcomes(failureCost)))
			g.Expect(f.decide(t, hitting(limiter.Hits{Cost: 1, Action: limiter.HitsReserve})).Allowed).To(BeTrue())
			commit := hitting(limiter.Hits{Cost: tc.hits, Action: limiter.HitsCommit})
			commit.ResponseCode = tc.code
			g.Expect(f.decide(t, commit).Allowed).To(BeTrue())
			g.Expect(f.usedOf(t, "a/x")).To(Equal([]int64{tc.used, 0}))
		})
	}
}

// The commit is kept with its cost, which is spent later whatever the policy computes then.
func TestOutcomesThatRedisDidNotAnswer(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", byUser, countingOutcomes(failureCost)))
	f.store.err = lost()
	commit := hitting(limiter.Hits{Cost: 9, Action: limiter.HitsCommit})
	commit.ResponseCode = 401
	unsent := f.decide(t, commit).Unsent
	g.Expect(unsent).To(HaveExactElements(And(HaveField("Cost", int64(1)), HaveField("CostIsFinal", true))))
	f.store.err = nil
	_, err := f.Commit(t.Context(), &unsent[0])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.usedOf(t, "a/x")).To(Equal([]int64{1, 0}))
}

// blockingOnCommit makes the limits of the policy start blocks when commits fill them.
func blockingOnCommit(p *plan.Plan) {
	p.Reservations.BlockOnCommit = true
	p.Limits[0].BlockMillis = 60_000
}

// Good logins beside others in flight are denied, but lock nothing; the failure that fills the quota does.
func TestCommitsThatFillTheQuotaBlock(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", countingOutcomes(failureCost), blockingOnCommit, threshold(2)))
	first, second := f.reserve(t, reserve(1, "a/x")).Reservation, f.reserve(t, reserve(1, "a/x")).Reservation
	d := f.reserve(t, reserve(1, "a/x"))
	g.Expect([]any{d.Reason, d.WaitsFor}).To(Equal([]any{limiter.ReasonLimitExceeded, limiter.WaitsForReservations}))
	for _, commit := range []*limiter.Commit{outcomeOf(first, 200), outcomeOf(second, 401)} {
		_, err := f.Commit(t.Context(), commit)
		g.Expect(err).NotTo(HaveOccurred())
	}
	d = f.reserve(t, reserve(1, "a/x"))
	g.Expect([]any{d.Allowed, d.Reason}).To(Equal([]any{true, limiter.ReasonAllowed}))
	committed, err := f.Commit(t.Context(), outcomeOf(d.Reservation, 403))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(committed.Found()).To(BeTrue())
	d = f.reserve(t, reserve(1, "a/x"))
	g.Expect([]any{d.Reason, d.Limit, d.RetryAfter}).To(Equal([]any{limiter.ReasonBlocked, "burst", time.Hour}))
	g.Expect(testutil.GatherAndCompare(f.registry, strings.NewReader(`
# HELP weir_blocks_total Blocks started, by limit.
# TYPE weir_blocks_total counter
weir_blocks_total{limit="burst",namespace="a",policy="x"} 1
`), "weir_blocks_total")).To(Succeed())
}

// Blocks that commits start are listed like others.
func TestBlocksOfCommitsAreObserved(t *testing.T) {
	g, o := NewWithT(t), &observer{}
	e := observed(t, o, makePlan("a/x", keyed(apiKey), countingOutcomes(failureCost), blockingOnCommit, threshold(1)))
	d, err := e.Reserve(t.Context(), reserve(1, "a/x"))
	g.Expect(err).NotTo(HaveOccurred())
	_, err = e.Commit(t.Context(), outcomeOf(d.Reservation, 401))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]any{o.denied, o.blocks}).To(Equal([]any{[]string(nil), []string{"a/x alice"}}))
	g.Expect(o.ends[0]).To(BeTemporally("~", time.Now().Add(time.Minute), 30*time.Second))
}
