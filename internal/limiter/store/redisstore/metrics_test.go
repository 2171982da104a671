// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
)

// exposition returns the samples of the counters and gauges, one a line, and the counts of
// histograms.
func exposition(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	g := NewWithT(t)
	registry := prometheus.NewPedanticRegistry()
	g.Expect(registry.Register(c)).To(Succeed())
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	var text strings.Builder
	for _, family := range families {
		for _, m := range family.GetMetric() {
			text.WriteString(strings.TrimPrefix(family.GetName(), "weir_store_"))
			for _, label := range m.GetLabel() {
				text.WriteString(" " + label.GetValue())
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			fmt.Fprintf(&text, " %g\n", value)
		}
	}
	return text.String()
}

func TestMetricsOfANode(t *testing.T) {
	g := NewWithT(t)
	f := newFakeNode()
	m := newMetrics()
	f.metrics = m.ofNode("a:1")
	m.nodes = func() map[string]*node { return map[string]*node{"a:1": f.node} }
	g.Expect(f.ask(t.Context(), time.Minute)).To(BeEmpty())
	g.Expect(exposition(t, m)).To(Equal(`breaker_open a:1 0
breaker_openings_total a:1 0
queue_length a:1 0
queue_rejections_total a:1 0
round_trip_duration_seconds a:1 1
`))
	f.err.Store(&store.Error{Cause: store.CauseReplicas, Err: errors.New("NOREPLICAS")})
	for range maxFailures {
		g.Expect(f.ask(t.Context(), time.Minute)).To(Equal(store.CauseReplicas))
	}
	g.Expect(exposition(t, m)).To(Equal(`breaker_open a:1 1
breaker_openings_total a:1 1
errors_total replicas a:1 5
queue_length a:1 0
queue_rejections_total a:1 0
round_trip_duration_seconds a:1 6
`))
	f.err.Store(nil)
	g.Eventually(func() string { return exposition(t, m) }, "30s").Should(ContainSubstring("breaker_open a:1 0"))
}

func TestMetricsOfAFullQueue(t *testing.T) {
	g := NewWithT(t)
	f := newFakeNode()
	m := newMetrics()
	f.metrics = m.ofNode("a:1")
	m.nodes = func() map[string]*node { return map[string]*node{"a:1": f.node} }
	admit := f.holdBatches()
	causes := make(chan store.Cause, 2*maxQueued)
	for range 2 * maxQueued {
		go func() { causes <- f.ask(t.Context(), time.Hour) }()
	}
	g.Eventually(func() string { return exposition(t, m) }, "30s").Should(ContainSubstring("queue_length a:1 %d\n", maxQueued))
	close(admit)
	rejected := 0
	for range 2 * maxQueued {
		var cause store.Cause
		g.Eventually(causes, "30s").Should(Receive(&cause))
		if cause == store.CauseQueue {
			rejected++
		}
	}
	g.Expect(testutil.ToFloat64(m.rejections)).To(Equal(float64(rejected)))
	g.Expect(exposition(t, m)).To(ContainSubstring("queue_length a:1 0\n"))
}

// The series of a node that gets no calls any more disappear.
func TestMetricsForgetNodesThatAreGone(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster := testenv.StartRedisCluster(t)
	client, err := redisclient.New(cluster.URL, time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	backend := newStore(client)
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 1_000_000)})
	for _, node := range cluster.Nodes[:2] {
		_, err := backend.Evaluate(t.Context(), storetest.SpendOne(policy, store.Key(cluster.KeyOn(node, "caller"))))
		g.Expect(err).NotTo(HaveOccurred())
	}
	first, second := cluster.Nodes[0].Addr, cluster.Nodes[1].Addr
	g.Expect(exposition(t, backend.metrics)).To(And(
		ContainSubstring("round_trip_duration_seconds "+first+" 1\n"), ContainSubstring("round_trip_duration_seconds "+second+" 1\n")))
	key := store.Key(cluster.KeyOn(cluster.Nodes[0], "caller"))
	gone := backend.route(t.Context(), key)
	gone.mu.Lock()
	gone.latest = time.Now().Add(-nodeLife - time.Minute)
	gone.mu.Unlock()
	g.Expect(exposition(t, backend.metrics)).To(And(Not(ContainSubstring(first)), ContainSubstring(second)))
	_, err = backend.Evaluate(t.Context(), storetest.SpendOne(policy, key))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(exposition(t, backend.metrics)).To(ContainSubstring("round_trip_duration_seconds " + first + " 1\n"))
}

func TestObservingARoundTripAllocatesNothing(t *testing.T) {
	m := newMetrics().ofNode("a:1")
	outcomes := make([]outcome, maxBatchCalls)
	NewWithT(t).Expect(testenv.FewestAllocations(func() { m.observe(time.Millisecond, outcomes) })).To(BeZero())
}
