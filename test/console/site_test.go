// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"context"
	"log/slog"
	"math"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/frontend/console"
	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/observe"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/test/testenv"
)

// The tokens of the two roles.
const (
	reader   = "reader"
	operator = "operator"
)

// roles is an Authorizer for the Namespace shop.
type roles struct{}

func (roles) Authorize(_ context.Context, token string, verb httpapi.Verb, namespace, _ string) (httpapi.Caller, error) {
	reads := verb == httpapi.VerbInspect || verb == httpapi.VerbList
	switch {
	case token != reader && token != operator:
		return httpapi.Caller{}, httpapi.ErrUnauthenticated
	case namespace != "shop" || verb == httpapi.VerbReveal || token == reader && !reads:
		return httpapi.Caller{}, httpapi.ErrForbidden
	}
	return httpapi.Caller{User: token}, nil
}

// site is a console on a real engine, with keys that are denied and blocked.
type site struct {
	url     string
	console *console.Console
	engine  *engine.Engine
}

func startSite(t *testing.T) *site {
	t.Helper()
	g, logger := NewWithT(t), slog.New(slog.NewJSONHandler(&testenv.Log{}, nil))
	store := memory.NewStore(memory.Options{Keys: 10_000})
	observed := observe.New(observe.Options{Blocks: store, Replica: "weir-7d4b9-k2x8p", Logger: logger, Registerer: prometheus.NewRegistry()})
	s := &site{engine: engine.New(engine.Options{Store: store, Observer: observed, Registerer: prometheus.NewRegistry(), Logger: logger})}
	observed.Watch(s.engine.Decisions)
	s.engine.Use(index.NewSnapshot(1742, policies()))
	go func() { _ = observed.Start(t.Context()) }()
	api := httpapi.Options{
		Engine: s.engine, State: s.engine, Authorizer: roles{}, Blocks: observed, Observer: &withHistory{observed}, Logger: logger, Version: "v0.9.0",
		Replicas: func(context.Context) []httptypes.Replica {
			return []httptypes.Replica{{Name: "weir-7d4b9-k2x8p", Revision: 1742}, {Name: "weir-7d4b9-zq5nn", Revision: 1742}}
		},
		Unready: func() *plan.Unready {
			return &plan.Unready{Count: 1, Policies: []plan.UnreadyPolicy{{ID: "shop/reviews", Reason: "MatchesNotGranted"}}}
		},
		Process: func(context.Context) *httptypes.Process {
			return &httptypes.Process{
				Version:      "v0.9.0",
				Redis:        &httptypes.Redis{Servers: []string{"redis 7.0.15"}, Evictions: []string{"noeviction"}, MemoryUse: 0.31, Problems: []string{}},
				Certificates: []httptypes.Certificate{{Name: "server", Expires: time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)}},
			}
		},
	}
	s.console = console.New(console.Options{API: api})
	api.Console = s.console
	server := httptest.NewServer(httpapi.NewOperator(api, "127.0.0.1:0"))
	t.Cleanup(server.Close)
	s.url = server.URL
	for key, checks := range map[string]int{"203.0.113.7": 212, "198.51.100.23": 96, "2001:db8:5::/64": 61, "192.0.2.88": 35} {
		s.check(t, "shop/search", checks, key)
	}
	s.check(t, "shop/login", 9, "bob@shop.example", "203.0.113.7")
	s.check(t, "shop/login", 7, "admin@shop.example", "198.51.100.23")
	g.Expect(s.engine.Block(t.Context(), "shop/search", limiter.KeyName{Parts: []string{"203.0.113.7"}}, 6*time.Hour)).To(Succeed())
	g.Eventually(func() int {
		list, err := observed.Blocks(t.Context(), []string{"shop/search", "shop/login"}, 10)
		g.Expect(err).NotTo(HaveOccurred())
		return len(list.Blocks)
	}, "30s").Should(Equal(3))
	return s
}

func (s *site) check(t *testing.T, policy string, times int, key ...string) {
	t.Helper()
	for range times {
		_, err := s.engine.Decide(t.Context(), &limiter.Check{Policies: []string{policy}, Key: key, Cost: 1})
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	}
}

