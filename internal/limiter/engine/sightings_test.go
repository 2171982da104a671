// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/traffic"
	"github.com/weir-dev/weir/test/testenv"
)

// report lets the engine report once, and returns a reader of the reports.
func report(t *testing.T, e *engine.Engine) *traffic.Reader {
	t.Helper()
	g := NewWithT(t)
	client, err := redisclient.New(testenv.StartRedis(t).URL, time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	reporter := traffic.NewReporter(traffic.Options{Redis: client, Each: e.Sightings, Logger: slog.New(slog.DiscardHandler)})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(reporter.Start(ended)).To(Succeed()) // it reports once
	return traffic.NewReader(client, "")
}

// reportedBy returns the policies, with their targets, that the engine reports as having traffic.
func reportedBy(t *testing.T, e *engine.Engine) []string {
	t.Helper()
	g := NewWithT(t)
	list, err := report(t, e).Read(t.Context(), time.Time{})
	g.Expect(err).NotTo(HaveOccurred())
	reported := []string{}
	for _, s := range list {
		g.Expect(s.Selectors).To(Equal(e.Snapshot().Lookup(s.Policy).Selectors()))
		reported = append(reported, s.Policy+" "+string(s.Target))
	}
	return reported
}

func TestSightings(t *testing.T) {
	edge := matching(plan.Match{Domain: "edge", Paths: []string{"/a"}})
	user := matching(plan.Match{Domain: "edge", Descriptors: []plan.EntryMatch{{Key: "user"}}})
	exempting := func(p *plan.Plan) {
		p.Overrides = []plan.Override{{Name: "all", Action: plan.ActionAllow, When: "true"}}
	}
	const shop, checkout, public = "HTTPRoute/a/shop", "HTTPRoute/a/shop/checkout", "Gateway/a/public"
	targeted := matching(plan.Match{Targets: []plan.Target{shop, public}}, plan.Match{Domain: "edge", Targets: []plan.Target{shop, public}})
	through := func(targets ...plan.Target) *limiter.Check {
		return &limiter.Check{Cost: 1, Attributes: plan.Attributes{Targets: targets}}
	}
	unavailable := &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
	for name, tc := range map[string]struct {
		plan  *plan.Plan
		store error
		check *limiter.Check
		want  []string
	}{
		"a match":             {plan: makePlan("a/x", edge), check: described("user=1"), want: []string{"a/x "}},
		"no match":            {plan: makePlan("a/x", edge), check: &limiter.Check{Cost: 1}, want: []string{}},
		"a name":              {plan: makePlan("a/x", edge), check: named("a/x"), want: []string{"a/x "}},
		"a denied check":      {plan: makePlan("a/x", edge, threshold(1)), check: costing(2), want: []string{"a/x "}},
		"Shadow":              {plan: makePlan("a/x", edge, mode(plan.ModeShadow)), check: described("user=1"), want: []string{"a/x "}},
		"Disabled":            {plan: makePlan("a/x", edge, mode(plan.ModeDisabled)), check: named("a/x"), want: []string{}},
		"an exempt key":       {plan: makePlan("a/x", edge, exempting), check: described("user=1"), want: []string{"a/x "}},
		"a degraded decision": {plan: makePlan("a/x", edge), store: unavailable, check: described("user=1"), want: []string{"a/x "}},
		"a target":            {plan: makePlan("a/x", targeted), check: through(shop, "Gateway/infra/other"), want: []string{"a/x " + shop}},
		"a part of a target":  {plan: makePlan("a/x", targeted), check: through(checkout), want: []string{"a/x " + shop}},
		"two targets":         {plan: makePlan("a/x", targeted), check: through(public, shop), want: []string{"a/x " + public, "a/x " + shop}},
		"another target":      {plan: makePlan("a/x", targeted), check: through("HTTPRoute/a/other"), want: []string{}},
		"a name, for targets": {plan: makePlan("a/x", targeted), check: named("a/x"), want: []string{"a/x "}},
		"a peek": {
			plan: makePlan("a/x", edge),
			check: &limiter.Check{
				Cost: 1, Peek: true, Attributes: plan.Attributes{Domain: "edge", Path: "/a"},
			},
			want: []string{},
		},
		"a peek of one descriptor": {
			plan: makePlan("a/x", user),
			check: &limiter.Check{
				Attributes: plan.Attributes{Domain: "edge", Descriptors: descriptors("user=1", "other=2")},
				Hits:       []limiter.Hits{{Cost: 1, Peek: true}, {Cost: 1}},
			},
			want: []string{},
		},
		"a descriptor": {
			plan: makePlan("a/x", user),
			check: &limiter.Check{
				Attributes: plan.Attributes{Domain: "edge", Descriptors: descriptors("user=1", "user=2")},
				Hits:       []limiter.Hits{{Cost: 1, Peek: true}, {Cost: 1}},
			},
			want: []string{"a/x "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(tc.plan)
			f.store.err = tc.store
			f.decide(t, tc.check)
			g.Expect(reportedBy(t, f.Engine)).To(Equal(tc.want))
		})
	}
}

func TestExplanationsAreNoSightings(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x"))
	_, err := f.Explain(t.Context(), named("a/x"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reportedBy(t, f.Engine)).To(BeEmpty())
}

// A replica reports every policy at most once a minute, also if others are edited.
func TestSightingsOutliveSnapshots(t *testing.T) {
	g := NewWithT(t)
	kept := makePlan("a/x")
	f := newFixture(kept, makePlan("a/y"))
	f.decide(t, named("a/x", "a/y"))
	f.Use(index.NewSnapshot(2, []*plan.Plan{kept, makePlan("a/y", threshold(9))}))
	g.Expect(reportedBy(t, f.Engine)).To(Equal([]string{"a/x "}))
}
