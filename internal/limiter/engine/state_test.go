// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
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
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/test/testenv"
)

// onRedis is an engine with a real Redis.
type onRedis struct {
	*engine.Engine
	client   redis.UniversalClient
	server   *testenv.Redis
	registry *prometheus.Registry
}

func newOnRedis(tb testing.TB, plans ...*plan.Plan) *onRedis {
	tb.Helper()
	return newOnServer(tb, testenv.StartRedis(tb), plans...)
}

func newOnServer(tb testing.TB, server *testenv.Redis, plans ...*plan.Plan) *onRedis {
	tb.Helper()
	client, err := redisclient.New(server.URL, time.Minute)
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	tb.Cleanup(func() { _ = client.Close() })
	backend := redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir:", Timeout: time.Minute})
	r := &onRedis{client: client, server: server, registry: prometheus.NewRegistry()}
	r.Engine = engine.New(engine.Options{
		Store: backend, Holds: backend, Registerer: r.registry, Logger: slog.New(slog.DiscardHandler),
	})
	r.Use(index.NewSnapshot(7, plans))
	return r
}

func (r *onRedis) decide(t *testing.T, check *limiter.Check) *limiter.Decision {
	t.Helper()
	d, err := r.Decide(t.Context(), check)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return d
}

func (r *onRedis) inspect(t *testing.T, id string, key limiter.KeyName, a plan.Attributes) *limiter.KeyState {
	t.Helper()
	state, err := r.Inspect(t.Context(), id, key, a)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return state
}

var alice = limiter.KeyName{Parts: []string{"alice"}}

func TestInspectShowsAFreshKeyAndWritesNothing(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/x", keyed(apiKey)))
	state := r.inspect(t, "a/x", alice, plan.Attributes{})
	g.Expect(state).To(Equal(&limiter.KeyState{Policy: "a/x", Revision: 7, Limits: []limiter.LimitState{{
		Policy: "a/x", Limit: "burst", Algorithm: plan.FixedWindow, Allowed: true,
		Remaining: 3, Quota: 3, Threshold: 3, Window: time.Minute, RemainingAfterWaiting: 3,
	}}}))
	g.Expect(r.client.DBSize(t.Context()).Val()).To(BeZero())
}

func TestInspectShowsAnExhaustedLimit(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/x", keyed(apiKey)))
	for range 3 {
		r.decide(t, named("a/x"))
	}
	state := r.inspect(t, "a/x", alice, plan.Attributes{})
	g.Expect(state.Blocked).To(BeFalse())
	g.Expect(state.Limits[0].Allowed).To(BeFalse())
	g.Expect(state.Limits[0].Used).To(Equal(int64(3)))
	g.Expect(state.Limits[0].RetryAfter).To(BeNumerically("~", time.Minute, 10*time.Second))
}

func TestInspectShowsTheOverride(t *testing.T) {
	r := newOnRedis(t, makePlan("a/x", keyed(apiKey), overridden(
		limits(plan.LimitOverride{Name: "burst", Threshold: 10}), allow(keys("root")), deny(cidrs("192.0.2.0/24")))))
	for name, tc := range map[string]struct {
		key        limiter.KeyName
		attributes plan.Attributes
		override   string
		action     plan.Action
		remaining  int64
	}{
		"other limits": {key: alice, attributes: plan.Attributes{Principal: "gold"}, override: "gold", action: plan.ActionLimit, remaining: 10},
		"allow":        {key: limiter.KeyName{Parts: []string{"root"}}, override: "allowed", action: plan.ActionAllow, remaining: 3},
		"deny":         {key: alice, attributes: from("::ffff:192.0.2.1"), override: "denied", action: plan.ActionDeny, remaining: 3},
		"no override":  {key: alice, remaining: 3},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			state := r.inspect(t, "a/x", tc.key, tc.attributes)
			g.Expect(state.Override).To(Equal(tc.override))
			g.Expect(state.Action).To(Equal(tc.action))
			g.Expect(state.Limits).To(HaveLen(1))
			g.Expect(state.Limits[0].Remaining).To(Equal(tc.remaining))
		})
	}
}

