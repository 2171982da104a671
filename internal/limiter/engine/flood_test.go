// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/flood"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/test/testenv"
)

// clientCheck returns a check of the client with that name.
func clientCheck(name string) *limiter.Check {
	return &limiter.Check{Policies: []string{"a/x"}, Key: []string{name}, Cost: 1}
}

// newFloodFixture is newFixture with protection from floods.
func newFloodFixture(limits flood.Limits, memoryLow func() bool) *fixture {
	f := newFixture()
	f.registry = prometheus.NewRegistry()
	f.Engine = engine.New(engine.Options{
		Store: f.store, Registerer: f.registry, Logger: slog.New(slog.DiscardHandler), Floods: limits, MemoryLow: memoryLow,
	})
	return f
}

// A policy that has begun too many keys decides unknown ones by one budget, without writing state
// for them. Known keys and other policies keep their own budgets.
func TestAFloodOfNewKeys(t *testing.T) {
	g := NewWithT(t)
	f := newFloodFixture(flood.Limits{PerMinute: 100}, nil)
	f.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x", keyed(apiKey)), makePlan("a/other", keyed(apiKey))}))
	for range 20 {
		f.decide(t, clientCheck("known")) // is new only once
	}
	allowed, overflow := 0, 0
	for i := range 200 {
		d := f.decide(t, clientCheck(fmt.Sprint("invented-", i)))
		if d.Allowed {
			allowed++
		}
		if d.Limits[0].Overflow {
			overflow++
		}
	}
	g.Expect([]int{allowed, overflow}).To(Equal([]int{99 + 3, 101}), "the policy admits three for each key")
	g.Expect(f.decide(t, clientCheck("known")).Limits[0].Overflow).To(BeFalse())
	other := clientCheck("invented-150")
	other.Policies = []string{"a/other"}
	g.Expect(f.decide(t, other).Limits[0].Overflow).To(BeFalse())

	text := exposition(g, f.registry)
	g.Expect(text).To(ContainSubstring(`weir_new_keys_total{namespace="a",policy="x"} 100`))
	g.Expect(text).To(ContainSubstring(`weir_overflow_decisions_total{namespace="a",policy="x"} 101`))

	f.Use(index.NewSnapshot(2, []*plan.Plan{makePlan("a/x", keyed(apiKey), threshold(50))}))
	g.Expect(f.decide(t, clientCheck("invented-199")).Limits[0].Overflow).To(BeTrue(), "an edit does not renew the budget")
}

// The overflow budget is the policy's own, whatever override the unknown key would have.
func TestOverflowIgnoresOverrides(t *testing.T) {
	g := NewWithT(t)
	low := false
	f := newFloodFixture(flood.Limits{}, func() bool { return low })
	f.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x", keyed(apiKey), overridden(limits(plan.LimitOverride{Name: "burst", Threshold: 1000})))}))
	gold := func() limiter.LimitState {
		check := clientCheck("gold")
		check.Attributes.Principal = "gold"
		return f.decide(t, check).Limits[0]
	}
	g.Expect(gold().Threshold).To(Equal(int64(1000)))
	low = true
	g.Expect(gold().Threshold).To(Equal(int64(1000)), "a known key")
	f.store.now = f.store.now.Add(time.Hour)
	state := gold()
	g.Expect([]any{state.Threshold, state.Override, state.Overflow}).To(Equal([]any{int64(3), "", true}))
	low = false
	g.Expect(gold().Threshold).To(Equal(int64(1000)))
}

// floodTest is an engine whose Redis has little memory, with a policy of 30 an hour for each client.
type floodTest struct {
	*engine.Engine
	client redis.UniversalClient
	memory *flood.Memory
}

