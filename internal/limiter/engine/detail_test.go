// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"log/slog"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/engine/series"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

func TestMetricsOfNamespaces(t *testing.T) {
	g := NewWithT(t)
	f := &fixture{store: newTestStore(), registry: prometheus.NewRegistry()}
	f.Engine = engine.New(engine.Options{
		Store: f.store, Registerer: f.registry, MetricsDetail: series.DetailNamespace, Logger: slog.New(slog.DiscardHandler),
	})
	f.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x"), makePlan("a/y"), makePlan("b/x")}))
	for _, id := range []string{"a/x", "a/y", "b/x"} {
		for range 4 {
			f.decide(t, named(id))
		}
	}
	want := func(samples string) {
		t.Helper()
		g.Expect(testutil.GatherAndCompare(f.registry, strings.NewReader(`
# HELP weir_decisions_total Decisions, counted once per policy and key. limit is the limit that denied, else empty.
# TYPE weir_decisions_total counter
`+samples), "weir_decisions_total")).To(Succeed())
	}
	want(`
weir_decisions_total{limit="",namespace="a",policy="",verdict="allowed"} 6
weir_decisions_total{limit="",namespace="a",policy="",verdict="denied"} 2
weir_decisions_total{limit="",namespace="b",policy="",verdict="allowed"} 3
weir_decisions_total{limit="",namespace="b",policy="",verdict="denied"} 1
`)
	// The series stay until the last policy of the Namespace is gone.
	f.Use(index.NewSnapshot(2, []*plan.Plan{makePlan("a/y")}))
	want(`
weir_decisions_total{limit="",namespace="a",policy="",verdict="allowed"} 6
weir_decisions_total{limit="",namespace="a",policy="",verdict="denied"} 2
`)
	f.decide(t, named("a/y"))
	f.Use(index.NewSnapshot(3, nil))
	g.Expect(testutil.GatherAndCount(f.registry, "weir_decisions_total")).To(BeZero())
}
