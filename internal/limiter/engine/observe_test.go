// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/observe"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/denialcache"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/test/testenv"
)

// observer records what it is called with.
type observer struct {
	engine.Observer

	denied []string
	blocks []string
	ends   []time.Time
}

func (o *observer) Deny(policy string, key store.Key) {
	o.denied = append(o.denied, policy+" "+string(key))
}

func (o *observer) Block(policy string, key store.Key, end time.Time) {
	o.blocks = append(o.blocks, policy+" "+string(key))
	o.ends = append(o.ends, end)
}

// observed returns an engine on a real Redis with denials from memory, and with the observer.
func observed(tb testing.TB, observer engine.Observer, plans ...*plan.Plan) *engine.Engine {
	tb.Helper()
	client, err := redisclient.New(testenv.StartRedis(tb).URL, time.Minute)
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	tb.Cleanup(func() { _ = client.Close() })
	backend := redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir:", Timeout: time.Minute})
	e := engine.New(engine.Options{
		Store: denialcache.New(backend, time.Now), Registerer: prometheus.NewRegistry(),
		Logger: slog.New(slog.DiscardHandler), Observer: observer,
	})
	e.Use(index.NewSnapshot(1, plans))
	return e
}

func decideTimes(t *testing.T, e *engine.Engine, n int, check limiter.Check) {
	t.Helper()
	for range n {
		_, err := e.Decide(t.Context(), &check)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	}
}

// Denials are observed, by Redis and from memory, also in mode Shadow; a block is when it begins.
// Admissions and peeks are not observed.
func TestDenialsAreObserved(t *testing.T) {
	g, o := NewWithT(t), &observer{}
	blocking := func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 }
	shadow := func(p *plan.Plan) { p.Mode = plan.ModeShadow }
	e := observed(t, o, makePlan("a/x", keyed(apiKey), blocking), makePlan("a/shadow", keyed(apiKey), shadow))
	check := limiter.Check{Policies: []string{"a/x"}, Key: []string{"alice"}, Cost: 1}
	decideTimes(t, e, 3, check)
	g.Expect(o.denied).To(BeEmpty())
	decideTimes(t, e, 3, check)
	g.Expect(o.denied).To(Equal([]string{"a/x alice", "a/x alice", "a/x alice"}))
	g.Expect(o.blocks).To(Equal([]string{"a/x alice"}), "only the first of the denials begins the block")
	g.Expect(o.ends[0]).To(BeTemporally("~", time.Now().Add(10*time.Minute), time.Minute))
	check.Peek = true
	decideTimes(t, e, 3, check)
	g.Expect(o.denied).To(HaveLen(3))
	decideTimes(t, e, 4, limiter.Check{Policies: []string{"a/shadow"}, Key: []string{"bob"}, Cost: 1})
	g.Expect(o.denied[3:]).To(Equal([]string{"a/shadow bob"}))
}

// Of a check by Envoy, only the descriptors that are charged are observed.
func TestPeekedDescriptorsAreNotObserved(t *testing.T) {
	g, o := NewWithT(t), &observer{}
	byDescriptor := func(name string) *plan.Plan {
		return makePlan("a/"+name, keyed(plan.KeyPart{Type: plan.KeyDescriptor, Descriptor: name}),
			matching(plan.Match{Domain: "edge", Descriptors: []plan.EntryMatch{{Key: name}}}))
	}
	e := observed(t, o, byDescriptor("user"), byDescriptor("team"))
	check := limiter.Check{
		Attributes: plan.Attributes{Domain: "edge", Descriptors: []plan.Descriptor{{{Key: "user", Value: "alice"}}, {{Key: "team", Value: "x"}}}},
		Hits:       []limiter.Hits{{Cost: 1}, {Cost: 1}},
	}
	decideTimes(t, e, 3, check)
	check.Hits[1].Peek = true
	decideTimes(t, e, 2, check)
	g.Expect(o.denied).To(Equal([]string{"a/user alice", "a/user alice"}))
}

func TestDecisionsAreCountedByPolicy(t *testing.T) {
	g := NewWithT(t)
	e := observed(t, &observer{}, makePlan("a/x", keyed(apiKey)), makePlan("a/unused"), makePlan("a/strict", trying(1)), makePlan("a/wide", trying(5)),
		makePlan("a/shadow", keyed(apiKey), func(p *plan.Plan) { p.Mode = plan.ModeShadow }))
	decideTimes(t, e, 5, limiter.Check{Policies: []string{"a/x"}, Key: []string{"alice"}, Cost: 1})
	decideTimes(t, e, 4, limiter.Check{Policies: []string{"a/shadow"}, Key: []string{"alice"}, Cost: 1})
	for range 4 {
		decideTimes(t, e, 1, *named("a/strict"))
		decideTimes(t, e, 1, *named("a/wide"))
		e.AwaitBackground()
	}
	got := map[string]limiter.DecisionCounts{}
	e.Decisions(func(policy string, n limiter.DecisionCounts) { got[policy] = n })
	g.Expect(got).To(Equal(map[string]limiter.DecisionCounts{
		"a/x": {Allowed: 3, Denied: 2}, "a/shadow": {Allowed: 3, ShadowDenied: 1},
		"a/strict": {Allowed: 3, Denied: 1, CandidateDenied: 2}, "a/wide": {Allowed: 3, Denied: 1, CandidateAllowed: 1},
	}))
}

// BenchmarkObserve measures the same decisions without and with a collector, in alternating rounds:
// compare the medians of "off" and "on".
func BenchmarkObserve(b *testing.B) {
	for name, key := range map[string]func(i int) string{
		"denied":   func(int) string { return "alice" },
		"spread":   func(i int) string { return fmt.Sprint("user-", i%5000) },
		"admitted": func(i int) string { return fmt.Sprint("user-", i) },
	} {
		engines := map[string]*engine.Engine{"off": observed(b, nil, makePlan("a/x", keyed(apiKey)))}
		engines["on"] = collecting(b, makePlan("a/x", keyed(apiKey)))
		for round := range 6 {
			order := []string{"off", "on"}
			if round%2 == 1 {
				order = []string{"on", "off"}
			}
			for _, mode := range order {
				b.Run(fmt.Sprint(name, "/", mode), func(b *testing.B) {
					b.ReportAllocs()
					for i := range b.N {
						_, _ = engines[mode].Decide(b.Context(), &limiter.Check{Policies: []string{"a/x"}, Key: []string{key(i)}, Cost: 1})
					}
				})
			}
		}
	}
}

// collecting returns an engine with a collector that is started.
func collecting(b *testing.B, plans ...*plan.Plan) *engine.Engine {
	b.Helper()
	client, err := redisclient.New(testenv.StartRedis(b).URL, time.Second)
	NewWithT(b).Expect(err).NotTo(HaveOccurred())
	b.Cleanup(func() { _ = client.Close() })
	c := observe.New(observe.Options{
		Blocks: redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir:", Timeout: time.Second}),
		Redis:  client, Prefix: "weir:", Replica: "me", Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	e := observed(b, c, plans...)
	c.Watch(e.Decisions)
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	b.Cleanup(func() {
		stop()
		NewWithT(b).Expect(<-done).To(Succeed())
	})
	return e
}