func newFloodTest(t *testing.T, maxMemory string) *floodTest {
	t.Helper()
	g := NewWithT(t)
	server := testenv.StartRedis(t, "--maxmemory", maxMemory, "--maxmemory-policy", "noeviction")
	client, err := redisclient.New(server.URL, time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir:", Timeout: time.Minute})
	f := &floodTest{client: client, memory: flood.NewMemory(redisclient.MemoryUse(client, slog.New(slog.DiscardHandler), nil), slog.New(slog.DiscardHandler))}
	f.Engine = engine.New(engine.Options{
		Store: store, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler), MemoryLow: f.memory.Low,
	})
	f.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x", keyed(apiKey), limited(plan.Limit{
		Name: "hourly", Algorithm: plan.FixedWindow, Threshold: 30, WindowMillis: time.Hour.Milliseconds(),
	}))}))
	ended := make(chan error, 1)
	go func() { ended <- f.memory.Start(t.Context()) }()
	t.Cleanup(func() { NewWithT(t).Eventually(ended, "30s").Should(Receive(BeNil())) })
	return f
}

// While new keys flood a Redis with little memory, it never runs out of it, and known clients get
// exactly their quota.
func TestAFloodDoesNotFillRedis(t *testing.T) {
	g := NewWithT(t)
	f := newFloodTest(t, "16mb")
	const clients, most = 20, 30
	admitted := make([]atomic.Int64, clients)
	ask := func(name string) *limiter.Decision {
		d, err := f.Decide(t.Context(), clientCheck(name))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(d.Degraded).To(BeEmpty())
		return d
	}
	known := func(i int) {
		if ask(fmt.Sprint("known-", i)).Allowed {
			admitted[i].Add(1)
		}
	}
	for i := range clients {
		known(i)
	}
	g.Expect(f.client.SetRange(t.Context(), "ballast", 10<<20, "x").Err()).To(Succeed())
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for sender := range 4 {
		wait.Go(func() {
			pace := time.NewTicker(time.Millisecond)
			defer pace.Stop()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-pace.C:
					ask(fmt.Sprintf("an-invented-client-with-a-name-of-50-bytes-%d-%d", sender, i))
				}
			}
		})
	}
	g.Eventually(f.memory.Low, "60s", "100ms").Should(BeTrue())
	before := f.client.DBSize(t.Context()).Val()
	for range 2 * most {
		for i := range clients {
			known(i)
		}
	}
	after := f.client.DBSize(t.Context()).Val()
	close(stop)
	wait.Wait()
	for i := range admitted {
		g.Expect(admitted[i].Load()).To(Equal(int64(most)), "client %d", i)
	}
	g.Expect(after-before).To(BeNumerically("<", 100), "unknown keys write nothing")
	g.Expect(slices.Contains(f.client.Keys(t.Context(), "*#a/x#0*").Val(), "weir:1:c:{#a/x#0}:a/x:hourly:fw:1h")).To(BeTrue())
}

// Requested limits give no more keys a state than the limit of the policy: during a flood, and while
// the store is low on memory. All states live longer than a minute.
func TestFloodsOfKeysWithRequestedLimits(t *testing.T) {
	hourly := func(p *plan.Plan) { p.Limits[0].WindowMillis = time.Hour.Milliseconds() }
	for _, a := range allAlgorithms {
		for _, low := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, memory low %v", a, low), func(t *testing.T) {
				g := NewWithT(t)
				var overflows []int
				for _, requests := range []bool{false, true} {
					f := newFloodFixture(flood.Limits{PerMinute: 100}, func() bool { return low })
					f.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x", limited(three(a)), byUser, hourly)}))
					overflow := 0
					for i := range 1000 {
						check := requestingNothing()
						if requests {
							check = requesting(2, time.Hour)
						}
						check.Attributes.Descriptors[0][0].Value = fmt.Sprint("invented-", i)
						if f.decide(t, check).Limits[0].Overflow {
							overflow++
						}
					}
					overflows = append(overflows, overflow)
				}
				want := 900
				if low {
					want = 1000
				}
				g.Expect(overflows).To(Equal([]int{want, want}))
			})
		}
	}
}
