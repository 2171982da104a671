// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
)

type fixture struct {
	*engine.Engine
	store    *testStore
	replicas int
	registry *prometheus.Registry
}

func newFixture(plans ...*plan.Plan) *fixture {
	f := &fixture{
		store:    newTestStore(),
		replicas: 1,
		registry: prometheus.NewRegistry(),
	}
	f.Engine = engine.New(engine.Options{
		Store: f.store, Registerer: f.registry, Draw: func() uint32 { return f.store.draw },
		Local:    memory.NewStore(memory.Options{Keys: 1000, Now: func() time.Time { return f.store.now }}),
		Replicas: func() int { return f.replicas },
		Logger:   slog.New(slog.DiscardHandler),
	})
	if plans != nil {
		f.Use(index.NewSnapshot(1, plans))
	}
	return f
}

// makePlan returns a plan with one FixedWindow limit of three a minute.
func makePlan(id string, edits ...func(*plan.Plan)) *plan.Plan {
	namespace, name, _ := strings.Cut(id, "/")
	p := &plan.Plan{
		Namespace: namespace, Name: name,
		Mode: plan.ModeEnforce, OnMissingKey: plan.MissingKeyShare, Counting: plan.CountAdmitted,
		DenyWhen: plan.ThresholdExceeded, FailureMode: plan.FailOpen,
		Denial: plan.Denial{Code: "RateLimited", Message: "Slow down."},
		Limits: []plan.Limit{{Name: "burst", Algorithm: plan.FixedWindow, Threshold: 3, WindowMillis: 60_000}},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func mode(m plan.Mode) func(*plan.Plan)         { return func(p *plan.Plan) { p.Mode = m } }
func fails(m plan.FailureMode) func(*plan.Plan) { return func(p *plan.Plan) { p.FailureMode = m } }
func missing(m plan.OnMissingKey) func(*plan.Plan) {
	return func(p *plan.Plan) { p.OnMissingKey = m }
}
func keyed(parts ...plan.KeyPart) func(*plan.Plan) { return func(p *plan.Plan) { p.Key = parts } }
func matching(matches ...plan.Match) func(*plan.Plan) {
	return func(p *plan.Plan) { p.Matches = matches }
}
func threshold(n int64) func(*plan.Plan) { return func(p *plan.Plan) { p.Limits[0].Threshold = n } }

func named(ids ...string) *limiter.Check {
	return &limiter.Check{Policies: ids, Key: []string{"alice"}, Cost: 1}
}

func (f *fixture) decide(t *testing.T, check *limiter.Check) *limiter.Decision {
	t.Helper()
	d, err := f.Decide(t.Context(), check)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return d
}

func TestDecisionReasons(t *testing.T) {
	apiKey := plan.KeyPart{Type: plan.KeyHeader, Header: "x-api-key"}
	block := func(p *plan.Plan) { p.Limits[0].BlockMillis = 600_000 }
	for name, tc := range map[string]struct {
		plans     []*plan.Plan
		check     *limiter.Check
		spent     int // number of equal checks before this one
		allowed   bool
		reason    limiter.Reason
		policy    string
		limit     string
		retry     time.Duration
		message   string // default: the message of the policy
		noLimits  bool
		untouched bool // the store must not be called
	}{
		"within the limit": {
			plans: []*plan.Plan{makePlan("a/x")}, check: named("a/x"), allowed: true, reason: limiter.ReasonAllowed,
		},
		"over the limit": {
			plans: []*plan.Plan{makePlan("a/x")}, check: named("a/x"), spent: 3,
			reason: limiter.ReasonLimitExceeded, policy: "a/x", limit: "burst", retry: time.Minute,
		},
		"blocked": {
			plans: []*plan.Plan{makePlan("a/x", block)}, check: named("a/x"), spent: 4,
			reason: limiter.ReasonBlocked, policy: "a/x", limit: "burst", retry: 10 * time.Minute,
		},
		"the first policy of the chain that denies is reported": {
			plans: []*plan.Plan{makePlan("a/wide", threshold(100)), makePlan("a/y"), makePlan("a/x")},
			check: named("a/wide", "a/y", "a/x"), spent: 3,
			reason: limiter.ReasonLimitExceeded, policy: "a/y", limit: "burst", retry: time.Minute,
		},
		"a shadow policy never denies": {
			plans: []*plan.Plan{makePlan("a/x", mode(plan.ModeShadow))}, check: named("a/x"), spent: 5,
			allowed: true, reason: limiter.ReasonAllowed,
		},
		"a cost above the threshold": {
			plans: []*plan.Plan{makePlan("a/x")}, check: &limiter.Check{Policies: []string{"a/x"}, Cost: 4},
			reason: limiter.ReasonCostExceedsThreshold, policy: "a/x", limit: "burst",
		},
		"the first cost above a threshold is reported": {
			plans:  []*plan.Plan{makePlan("a/x"), makePlan("a/y", threshold(2))},
			check:  &limiter.Check{Policies: []string{"a/x", "a/y"}, Cost: 4},
			reason: limiter.ReasonCostExceedsThreshold, policy: "a/x", limit: "burst",
		},
		"a cost that only shadow could deny": {
			plans: []*plan.Plan{makePlan("a/x", mode(plan.ModeShadow))},
			check: &limiter.Check{Policies: []string{"a/x"}, Cost: 4}, allowed: true, reason: limiter.ReasonAllowed,
		},
		"disabled": {
			plans: []*plan.Plan{makePlan("a/x", mode(plan.ModeDisabled))}, check: named("a/x"),
			allowed: true, reason: limiter.ReasonDisabled, noLimits: true, untouched: true,
		},
		"disabled beside an enforced policy": {
			plans: []*plan.Plan{makePlan("a/x", mode(plan.ModeDisabled)), makePlan("a/y")}, check: named("a/x", "a/y"),
			allowed: true, reason: limiter.ReasonAllowed,
		},
		"no policy matches": {
			plans: []*plan.Plan{makePlan("a/x")}, check: &limiter.Check{Cost: 1},
			allowed: true, reason: limiter.ReasonNoPolicy, noLimits: true, untouched: true,
		},
		"a policy that matches": {
			plans: []*plan.Plan{makePlan("a/x", matching(plan.Match{Hosts: []string{"*.shop.example"}, Paths: []string{"/api/*"}}))},
			check: &limiter.Check{Cost: 1, Attributes: plan.Attributes{Host: "EU.Shop.Example:443", Path: "/x/../api//v1?q"}},
			spent: 3, reason: limiter.ReasonLimitExceeded, policy: "a/x", limit: "burst", retry: time.Minute,
		},
		"a missing key is shared": {
			plans: []*plan.Plan{makePlan("a/x", keyed(apiKey))}, check: &limiter.Check{Policies: []string{"a/x"}, Cost: 1},
			spent: 3, reason: limiter.ReasonLimitExceeded, policy: "a/x", limit: "burst", retry: time.Minute,
		},
		"a missing key exempts": {
			plans: []*plan.Plan{makePlan("a/x", keyed(apiKey), missing(plan.MissingKeySkip))},
			check: &limiter.Check{Policies: []string{"a/x"}, Cost: 1}, spent: 3,
			allowed: true, reason: limiter.ReasonNoPolicy, noLimits: true, untouched: true,
		},
		"a key that must not be missing": {
			plans:   []*plan.Plan{makePlan("a/x", keyed(apiKey), missing(plan.MissingKeyDeny))},
			check:   &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Attributes: withKey("k")},
			allowed: true, reason: limiter.ReasonAllowed,
		},
		"a missing part of a key denies": {
			plans:  []*plan.Plan{makePlan("a/x", keyed(apiKey, plan.KeyPart{Type: plan.KeyPrincipal}), missing(plan.MissingKeyDeny))},
			check:  &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Attributes: plan.Attributes{Principal: "bob"}},
			reason: limiter.ReasonMissingKey, policy: "a/x", message: "The request lacks the key that identifies its client.",
			noLimits: true, untouched: true,
		},
		"a missing key denies the whole chain": {
			plans: []*plan.Plan{makePlan("a/x", keyed(apiKey), missing(plan.MissingKeyDeny)), makePlan("a/y")},
			check: &limiter.Check{Policies: []string{"a/y", "a/x"}, Cost: 1}, spent: 5,
			reason: limiter.ReasonMissingKey, policy: "a/x", message: "The request lacks the key that identifies its client.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(tc.plans...)
			for range tc.spent {
				again := *tc.check
				f.decide(t, &again)
			}
			d := f.decide(t, tc.check)
			g.Expect(d.Allowed).To(Equal(tc.allowed))
			g.Expect(d.Reason).To(Equal(tc.reason))
			g.Expect(d.Policy).To(Equal(tc.policy))
			g.Expect(d.Limit).To(Equal(tc.limit))
			g.Expect(d.RetryAfter).To(Equal(tc.retry))
			g.Expect(d.WaitsFor).To(BeEmpty())
			if !tc.allowed {
				g.Expect(d.Denial).To(Equal(plan.Denial{Code: "RateLimited", Message: cmp.Or(tc.message, "Slow down.")}))
			}
			g.Expect(d.Revision).To(Equal(int64(1)))
			if tc.noLimits {
				g.Expect(d.Limits).To(BeEmpty())
			} else {
				g.Expect(d.Limits).NotTo(BeEmpty())
			}
			g.Expect(f.store.last == nil).To(Equal(tc.untouched))
		})
	}
}

