// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"log/slog"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
)

type panicking struct{ engine.Store }

func (panicking) Evaluate(context.Context, *store.Call) (*store.Reply, error) { panic("original") }

func TestPanicEndsTheSpanAndKeepsItsCause(t *testing.T) {
	g := NewWithT(t)
	spans := tracetest.NewInMemoryExporter()
	e := engine.New(engine.Options{
		Store: panicking{}, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
		Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test"),
	})
	e.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x")}))
	g.Expect(func() { _, _ = e.Decide(t.Context(), &limiter.Check{Policies: []string{"a/x"}, Cost: 1}) }).
		To(PanicWith("original"))
	g.Expect(spans.GetSpans()).To(HaveLen(1))
}
