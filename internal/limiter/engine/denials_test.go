// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// denialsReportedBy returns the policies that the engine reports to deny requests.
func denialsReportedBy(t *testing.T, e *engine.Engine) []string {
	t.Helper()
	list, err := report(t, e).Denials(t.Context())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	reported := []string{}
	for _, r := range list {
		reported = append(reported, r.ID)
	}
	return reported
}

func TestDenialReports(t *testing.T) {
	overridden := func(p *plan.Plan) {
		p.Overrides = []plan.Override{{Name: "all", Action: plan.ActionDeny, When: "true"}}
	}
	unavailable := &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
	none := []string{}
	for name, tc := range map[string]struct {
		plan  *plan.Plan
		store error
		check *limiter.Check
		want  []string
	}{
		"an allowed check":          {plan: makePlan("a/x"), check: named("a/x"), want: none},
		"a denied check":            {plan: makePlan("a/x", threshold(1)), check: costing(2), want: []string{"a/x"}},
		"Shadow":                    {plan: makePlan("a/x", threshold(1), mode(plan.ModeShadow)), check: costing(2), want: none},
		"an override that denies":   {plan: makePlan("a/x", overridden), check: named("a/x"), want: []string{"a/x"}},
		"a candidate":               {plan: makePlan("a/x", threshold(5), trying(1)), check: costing(2), want: none},
		"failureMode Open":          {plan: makePlan("a/x", fails(plan.FailOpen)), store: unavailable, check: named("a/x"), want: none},
		"failureMode Closed":        {plan: makePlan("a/x", fails(plan.FailClosed)), store: unavailable, check: named("a/x"), want: none},
		"failureMode Local, within": {plan: makePlan("a/x", fails(plan.FailLocal), threshold(9)), store: unavailable, check: costing(2), want: none},
		"failureMode Local, above":  {plan: makePlan("a/x", fails(plan.FailLocal), threshold(1)), store: unavailable, check: costing(2), want: []string{"a/x"}},
		"a peek": {
			plan: makePlan("a/x", threshold(1)), want: none,
			check: &limiter.Check{Policies: []string{"a/x"}, Cost: 2, Peek: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(tc.plan)
			f.store.err = tc.store
			f.decide(t, tc.check)
			NewWithT(t).Expect(denialsReportedBy(t, f.Engine)).To(Equal(tc.want))
		})
	}
}