func TestDeniedChainSpendsNothing(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/tight", threshold(1)), makePlan("a/wide", threshold(100)))
	g.Expect(f.decide(t, named("a/wide", "a/tight")).Limits[0].Used).To(Equal(int64(1)))
	g.Expect(f.decide(t, named("a/wide", "a/tight")).Limits[0].Used).To(Equal(int64(1)))
	g.Expect(f.decide(t, named("a/wide")).Limits[0].Used).To(Equal(int64(2)))
}

// Not even an attempt is counted for a cost that can never be admitted.
func TestCostAboveTheThresholdSpendsNothing(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/tight"), makePlan("a/attempts", countAttempts, threshold(100)))
	check := named("a/attempts", "a/tight")
	check.Cost = 4
	g.Expect(f.decide(t, check).Reason).To(Equal(limiter.ReasonCostExceedsThreshold))
	g.Expect(f.decide(t, named("a/attempts")).Limits[0].Used).To(Equal(int64(1)))
}

func TestChainDeniedForAMissingKeySpendsNothing(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/wide", threshold(100)),
		makePlan("a/keyed", keyed(plan.KeyPart{Type: plan.KeyPrincipal}), missing(plan.MissingKeyDeny)))
	check := &limiter.Check{Policies: []string{"a/wide", "a/keyed"}, Cost: 1}
	g.Expect(f.decide(t, check).Limits[0].Used).To(BeZero())
	g.Expect(f.decide(t, &limiter.Check{Policies: []string{"a/wide"}, Cost: 1}).Limits[0].Used).To(Equal(int64(1)))
}

