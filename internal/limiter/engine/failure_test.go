// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/script"
	"github.com/weir-dev/weir/internal/testenv"
)

func TestFailureModes(t *testing.T) {
	open, closed := fails(plan.FailOpen), fails(plan.FailClosed)
	for name, tc := range map[string]struct {
		plans    []*plan.Plan
		allowed  bool
		degraded plan.FailureMode
		policy   string
	}{
		"open admits":               {[]*plan.Plan{makePlan("a/x", open)}, true, plan.FailOpen, ""},
		"closed refuses":            {[]*plan.Plan{makePlan("a/x", closed)}, false, plan.FailClosed, "a/x"},
		"any closed refuses":        {[]*plan.Plan{makePlan("a/x", open), makePlan("a/y", closed)}, false, plan.FailClosed, "a/y"},
		"shadow never refuses":      {[]*plan.Plan{makePlan("a/x", closed, mode(plan.ModeShadow))}, true, plan.FailOpen, ""},
		"shadow beside one that is": {[]*plan.Plan{makePlan("a/x", closed, mode(plan.ModeShadow)), makePlan("a/y", open)}, true, plan.FailOpen, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(tc.plans...)
			f.store.err = &script.StoreError{Cause: script.CauseTimeout, Err: context.DeadlineExceeded}
			var ids []string
			for _, p := range tc.plans {
				ids = append(ids, p.ID())
			}
			d := f.decide(t, named(ids...))
			g.Expect(d.Allowed).To(Equal(tc.allowed))
			g.Expect(d.Reason).To(Equal(limiter.ReasonStoreUnavailable))
			g.Expect(d.Degraded).To(Equal(tc.degraded))
			g.Expect(d.Policy).To(Equal(tc.policy))
			g.Expect(d.RetryAfter).To(BeZero())
			g.Expect(testutil.GatherAndCount(f.registry, "weir_degraded_decisions_total")).To(Equal(len(tc.plans)))
		})
	}
}

func TestImpossibleCostIsRefusedWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", fails(plan.FailOpen)))
	f.store.err = &script.StoreError{Cause: script.CauseTimeout, Err: context.DeadlineExceeded}
	d := f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Cost: 4})
	g.Expect(d.Allowed).To(BeFalse())
	g.Expect(d.Reason).To(Equal(limiter.ReasonCostExceedsThreshold))
	g.Expect(testutil.GatherAndCount(f.registry, "weir_degraded_decisions_total")).To(BeZero())
	g.Expect(exposition(g, f.registry)).To(ContainSubstring(`weir_decisions_total{limit="burst",namespace="a",policy="x",verdict="denied"}`))
}

// What becomes of decisions while a real Redis fails in each of its ways.
func TestRealRedisFails(t *testing.T) {
	const storeTimeout = 100 * time.Millisecond
	server := testenv.StartRedis(t)
	client, err := redisclient.New(server.URL, storeTimeout)
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = client.Close() }()
	registry := prometheus.NewRegistry()
	var log strings.Builder
	e := engine.New(engine.Options{
		Store: script.NewStore(client, "weir:"), Registerer: registry,
		Logger: slog.New(slog.NewTextHandler(&log, nil)), StoreTimeout: storeTimeout,
	})
	e.Use(plan.NewSnapshot(1, []*plan.Plan{
		makePlan("a/open", threshold(1000)), makePlan("a/closed", threshold(1000), fails(plan.FailClosed)),
	}))
	decide := func(id string) *limiter.Decision {
		d, err := e.Decide(t.Context(), named(id))
		g.Expect(err).NotTo(HaveOccurred())
		return d
	}
	used := func(id string) int64 {
		d := decide(id)
		if d.Degraded != "" {
			return -1
		}
		return d.Limits[0].Used
	}
	degraded := func(cause string) {
		g.Expect(decide("a/open").Degraded).To(Equal(plan.FailOpen), cause)
		g.Expect(decide("a/closed").Allowed).To(BeFalse(), cause)
		expected := `weir_degraded_decisions_total{cause="` + cause + `",mode="Closed",policy="a/closed"}`
		g.Expect(exposition(g, registry)).To(ContainSubstring(expected))
	}
	g.Expect(used("a/open")).To(Equal(int64(1)))

	g.Expect(client.ScriptFlush(t.Context()).Err()).To(Succeed())
	g.Expect(used("a/open")).To(Equal(int64(2)), "a lost script heals in the same call")

	server.Pause()
	degraded("timeout")
	server.Resume()
	g.Eventually(func() plan.FailureMode { return decide("a/open").Degraded }).Should(BeEmpty())

	server.Stop()
	degraded("connection")
	server.Start()
	g.Eventually(func() int64 { return used("a/closed") }, "5s").Should(Equal(int64(1)), "empty, and deciding again")

	g.Expect(client.ConfigSet(t.Context(), "maxmemory", "1").Err()).To(Succeed())
	degraded("memory")
	g.Expect(client.ConfigSet(t.Context(), "maxmemory", "0").Err()).To(Succeed())

	for _, id := range []string{"a/open", "a/closed"} { // somebody else's data where a counter should be
		key := "weir:1:c:{alice}:" + id + ":burst:fw:1m"
		g.Expect(client.Del(t.Context(), key).Err()).To(Succeed())
		g.Expect(client.RPush(t.Context(), key, "x").Err()).To(Succeed())
	}
	degraded("script")
	g.Expect(log.String()).To(ContainSubstring("Decided without Redis"))
}

// A decision is never sent again once Redis may have run it.
func TestLostReplyIsNotSentAgain(t *testing.T) {
	g := NewWithT(t)
	server := testenv.StartRedis(t)
	client, err := redisclient.New(server.URL, 50*time.Millisecond)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = client.Close() }()
	e := engine.New(engine.Options{
		Store: script.NewStore(client, "weir:"), Registerer: prometheus.NewRegistry(),
		Logger: slog.New(slog.DiscardHandler), StoreTimeout: 50 * time.Millisecond,
	})
	e.Use(plan.NewSnapshot(1, []*plan.Plan{makePlan("a/x", threshold(1000))}))
	_, err = e.Decide(t.Context(), named("a/x"))
	g.Expect(err).NotTo(HaveOccurred())
	const lost = 5
	for range lost { // each is in the server's buffers when its reply is given up on
		server.Pause()
		d, err := e.Decide(t.Context(), named("a/x"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(d.Degraded).To(Equal(plan.FailOpen))
		server.Resume()
		g.Eventually(func() error { return client.Ping(t.Context()).Err() }).Should(Succeed())
	}
	d, err := e.Decide(t.Context(), named("a/x"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(d.Limits[0].Used).To(BeNumerically("<=", int64(lost+2)), "no decision was spent twice")
}

func exposition(g *WithT, registry *prometheus.Registry) string {
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	var text strings.Builder
	for _, family := range families {
		for _, m := range family.GetMetric() {
			text.WriteString(family.GetName() + "{")
			for i, label := range m.GetLabel() {
				if i > 0 {
					text.WriteString(",")
				}
				text.WriteString(label.GetName() + `="` + label.GetValue() + `"`)
			}
			text.WriteString("}")
			if c := m.GetCounter(); c != nil {
				fmt.Fprintf(&text, " %g", c.GetValue())
			}
			text.WriteString("\n")
		}
	}
	return text.String()
}
