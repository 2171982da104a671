// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/denialcache"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/test/testenv"
)

func TestFailureModeDecidesWithoutRedis(t *testing.T) {
	open, closed := fails(plan.FailOpen), fails(plan.FailClosed)
	for name, tc := range map[string]struct {
		plans    []*plan.Plan
		allowed  bool
		degraded plan.FailureMode
		policy   string
	}{
		"open admits":                  {[]*plan.Plan{makePlan("a/x", open)}, true, plan.FailOpen, ""},
		"closed denies":                {[]*plan.Plan{makePlan("a/x", closed)}, false, plan.FailClosed, "a/x"},
		"any closed denies":            {[]*plan.Plan{makePlan("a/x", open), makePlan("a/y", closed)}, false, plan.FailClosed, "a/y"},
		"shadow never denies":          {[]*plan.Plan{makePlan("a/x", closed, mode(plan.ModeShadow))}, true, plan.FailOpen, ""},
		"shadow beside an open policy": {[]*plan.Plan{makePlan("a/x", closed, mode(plan.ModeShadow)), makePlan("a/y", open)}, true, plan.FailOpen, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(tc.plans...)
			f.store.err = &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
			var ids []string
			for _, p := range tc.plans {
				ids = append(ids, p.ID())
			}
			d := f.decide(t, named(ids...))
			g.Expect(d.Allowed).To(Equal(tc.allowed))
			g.Expect(d.Reason).To(Equal(limiter.ReasonStoreUnavailable))
			g.Expect(d.Degraded).To(Equal(tc.degraded))
			g.Expect(d.Policy).To(Equal(tc.policy))
			if !tc.allowed {
				g.Expect(d.Denial).To(Equal(plan.Denial{Code: "RateLimited", Message: "Rate limits cannot be checked at the moment."}))
			}
			g.Expect(d.RetryAfter).To(BeZero())
			g.Expect(testutil.GatherAndCount(f.registry, "weir_degraded_decisions_total")).To(Equal(len(tc.plans)))
		})
	}
}

// The store may still read a call that it has not answered, so no other check uses its memory.
func TestCallInFlightStaysAsItIs(t *testing.T) {
	for name, prepare := range map[string]func(*testStore){
		"failed": func(s *testStore) {
			s.err = &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
		},
		"answered by a cache": func(s *testStore) { s.changeReplies(func(r *store.Reply) { r.Unanswered = true }) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(makePlan("a/x"))
			prepare(f.store)
			f.decide(t, named("a/x"))
			NewWithT(t).Expect(f.store.given.Entries).To(HaveExactElements(HaveField("Key", store.Key("alice"))))
		})
	}
}

// An admission by failureMode has another verdict than one by the limits, and degraded peeks are
// counted.
func TestMetricsOfDegradedDecisions(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/open", fails(plan.FailOpen)), makePlan("a/closed", fails(plan.FailClosed)))
	f.store.err = &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
	f.decide(t, named("a/open"))
	f.decide(t, named("a/closed"))
	peek := named("a/open")
	peek.Peek = true
	f.decide(t, peek)
	text := exposition(g, f.registry)
	g.Expect(text).To(ContainSubstring(`weir_decisions_total{limit="",namespace="a",policy="open",verdict="degraded_allowed"} 1`))
	g.Expect(text).To(ContainSubstring(`weir_decisions_total{limit="",namespace="a",policy="closed",verdict="degraded_denied"} 1`))
	g.Expect(text).To(ContainSubstring(`weir_degraded_decisions_total{cause="timeout",mode="Open",namespace="a",policy="open"} 2`))
	f.Use(index.NewSnapshot(2, nil))
	g.Expect(exposition(g, f.registry)).NotTo(ContainSubstring(`namespace="a"`))
}

// A decision that ends after its policy was deleted does not bring the series back.
func TestSeriesOfADeletedPolicyStayDeleted(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x"))
	f.decide(t, named("a/x"))
	f.store.during(func() { f.Use(index.NewSnapshot(2, nil)) })
	for range 3 { // admitted twice, then denied: other series
		f.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x")}))
		f.decide(t, named("a/x"))
		g.Expect(exposition(g, f.registry)).NotTo(ContainSubstring(`namespace="a"`))
	}
}

func TestCostAboveTheThresholdIsDeniedWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", fails(plan.FailOpen)))
	f.store.err = &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
	d := f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Cost: 4})
	g.Expect(d.Allowed).To(BeFalse())
	g.Expect(d.Reason).To(Equal(limiter.ReasonCostExceedsThreshold))
	g.Expect(testutil.GatherAndCount(f.registry, "weir_degraded_decisions_total")).To(BeZero())
	g.Expect(exposition(g, f.registry)).To(ContainSubstring(`weir_decisions_total{limit="burst",namespace="a",policy="x",verdict="denied"}`))
}

// A denial from memory counts as every other one, and once more for the policy that denied.
func TestCachedDenialsAreCounted(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/wide", threshold(1000)), makePlan("a/x", threshold(1)))
	f.decide(t, named("a/wide", "a/x"))
	f.store.changeReplies(func(r *store.Reply) { r.FromCache = true })
	f.decide(t, named("a/wide", "a/x"))
	g.Expect(exposition(g, f.registry)).To(And(
		ContainSubstring(`weir_cached_denials_total{namespace="a",policy="x"} 1`),
		Not(ContainSubstring(`weir_cached_denials_total{namespace="a",policy="wide"}`)),
		ContainSubstring(`weir_decisions_total{limit="burst",namespace="a",policy="x",verdict="denied"} 1`),
	))
}

// failing is an engine with a short timeout for a Redis that the test makes fail. It has
// two policies of 1000 a minute, a/open and a/closed, and a/blocking of one an hour, which blocks.
type failing struct {
	*engine.Engine
	client  redis.UniversalClient
	server  *testenv.Redis
	metrics *prometheus.Registry
	log     strings.Builder
}

// patient is a timeout for a Redis that answers, if only with errors.
const patient = 10 * time.Second