func TestKeysFromAttributes(t *testing.T) {
	header := plan.KeyPart{Type: plan.KeyHeader, Header: "x-api-key"}
	address := plan.KeyPart{Type: plan.KeyRemoteAddress, IPv4PrefixLength: 32, IPv6PrefixLength: 64}
	network := plan.KeyPart{Type: plan.KeyRemoteAddress, IPv4PrefixLength: 24, IPv6PrefixLength: 128}
	principal := plan.KeyPart{Type: plan.KeyPrincipal}
	from := func(address string) plan.Attributes {
		return plan.Attributes{RemoteAddress: netip.MustParseAddr(address)}
	}
	for name, tc := range map[string]struct {
		parts      []plan.KeyPart
		attributes plan.Attributes
		want       store.Key
	}{
		"no parts":                             {nil, from("192.0.2.7"), "-"},
		"a header":                             {[]plan.KeyPart{header}, plan.Attributes{Headers: map[string]string{"x-api-key": "k1"}}, "k1"},
		"an absent header":                     {[]plan.KeyPart{header}, plan.Attributes{}, "-"},
		"an empty header":                      {[]plan.KeyPart{header}, plan.Attributes{Headers: map[string]string{"x-api-key": ""}}, "-"},
		"control characters":                   {[]plan.KeyPart{header}, plan.Attributes{Headers: map[string]string{"x-api-key": "a\r\nb"}}, "a%0D%0Ab"},
		"an address":                           {[]plan.KeyPart{address}, from("192.0.2.7"), "192.0.2.7"},
		"a mapped address":                     {[]plan.KeyPart{address}, from("::ffff:192.0.2.7"), "192.0.2.7"},
		"an IPv6 network":                      {[]plan.KeyPart{address}, from("2001:db8::1:2"), "2001%3Adb8%3A%3A/64"},
		"another address of that IPv6 network": {[]plan.KeyPart{address}, from("2001:db8::ffff"), "2001%3Adb8%3A%3A/64"},
		"a whole IPv6 address":                 {[]plan.KeyPart{network}, from("2001:db8::1%eth0"), "2001%3Adb8%3A%3A1"},
		"an IPv4 network":                      {[]plan.KeyPart{network}, from("192.0.2.7"), "192.0.2.0/24"},
		"no address":                           {[]plan.KeyPart{address, principal}, plan.Attributes{Principal: "bob"}, "-|bob"},
		"several, in order":                    {[]plan.KeyPart{principal, header}, plan.Attributes{Principal: "bob", Headers: map[string]string{"x-api-key": "k"}}, "bob|k"},
		"a value that looks missing":           {[]plan.KeyPart{principal}, plan.Attributes{Principal: "-"}, "%2D"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(makePlan("a/x", keyed(tc.parts...)))
			f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Attributes: tc.attributes})
			NewWithT(t).Expect(f.store.last.Entries[0].Key).To(Equal(tc.want))
		})
	}
}

