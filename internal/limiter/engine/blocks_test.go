// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The lengths of blocks that the plan lists follow one another, and are forgotten.
func TestBlocksBecomeLonger(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", limited(plan.Limit{
		Name: "l", Algorithm: plan.FixedWindow, Threshold: 1, WindowMillis: 1000,
		BlocksMillis: []int64{2000, 5000}, EscalationMillis: 60_000,
	})))
	trip := func() time.Duration {
		t.Helper()
		check := func() *limiter.Decision { return f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Cost: 1}) }
		g.Expect(check().Allowed).To(BeTrue())
		denied := check()
		g.Expect(denied.Allowed).To(BeFalse())
		f.store.now = f.store.now.Add(denied.RetryAfter)
		return denied.RetryAfter.Truncate(time.Second)
	}
	g.Expect([]time.Duration{trip(), trip(), trip()}).To(Equal([]time.Duration{2 * time.Second, 5 * time.Second, 5 * time.Second}))
	f.store.now = f.store.now.Add(time.Minute)
	g.Expect(trip()).To(Equal(2 * time.Second))
}