func TestInspectShowsABlockOfThatKeyOnly(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/x", keyed(apiKey), func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 }))
	for range 4 {
		r.decide(t, named("a/x"))
	}
	state := r.inspect(t, "a/x", alice, plan.Attributes{})
	g.Expect(state.Blocked).To(BeTrue())
	g.Expect(state.BlockedBy).To(Equal("burst"))
	g.Expect(state.BlockLeft).To(BeNumerically("~", 10*time.Minute, 10*time.Second))
	g.Expect(r.inspect(t, "a/x", limiter.KeyName{Parts: []string{"bob"}}, plan.Attributes{}).Blocked).To(BeFalse())
}

// A Suppressed limit sheds at random, but a state is the same each time.
func TestInspectIsNotRandom(t *testing.T) {
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

// resettable has three limits with different kinds of state, a block, and an override with a
// window of its own.
func resettable() *plan.Plan {
	return makePlan("a/x", func(p *plan.Plan) {
		p.Limits[0].BlockMillis = 600_000
		p.Limits = append(p.Limits, three(plan.SlidingLog), three(plan.TokenBucket))
		p.Limits[1].Name, p.Limits[2].Name = "log", "tokens"
		p.Limits[1].Threshold, p.Limits[2].Burst = 100, 100
	}, overridden(limits(plan.LimitOverride{Name: "burst", WindowMillis: 120_000})))
}

func TestResetDeletesEveryStateOfTheKeyOnly(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, resettable())
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
	g.Expect(keys).To(HaveEach(ContainSubstring("{bob}")), "other keys are not touched")
	g.Expect(r.decide(t, named("a/x")).Limits[0].Used).To(Equal(int64(1)))
}

func TestResetReportsWhetherAnyStateExisted(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, resettable())
	r.decide(t, named("a/x"))
	g.Expect(r.Reset(t.Context(), "a/x", alice)).To(BeTrue())
	g.Expect(r.Reset(t.Context(), "a/x", alice)).To(BeFalse())
}

func TestBlockDeniesTheKey(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/x", keyed(apiKey)))
	g.Expect(r.Block(t.Context(), "a/x", alice, time.Hour)).To(Succeed())
	d := r.decide(t, named("a/x"))
	g.Expect([]string{string(d.Reason), d.Policy, d.Limit}).To(Equal([]string{"Blocked", "a/x", ""}))
	g.Expect(d.RetryAfter).To(BeNumerically("~", time.Hour, 10*time.Second))
	d = r.decide(t, &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Attributes: withKey("alice")})
	g.Expect(d.Reason).To(Equal(limiter.ReasonBlocked), "a derived key is the same key")
	state := r.inspect(t, "a/x", alice, plan.Attributes{})
	g.Expect(state.Blocked).To(BeTrue())
	g.Expect(state.BlockedBy).To(BeEmpty())
}

func TestBlockReplacesABlock(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/x", keyed(apiKey)))
	g.Expect(r.Block(t.Context(), "a/x", alice, time.Hour)).To(Succeed())
	g.Expect(r.Block(t.Context(), "a/x", alice, time.Minute)).To(Succeed())
	g.Expect(r.inspect(t, "a/x", alice, plan.Attributes{}).BlockLeft).To(BeNumerically("<=", time.Minute))
}

func TestUnblockKeepsCounters(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/x", keyed(apiKey)))
	r.decide(t, named("a/x"))
	g.Expect(r.Block(t.Context(), "a/x", alice, time.Hour)).To(Succeed())
	g.Expect(r.Unblock(t.Context(), "a/x", alice)).To(BeTrue())
	g.Expect(r.Unblock(t.Context(), "a/x", alice)).To(BeFalse(), "no block is left")
	d := r.decide(t, named("a/x"))
	g.Expect(d.Allowed).To(BeTrue())
	g.Expect(d.Limits[0].Used).To(Equal(int64(2)))
}

func TestStateOfAPolicyWithoutKey(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/shared"))
	r.decide(t, &limiter.Check{Policies: []string{"a/shared"}, Cost: 2})
	g.Expect(r.inspect(t, "a/shared", limiter.KeyName{}, plan.Attributes{}).Limits[0].Used).To(Equal(int64(2)))
	g.Expect(r.inspect(t, "a/shared", alice, plan.Attributes{}).Limits[0].Used).To(BeZero())
	g.Expect(r.Reset(t.Context(), "a/shared", limiter.KeyName{})).To(BeTrue())
}