func TestInvalidChecksAreRejected(t *testing.T) {
	for name, tc := range map[string]struct {
		check *limiter.Check
		field string
	}{
		"no cost":              {&limiter.Check{Policies: []string{"a/x"}}, "cost"},
		"a negative cost":      {&limiter.Check{Policies: []string{"a/x"}, Cost: -1}, "cost"},
		"a cost out of bounds": {&limiter.Check{Policies: []string{"a/x"}, Cost: plan.MaxCost + 1}, "cost"},
		"a policy twice":       {named("a/x", "a/x"), "policies[1]"},
		"a long chain":         {named(strings.Split(strings.Repeat("a/x,", 17), ",")...), "policies"},
		"a key of no parts":    {&limiter.Check{Policies: []string{"a/x"}, Cost: 1, Key: []string{}}, "key"},
		"too many parts":       {&limiter.Check{Policies: []string{"a/x"}, Cost: 1, Key: make([]string, 9)}, "key"},
		"an empty part":        {&limiter.Check{Policies: []string{"a/x"}, Cost: 1, Key: []string{"a", ""}}, "key[1]"},
		"control characters":   {&limiter.Check{Policies: []string{"a/x"}, Cost: 1, Key: []string{"a\n"}}, "key[0]"},
		"not UTF-8":            {&limiter.Check{Policies: []string{"a/x"}, Cost: 1, Key: []string{"\xff"}}, "key[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x"))
			_, err := f.Decide(t.Context(), tc.check)
			var invalid *limiter.FieldError
			g.Expect(errors.As(err, &invalid)).To(BeTrue())
			g.Expect(invalid.Field).To(Equal(tc.field))
			g.Expect(f.store.last).To(BeNil())
		})
	}
}

func TestCallsNeedPlans(t *testing.T) {
	g, f, r := NewWithT(t), newFixture(), &limiter.Reservation{ID: "r"}
	_, decided := f.Decide(t.Context(), named("a/x"))
	_, reserved := f.Reserve(t.Context(), reserve(1, "a/x"))
	_, committed := f.Commit(t.Context(), &limiter.Commit{Reservation: r})
	_, renewed := f.Renew(t.Context(), &limiter.Renew{Reservation: r})
	_, charged := f.Charge(t.Context(), &limiter.Charge{Check: *named("a/x")})
	_, explained := f.Explain(t.Context(), named("a/x"))
	g.Expect([]error{decided, reserved, committed, renewed, charged, explained}).To(HaveEach(MatchError(limiter.ErrNotReady)))
}

func TestDecideRejectsUnknownPolicies(t *testing.T) {
	_, err := newFixture(makePlan("a/x")).Decide(t.Context(), named("a/x", "a/y"))
	NewWithT(t).Expect(err).To(MatchError(&limiter.UnknownPolicyError{Policy: "a/y"}))
}

func TestDecideReportsCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := newFixture(makePlan("a/x"))
	f.store.err = &store.Error{Cause: store.CauseCanceled, Err: context.Canceled}
	_, err := f.Decide(ctx, named("a/x"))
	NewWithT(t).Expect(err).To(MatchError(context.Canceled))
}

func TestNewSnapshotKeepsCounters(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x"))
	for range 4 {
		f.decide(t, named("a/x"))
	}
	f.Use(index.NewSnapshot(2, []*plan.Plan{makePlan("a/x", threshold(5))}))
	d := f.decide(t, named("a/x"))
	g.Expect(d.Allowed).To(BeTrue(), "the next decision uses the new threshold")
	g.Expect(d.Limits[0].Used).To(Equal(int64(4)))
	g.Expect(d.Revision).To(Equal(int64(2)))
}

func TestNewSnapshotRemovesPolicies(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x"), makePlan("a/y"))
	for range 4 {
		f.decide(t, named("a/x"))
		f.decide(t, named("a/y"))
	}
	g.Expect(testutil.GatherAndCount(f.registry, "weir_decisions_total")).To(Equal(4))

	f.Use(index.NewSnapshot(2, []*plan.Plan{makePlan("a/x", threshold(5))}))
	_, err := f.Decide(t.Context(), named("a/y"))
	g.Expect(err).To(HaveOccurred())
	g.Expect(testutil.GatherAndCount(f.registry, "weir_decisions_total")).To(Equal(2), "the series of a/y are gone")
}
