// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/script"
	"github.com/weir-dev/weir/internal/testenv"
)

// onRedis is an engine on a real one.
type onRedis struct {
	*engine.Engine
	client redis.UniversalClient
	server *testenv.Redis
}

func newOnRedis(t *testing.T, plans ...*plan.Plan) *onRedis {
	t.Helper()
	server := testenv.StartRedis(t)
	client, err := redisclient.New(server.URL, time.Second)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	store := script.NewStore(client, "weir:")
	r := &onRedis{client: client, server: server, Engine: engine.New(engine.Options{
		Store: store, Registerer: prometheus.NewRegistry(),
		Logger: slog.New(slog.DiscardHandler), StoreTimeout: time.Second,
	})}
	r.Use(plan.NewSnapshot(7, plans))
	return r
}

func (r *onRedis) decide(t *testing.T, check *limiter.Check) *limiter.Decision {
	t.Helper()
	d, err := r.Decide(t.Context(), check)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return d
}

func (r *onRedis) inspect(t *testing.T, id string, key []string, a plan.Attributes) *limiter.KeyState {
	t.Helper()
	state, err := r.Inspect(t.Context(), id, key, a)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return state
}

var alice = []string{"alice"}

func TestInspect(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/x", keyed(apiKey), func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 },
		overridden(limits(plan.LimitOverride{Name: "burst", Threshold: 10}), allow(keys("root")), deny(cidrs("192.0.2.0/24")))))
	state := r.inspect(t, "a/x", alice, plan.Attributes{})
	g.Expect(state).To(Equal(&limiter.KeyState{Policy: "a/x", Revision: 7, Limits: []limiter.LimitState{{
		Policy: "a/x", Limit: "burst", Algorithm: plan.FixedWindow, Allowed: true,
		Remaining: 3, Quota: 3, Threshold: 3, Window: time.Minute, RemainingAfterWaiting: 3,
	}}}))
	g.Expect(r.client.DBSize(t.Context()).Val()).To(BeZero(), "nothing was written")

	for range 3 {
		r.decide(t, named("a/x"))
	}
	state = r.inspect(t, "a/x", alice, plan.Attributes{})
	g.Expect(state.Blocked).To(BeFalse())
	g.Expect(state.Limits[0].Allowed).To(BeFalse())
	g.Expect(state.Limits[0].Used).To(Equal(int64(3)))
	g.Expect(state.Limits[0].RetryAfter).To(BeNumerically("~", time.Minute, 10*time.Second))

	state = r.inspect(t, "a/x", alice, plan.Attributes{Principal: "gold"})
	g.Expect([]string{state.Override, string(state.Action)}).To(Equal([]string{"gold", "Limit"}))
	g.Expect(state.Limits[0].Remaining).To(Equal(int64(7)))
	state = r.inspect(t, "a/x", []string{"root"}, plan.Attributes{})
	g.Expect([]string{state.Override, string(state.Action)}).To(Equal([]string{"allowed", "Allow"}))
	g.Expect(state.Limits).To(HaveLen(1))
	state = r.inspect(t, "a/x", alice, from("::ffff:192.0.2.1"))
	g.Expect([]string{state.Override, string(state.Action)}).To(Equal([]string{"denied", "Deny"}))

	g.Expect(r.decide(t, named("a/x")).Allowed).To(BeFalse())
	state = r.inspect(t, "a/x", alice, plan.Attributes{})
	g.Expect(state.Blocked).To(BeTrue())
	g.Expect(state.BlockedBy).To(Equal("burst"))
	g.Expect(state.BlockLeft).To(BeNumerically("~", 10*time.Minute, 10*time.Second))
	g.Expect(r.inspect(t, "a/x", []string{"bob"}, plan.Attributes{}).Blocked).To(BeFalse())
}

// What Inspect says does not depend on chance.
func TestInspectSuppressed(t *testing.T) {
	g := NewWithT(t)
	shed := three(plan.Suppressed)
	shed.HardLimitPercent = 1000
	r := newOnRedis(t, makePlan("a/x", limited(shed)))
	for range 100 {
		r.decide(t, named("a/x"))
	}
	for range 10 {
		state := r.inspect(t, "a/x", alice, plan.Attributes{})
		g.Expect(state.Limits[0].Allowed).To(BeTrue())
		g.Expect(state.Limits[0].SuppressionFactor).To(BeNumerically(">", 0.9))
	}
}

func TestReset(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/x", func(p *plan.Plan) {
		p.Limits[0].BlockMillis = 600_000
		p.Limits = append(p.Limits, three(plan.SlidingLog), three(plan.TokenBucket))
		p.Limits[1].Name, p.Limits[2].Name = "log", "tokens"
		p.Limits[1].Threshold, p.Limits[2].Burst = 100, 100
	}, overridden(limits(plan.LimitOverride{Name: "burst", WindowMillis: 120_000}))))
	gold := named("a/x")
	gold.Attributes.Principal = "gold"
	r.decide(t, gold)
	for range 4 {
		r.decide(t, named("a/x"))
	}
	g.Expect(r.decide(t, named("a/x")).Reason).To(Equal(limiter.ReasonBlocked))
	r.decide(t, &limiter.Check{Policies: []string{"a/x"}, Key: []string{"bob"}, Cost: 1})

	g.Expect(r.Reset(t.Context(), "a/x", alice)).To(BeTrue())
	keys := r.client.Keys(t.Context(), "*").Val()
	g.Expect(keys).To(HaveLen(3))
	g.Expect(keys).To(HaveEach(ContainSubstring("{bob}")), "nothing else is touched")
	g.Expect(r.decide(t, named("a/x")).Limits[0].Used).To(Equal(int64(1)))
	g.Expect(r.Reset(t.Context(), "a/x", alice)).To(BeTrue())
	g.Expect(r.Reset(t.Context(), "a/x", alice)).To(BeFalse(), "there was nothing left")
}

