// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"log/slog"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

func TestNearLimit(t *testing.T) {
	g := NewWithT(t)
	f := &fixture{store: newTestStore(), registry: prometheus.NewRegistry()}
	f.Engine = engine.New(engine.Options{Store: f.store, Registerer: f.registry, Logger: slog.New(slog.DiscardHandler)})
	p := makePlan("a/x")
	p.Limits = []plan.Limit{
		{Name: "warns", Algorithm: plan.SlidingLog, Threshold: 10, WindowMillis: 60_000, WarnPercent: 75},
		{Name: "silent", Algorithm: plan.SlidingLog, Threshold: 10, WindowMillis: 60_000},
	}
	f.Use(index.NewSnapshot(1, []*plan.Plan{p}))
	near := func(check *limiter.Check) (near []bool) {
		t.Helper()
		for _, l := range f.decide(t, check).Limits {
			near = append(near, l.Near)
		}
		return near
	}
	spend := func(cost int64) *limiter.Check {
		check := named("a/x")
		check.Cost = cost
		return check
	}
	peek := named("a/x")
	peek.Peek = true
	g.Expect(near(spend(7))).To(Equal([]bool{false, false}), "7 of 10")
	g.Expect(near(peek)).To(Equal([]bool{false, false}))
	const counted = `weir_near_limit_total{limit="warns",namespace="a",policy="x"} 1`
	g.Expect(exposition(g, f.registry)).NotTo(ContainSubstring("weir_near_limit_total{"))
	g.Expect(near(spend(2))).To(Equal([]bool{true, false}), "9 of 10")
	g.Expect(near(peek)).To(Equal([]bool{true, false}))
	g.Expect(near(spend(1))).To(Equal([]bool{true, false}))
	g.Expect(near(spend(1))).To(Equal([]bool{true, false}), "denied")
	g.Expect(exposition(g, f.registry)).To(ContainSubstring(counted), "it gets there once")
}