func TestStateOfADisabledPolicy(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/off", keyed(apiKey), mode(plan.ModeDisabled)))
	g.Expect(r.Block(t.Context(), "a/off", alice, time.Hour)).To(Succeed())
	g.Expect(r.inspect(t, "a/off", alice, plan.Attributes{}).Blocked).To(BeTrue())
	g.Expect(r.decide(t, named("a/off")).Reason).To(Equal(limiter.ReasonDisabled))
	g.Expect(r.Reset(t.Context(), "a/off", alice)).To(BeTrue())
}

func TestStateOfAKeyWithSeparators(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/keyed", keyed(apiKey)))
	parts := []string{"a|b", "c:{d}"}
	r.decide(t, &limiter.Check{Policies: []string{"a/keyed"}, Key: parts, Cost: 1})
	g.Expect(r.inspect(t, "a/keyed", limiter.KeyName{Parts: parts}, plan.Attributes{}).Limits[0].Used).To(Equal(int64(1)))
}

// stateCall is Inspect, Reset, Block or Unblock.
type stateCall func(ctx context.Context, id string, key limiter.KeyName) error

func stateCalls(e *engine.Engine) map[string]stateCall {
	return map[string]stateCall{
		"inspect": func(ctx context.Context, id string, key limiter.KeyName) error {
			_, err := e.Inspect(ctx, id, key, plan.Attributes{})
			return err
		},
		"reset": func(ctx context.Context, id string, key limiter.KeyName) error {
			_, err := e.Reset(ctx, id, key)
			return err
		},
		"block": func(ctx context.Context, id string, key limiter.KeyName) error {
			return e.Block(ctx, id, key, time.Hour)
		},
		"unblock": func(ctx context.Context, id string, key limiter.KeyName) error {
			_, err := e.Unblock(ctx, id, key)
			return err
		},
	}
}

func TestStateCallsRejectInvalidTargets(t *testing.T) {
	r := newOnRedis(t, makePlan("a/keyed", keyed(apiKey)))
	for name, call := range stateCalls(r.Engine) {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for _, key := range [][]string{nil, {}, {""}, {"a\n"}, {"\xff"}, make([]string, 9)} {
				var invalid *limiter.FieldError
				g.Expect(errors.As(call(t.Context(), "a/keyed", limiter.KeyName{Parts: key}), &invalid)).To(BeTrue())
				g.Expect(invalid.Field).To(HavePrefix("key"))
			}
			g.Expect(call(t.Context(), "a/none", alice)).To(MatchError(&limiter.UnknownPolicyError{Policy: "a/none"}))
			g.Expect(r.client.DBSize(t.Context()).Val()).To(BeZero())
		})
	}
}

func TestBlockRejectsInvalidDurations(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/keyed", keyed(apiKey)))
	for _, length := range []time.Duration{0, -time.Second, time.Millisecond - 1, time.Millisecond + 1, plan.MaxWindow + time.Millisecond} {
		err := r.Block(t.Context(), "a/keyed", alice, length)
		g.Expect(err).To(MatchError("duration: must be whole milliseconds, 1ms to 720h"), length.String())
	}
	for _, length := range []time.Duration{time.Millisecond, plan.MaxWindow} {
		g.Expect(r.Block(t.Context(), "a/keyed", alice, length)).To(Succeed())
	}
}

func TestStateCallsReportAnUnreachableRedis(t *testing.T) {
	r := newOnRedis(t, makePlan("a/keyed", keyed(apiKey)))
	r.server.Stop()
	for name, call := range stateCalls(r.Engine) {
		var failure *store.Error
		NewWithT(t).Expect(errors.As(call(t.Context(), "a/keyed", alice), &failure)).To(BeTrue(), name)
	}
}

func TestStateCallsNeedPlans(t *testing.T) {
	for name, call := range stateCalls(newFixture().Engine) {
		NewWithT(t).Expect(call(t.Context(), "a/x", alice)).To(MatchError(limiter.ErrNotReady), name)
	}
}