func TestBlockByHand(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/x", keyed(apiKey)))
	r.decide(t, named("a/x"))
	g.Expect(r.Block(t.Context(), "a/x", alice, time.Hour)).To(Succeed())
	d := r.decide(t, named("a/x"))
	g.Expect([]string{string(d.Reason), d.Policy, d.Limit}).To(Equal([]string{"Blocked", "a/x", ""}))
	g.Expect(d.RetryAfter).To(BeNumerically("~", time.Hour, 10*time.Second))
	d = r.decide(t, &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Attributes: withKey("alice")})
	g.Expect(d.Reason).To(Equal(limiter.ReasonBlocked), "a derived key is the same key")
	state := r.inspect(t, "a/x", alice, plan.Attributes{})
	g.Expect(state.Blocked).To(BeTrue())
	g.Expect(state.BlockedBy).To(BeEmpty())

	g.Expect(r.Block(t.Context(), "a/x", alice, time.Minute)).To(Succeed())
	g.Expect(r.inspect(t, "a/x", alice, plan.Attributes{}).BlockLeft).To(BeNumerically("<=", time.Minute+time.Millisecond), "in place of the other")
	g.Expect(r.Unblock(t.Context(), "a/x", alice)).To(BeTrue())
	g.Expect(r.Unblock(t.Context(), "a/x", alice)).To(BeFalse())
	d = r.decide(t, named("a/x"))
	g.Expect(d.Allowed).To(BeTrue())
	g.Expect(d.Limits[0].Used).To(Equal(int64(2)), "what was spent stays spent")
}

func TestStateOfWhichKey(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/shared"), makePlan("a/off", keyed(apiKey), mode(plan.ModeDisabled)), makePlan("a/keyed", keyed(apiKey)))
	r.decide(t, &limiter.Check{Policies: []string{"a/shared"}, Cost: 2})
	g.Expect(r.inspect(t, "a/shared", nil, plan.Attributes{}).Limits[0].Used).To(Equal(int64(2)))
	g.Expect(r.inspect(t, "a/shared", alice, plan.Attributes{}).Limits[0].Used).To(BeZero())
	g.Expect(r.Reset(t.Context(), "a/shared", nil)).To(BeTrue())

	g.Expect(r.Block(t.Context(), "a/off", alice, time.Hour)).To(Succeed())
	g.Expect(r.inspect(t, "a/off", alice, plan.Attributes{}).Blocked).To(BeTrue(), "a Disabled policy has states, too")
	g.Expect(r.decide(t, named("a/off")).Reason).To(Equal(limiter.ReasonDisabled))
	g.Expect(r.Reset(t.Context(), "a/off", alice)).To(BeTrue())

	parts := []string{"a|b", "c:{d}"}
	r.decide(t, &limiter.Check{Policies: []string{"a/keyed"}, Key: parts, Cost: 1})
	g.Expect(r.inspect(t, "a/keyed", parts, plan.Attributes{}).Limits[0].Used).To(Equal(int64(1)))
}

func TestMalformedOperations(t *testing.T) {
	r := newOnRedis(t, makePlan("a/keyed", keyed(apiKey)))
	operations := map[string]func(id string, key []string) error{
		"inspect": func(id string, key []string) error {
			_, err := r.Inspect(t.Context(), id, key, plan.Attributes{})
			return err
		},
		"reset": func(id string, key []string) error {
			_, err := r.Reset(t.Context(), id, key)
			return err
		},
		"block": func(id string, key []string) error { return r.Block(t.Context(), id, key, time.Hour) },
		"unblock": func(id string, key []string) error {
			_, err := r.Unblock(t.Context(), id, key)
			return err
		},
	}
	for name, operation := range operations {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for _, key := range [][]string{nil, {}, {""}, {"a\n"}, {"\xff"}, make([]string, 9)} {
				var invalid *limiter.FieldError
				g.Expect(errors.As(operation("a/keyed", key), &invalid)).To(BeTrue())
				g.Expect(invalid.Field).To(HavePrefix("key"))
			}
			g.Expect(operation("a/none", alice)).To(MatchError(&limiter.UnknownPolicyError{Policy: "a/none"}))
			g.Expect(r.client.DBSize(t.Context()).Val()).To(BeZero())
		})
	}
	for _, length := range []time.Duration{0, -time.Second, time.Millisecond - 1, time.Millisecond + 1, plan.MaxWindow + time.Millisecond} {
		err := r.Block(t.Context(), "a/keyed", alice, length)
		NewWithT(t).Expect(err).To(MatchError("duration: must be whole milliseconds, 1ms to 720h"), length.String())
	}
	for _, length := range []time.Duration{time.Millisecond, plan.MaxWindow} {
		NewWithT(t).Expect(r.Block(t.Context(), "a/keyed", alice, length)).To(Succeed())
	}
	r.server.Stop()
	for name, operation := range operations {
		var failure *script.StoreError
		NewWithT(t).Expect(errors.As(operation("a/keyed", alice), &failure)).To(BeTrue(), name)
	}
	unready := newFixture()
	_, err := unready.Inspect(t.Context(), "a/x", alice, plan.Attributes{})
	NewWithT(t).Expect(err).To(MatchError(limiter.ErrNotReady))
}