func policies() []*plan.Plan {
	policy := func(namespace, name string, mode plan.Mode, limits ...plan.Limit) *plan.Plan {
		return &plan.Plan{
			Namespace: namespace, Name: name, Mode: mode, OnMissingKey: plan.MissingKeyShare, Limits: limits,
			Counting: plan.CountAdmitted, DenyWhen: plan.ThresholdExceeded, FailureMode: plan.FailLocal,
			Denial: plan.Denial{Code: "RateLimited", Message: "Too many requests."},
		}
	}
	const second, minute, hour = 1_000, 60_000, 3_600_000
	address := plan.KeyPart{Type: plan.KeyRemoteAddress, IPv4PrefixLength: 32, IPv6PrefixLength: 64}
	login := policy("shop", "login", plan.ModeEnforce,
		plan.Limit{Name: "burst", Algorithm: plan.SlidingLog, Threshold: 5, WindowMillis: minute, BlockMillis: 10 * minute},
		plan.Limit{Name: "daily", Algorithm: plan.SlidingLog, Threshold: 20, WindowMillis: 24 * hour, BlockMillis: 24 * hour})
	login.Key = []plan.KeyPart{{Type: plan.KeyHeader, Header: "x-account"}, address}
	login.Matches = []plan.Match{{Hosts: []string{"shop.example"}, Methods: []string{"POST"}, Paths: []string{"/login"}}}
	login.Counting = plan.CountAttempts
	search := policy("shop", "search", plan.ModeEnforce,
		plan.Limit{Name: "sustained", Algorithm: plan.TokenBucket, Threshold: 600, Burst: 60, WindowMillis: hour},
		plan.Limit{Name: "peak", Algorithm: plan.SlidingWindow, Threshold: 30, WindowMillis: 10 * second, BucketMicros: 1_000_000})
	search.Key = []plan.KeyPart{address}
	search.Matches = []plan.Match{{Hosts: []string{"shop.example"}, Paths: []string{"/search", "/suggest*"}}}
	search.Overrides = []plan.Override{{
		Name: "partners", Keys: []string{"192.0.2.10"}, Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "sustained", Threshold: 6000}},
	}}
	shadow := policy("shop", "checkout", plan.ModeShadow, plan.Limit{Name: "hourly", Algorithm: plan.FixedWindow, Threshold: 1000, WindowMillis: hour})
	hostile := policy("shop", "hostile", plan.ModeEnforce, plan.Limit{Name: "hourly", Algorithm: plan.FixedWindow, Threshold: 2, WindowMillis: hour})
	hostile.Key = []plan.KeyPart{{Type: plan.KeyPrincipal}}
	hostile.Denial.Message = `<img src=x onerror="alert(1)">`
	largest := policy("shop", "largest", plan.ModeEnforce)
	for i := range plan.MaxLimits {
		largest.Limits = append(largest.Limits, plan.Limit{
			Name: "a-rather-long-name-of-a-limit-" + string(rune('a'+i)), Algorithm: plan.FixedWindow, Threshold: plan.MaxThreshold, WindowMillis: 720 * hour,
		})
	}
	for range plan.MaxKeyParts {
		largest.Key = append(largest.Key, plan.KeyPart{Type: plan.KeyExpression, Expression: `request.headers["x-a-rather-long-name-of-a-header"]`})
	}
	return []*plan.Plan{login, search, shadow, hostile, largest, policy("bank", "vault", plan.ModeEnforce, login.Limits...)}
}

// withHistory adds an hour of traffic to the rates that are observed.
type withHistory struct{ limiter.Observer }

// Activity implements limiter.Observer.
func (h *withHistory) Activity(ctx context.Context, scope limiter.Scope) (*limiter.Activity, error) {
	activity, err := h.Observer.Activity(ctx, scope)
	if err != nil {
		return nil, err
	}
	for i := range activity.Policies {
		if p := &activity.Policies[i]; p.Policy == "shop/search" || p.Policy == "shop/login" {
			p.Rates = history(len(p.Policy))
		}
	}
	if scope.Policy != "shop/largest" {
		activity.Total = *history(9)
	}
	return activity, nil
}

// history returns an hour with a wave of denials.
func history(phase int) *limiter.Rates {
	r := limiter.NewRates()
	for i := range limiter.RateSamples {
		x := float64(i+37*phase) / 40
		r.Allowed[i] = int64(160 + 40*math.Sin(x) + 25*math.Sin(5.3*x) + 12*math.Sin(17*x))
		wave := math.Exp(-math.Pow(float64(i-250)/22, 2))
		r.Denied[i] = int64(3 + 120*wave)
		r.ShadowDenied[i] = int64(5 + 4*math.Sin(3*x))
	}
	return r
}
