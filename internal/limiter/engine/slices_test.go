// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"log/slog"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/internal/limiter/store/slicecache"
)

// sliced gives the policy slices of half of its 1,000 units a day.
func sliced(p *plan.Plan) {
	p.Slices = plan.Slices{MaxPercent: 50, MaxAgeMillis: 10_000}
	p.Limits[0].Threshold, p.Limits[0].WindowMillis = 1000, 86_400_000
}

// A decision from slices is marked. A denial waits for the slices of other replicas, which operators see.
func TestSlices(t *testing.T) {
	g := NewWithT(t)
	store := memory.NewStore(memory.Options{Keys: 1000})
	p := makePlan("a/x", sliced)
	open := func() *engine.Engine {
		slices := slicecache.New(slicecache.Options{Store: store})
		e := engine.New(engine.Options{
			Store: slices, RetainSlices: slices.Retain, Holds: store, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		})
		e.Use(index.NewSnapshot(1, []*plan.Plan{p}))
		return e
	}
	one, other := open(), open()
	decide := func(e *engine.Engine, cost int64) *limiter.Decision {
		check := named("a/x")
		check.Cost = cost
		d, err := e.Decide(t.Context(), check)
		g.Expect(err).NotTo(HaveOccurred())
		return d
	}
	g.Eventually(func() bool { return decide(one, 1).FromSlice }, "30s", "1ms").Should(BeTrue())

	inspect := func() *limiter.KeyState {
		state, err := other.Inspect(t.Context(), "a/x", limiter.KeyName{Parts: []string{"alice"}}, plan.Attributes{})
		g.Expect(err).NotTo(HaveOccurred())
		return state
	}
	state := inspect()
	g.Expect(state.OpenSlices).To(BeNumerically(">=", 1))
	g.Expect(state.Slices).NotTo(BeEmpty())
	g.Expect([]any{state.Open, state.Holds}).To(HaveExactElements(BeZero(), BeEmpty()), "no reservations")
	free := state.Limits[0].Remaining
	d := decide(other, free+1)
	g.Expect([]any{d.Allowed, d.WaitsFor, d.RetryAfter}).To(Equal([]any{false, limiter.WaitsForSlices, time.Second}))

	// An edit ends the slices in the step that loads it.
	edited := makePlan("a/x", sliced, threshold(2000))
	one.Use(index.NewSnapshot(2, []*plan.Plan{edited}))
	g.Eventually(func() int64 { return inspect().OpenSlices }, "30s", "1ms").Should(BeZero())
	g.Expect(decide(one, 1).FromSlice).To(BeFalse())
}