func newFailing(t *testing.T, storeTimeout time.Duration) *failing {
	t.Helper()
	server := testenv.StartRedis(t)
	client, err := redisclient.New(server.URL, storeTimeout)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	f := &failing{client: client, server: server, metrics: prometheus.NewRegistry()}
	f.Engine = engine.New(engine.Options{
		Store: denialcache.New(
			redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir:", Timeout: storeTimeout}), time.Now),
		Registerer: f.metrics,
		Logger:     slog.New(slog.NewTextHandler(&f.log, nil)),
	})
	f.Use(index.NewSnapshot(1, []*plan.Plan{
		makePlan("a/open", threshold(1000)), makePlan("a/closed", threshold(1000), fails(plan.FailClosed)),
		makePlan("a/blocking", limited(plan.Limit{
			Name: "hourly", Algorithm: plan.FixedWindow, Threshold: 1, WindowMillis: 3_600_000, BlockMillis: 3_600_000,
		})),
	}))
	return f
}

func (f *failing) decide(t *testing.T, id string) *limiter.Decision {
	t.Helper()
	d, err := f.Decide(t.Context(), named(id))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return d
}

// spend decides and returns the used units, or -1 for a degraded decision.
func (f *failing) spend(t *testing.T, id string) int64 {
	t.Helper()
	d := f.decide(t, id)
	if d.Degraded != "" {
		return -1
	}
	return d.Limits[0].Used
}

// expectDegraded expects each policy to decide by its failure mode, and the cause to be in the
// metrics.
func (f *failing) expectDegraded(t *testing.T, cause string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(f.decide(t, "a/open").Degraded).To(Equal(plan.FailOpen), cause)
	g.Expect(f.decide(t, "a/closed").Allowed).To(BeFalse(), cause)
	expected := `weir_degraded_decisions_total{cause="` + cause + `",mode="Closed",namespace="a",policy="closed"}`
	g.Expect(exposition(g, f.metrics)).To(ContainSubstring(expected))
	g.Expect(f.log.String()).To(ContainSubstring("Decided without Redis"))
}

func TestMissingScriptIsLoadedInTheSameCall(t *testing.T) {
	g := NewWithT(t)
	f := newFailing(t, patient)
	g.Expect(f.spend(t, "a/open")).To(Equal(int64(1)))
	g.Expect(f.client.ScriptFlush(t.Context()).Err()).To(Succeed())
	g.Expect(f.spend(t, "a/open")).To(Equal(int64(2)))
}

func TestPausedRedisDegradesDecisions(t *testing.T) {
	f := newFailing(t, 100*time.Millisecond)
	f.server.Pause()
	f.expectDegraded(t, "timeout")
	NewWithT(t).Eventually(func() string {
		f.decide(t, "a/open")
		return exposition(NewWithT(t), f.metrics)
	}, "30s").Should(ContainSubstring(`cause="breaker"`), "decisions stop waiting for Redis")
	f.server.Resume()
	NewWithT(t).Eventually(func() plan.FailureMode { return f.decide(t, "a/open").Degraded }).Should(BeEmpty())
}

func TestStoppedRedisDegradesDecisions(t *testing.T) {
	f := newFailing(t, patient)
	f.server.Stop()
	f.expectDegraded(t, "connection")
	f.server.Start()
	NewWithT(t).Eventually(func() int64 { return f.spend(t, "a/closed") }, "30s").
		Should(Equal(int64(1)), "Redis restarts without counters")
}

func TestFullRedisDegradesDecisions(t *testing.T) {
	f := newFailing(t, patient)
	NewWithT(t).Expect(f.client.ConfigSet(t.Context(), "maxmemory", "1").Err()).To(Succeed())
	f.expectDegraded(t, "memory")
}

// What another program has written in place of a counter counts as missing.
func TestForeignDataDegradesNoDecision(t *testing.T) {
	g := NewWithT(t)
	f := newFailing(t, patient)
	for _, id := range []string{"a/open", "a/closed"} {
		f.decide(t, id)
		counter := "weir:1:c:{alice}:" + id + ":burst:fw:1m"
		g.Expect(f.client.Del(t.Context(), counter).Val()).To(Equal(int64(1)))
		g.Expect(f.client.RPush(t.Context(), counter, "x").Err()).To(Succeed())
		g.Expect(f.spend(t, id)).To(Equal(int64(1)))
		g.Expect(f.spend(t, id)).To(Equal(int64(2)))
	}
}

// A block that one chain met denies every chain with the same policy and key while Redis does not
// answer, with any failureMode. Nothing is reported of the other policies.
func TestBlocksHoldInOtherChainsWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	f := newFailing(t, 100*time.Millisecond)
	for range 3 {
		_, err := f.Decide(t.Context(), named("a/closed", "a/blocking"))
		g.Expect(err).NotTo(HaveOccurred())
	}
	f.server.Pause()
	for range 20 { // the call of the first one stays in flight
		d, err := f.Decide(t.Context(), named("a/open", "a/blocking"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(d.Allowed).To(BeFalse())
		g.Expect([]any{d.Policy, d.Reason, d.Degraded}).To(Equal([]any{"a/blocking", limiter.ReasonBlocked, plan.FailureMode("")}))
		g.Expect(d.RetryAfter).To(BeNumerically("~", time.Hour, time.Minute))
		g.Expect(d.Limits).To(HaveLen(1))
		g.Expect(d.Limits[0].Policy).To(Equal("a/blocking"))
	}
	g.Expect(exposition(g, f.metrics)).To(And(
		ContainSubstring(`weir_cached_denials_total{namespace="a",policy="blocking"} 2`),
		Not(ContainSubstring(`policy="open"`)),
	))
	g.Expect(f.decide(t, "a/open").Degraded).To(Equal(plan.FailOpen), "without the policy that blocks")
	f.server.Resume()
}

// Redis has the state of a key. A remembered denial does not replace it.
func TestInspectNeedsRedis(t *testing.T) {
	g := NewWithT(t)
	f := newFailing(t, 100*time.Millisecond)
	for range 3 {
		f.decide(t, "a/blocking")
	}
	f.server.Pause()
	g.Expect(f.decide(t, "a/blocking").Reason).To(Equal(limiter.ReasonBlocked))
	_, err := f.Inspect(t.Context(), "a/blocking", alice, plan.Attributes{})
	_, failed := errors.AsType[*store.Error](err)
	g.Expect(failed).To(BeTrue(), "%v", err)
	f.server.Resume()
}

// A call is not retried when Redis may already have run it.
func TestDecisionIsNotRetriedAfterALostReply(t *testing.T) {
	g := NewWithT(t)
	f := newFailing(t, 50*time.Millisecond)
	f.decide(t, "a/open")
	const lost = 5
	for range lost { // Redis has received each call when the engine stops waiting for the reply
		f.server.Pause()
		g.Expect(f.decide(t, "a/open").Degraded).To(Equal(plan.FailOpen))
		f.server.Resume()
		g.Eventually(func() error { return f.client.Ping(t.Context()).Err() }).Should(Succeed())
	}
	g.Eventually(func() int64 { return f.spend(t, "a/open") }).
		Should(And(BeNumerically(">", 0), BeNumerically("<=", lost+2)), "no decision was spent twice")
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
