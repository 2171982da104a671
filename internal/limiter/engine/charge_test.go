// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/flood"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
)

func (f *fixture) charge(t *testing.T, check *limiter.Check, id string) *limiter.Charged {
	t.Helper()
	charged, err := f.Charge(t.Context(), &limiter.Charge{Check: *check, ID: id})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return charged
}

func TestChargesAreNeverDenied(t *testing.T) {
	g := NewWithT(t)
	deny := overridden(plan.Override{Name: "o", Keys: []string{"alice"}, Action: plan.ActionDeny})
	f := newFixture(makePlan("a/x", reservable), makePlan("a/y"), makePlan("a/z", keyed(apiKey), deny))
	charge := func(cost int64, id string) *limiter.Charged {
		check := named("a/x", "a/y", "a/z")
		check.Cost = cost
		return f.charge(t, check, id)
	}
	first := charge(150, "c-1")
	g.Expect(first.Charged).To(BeTrue())
	g.Expect(first.Revision).To(Equal(int64(1)))
	g.Expect(first.Limits).To(HaveLen(2), "the policy that denies the caller has no limits")
	g.Expect([]int64{first.Limits[0].Used, first.Limits[1].Used}).To(Equal([]int64{150, 150}))
	g.Expect(charge(150, "c-1").Charged).To(BeFalse())
	g.Expect(f.used(t)).To(Equal([]int64{150, 0}))
	g.Expect(charge(1, "").Charged).To(BeTrue())
	g.Expect(charge(1, "").Charged).To(BeTrue(), "without an ID every charge counts")
	g.Expect(f.used(t)).To(Equal([]int64{152, 0}))

	_, err := f.Charge(t.Context(), &limiter.Charge{Check: limiter.Check{Policies: []string{"a/x"}, Cost: 1}, ID: "a b"})
	g.Expect(fieldOf(err)).To(Equal("id"))
	_, err = f.Charge(t.Context(), &limiter.Charge{Check: limiter.Check{Policies: []string{"a/w"}, Cost: 1}})
	g.Expect(err).To(MatchError(&limiter.UnknownPolicyError{Policy: "a/w"}))
	f.store.err = &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
	_, err = f.Charge(t.Context(), &limiter.Charge{Check: limiter.Check{Policies: []string{"a/x"}, Cost: 1}})
	g.Expect(err).To(MatchError(limiter.ErrStoreUnavailable))
}

// A repeated charge counts for the policies that it has not reached yet.
func TestChargeThatWasMadeInPart(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x"), makePlan("a/y"))
	f.charge(t, named("a/x"), "c-1")
	g.Expect(f.charge(t, named("a/y", "a/x"), "c-1").Charged).To(BeTrue())
	g.Expect(f.charge(t, named("a/y", "a/x"), "c-1").Charged).To(BeFalse())
	g.Expect(f.usedOf(t, "a/x", "a/y")).To(Equal([]int64{1, 0, 1, 0}))
}

func TestChargesFindTheirPoliciesAsChecksDo(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", matching(plan.Match{Hosts: []string{"shop.example"}, Paths: []string{"/api/*"}})))
	check := &limiter.Check{Cost: 2, Attributes: plan.Attributes{Host: "Shop.Example:443", Path: "/x/../api//v1?q"}}
	g.Expect(f.charge(t, check, "").Limits).To(HaveExactElements(HaveField("Used", int64(2))))
}

// During a flood, charges of unknown keys count for the overflow key, as checks do.
func TestChargesDuringAFlood(t *testing.T) {
	g := NewWithT(t)
	low := false
	f := newFloodFixture(flood.Limits{PerMinute: 100}, func() bool { return low })
	f.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x", keyed(apiKey)), makePlan("a/y", keyed(apiKey))}))
	overflows := func(check *limiter.Check) bool { return f.charge(t, check, "").Limits[0].Overflow }
	for i := range 100 {
		g.Expect(overflows(clientCheck(fmt.Sprint("invented-", i)))).To(BeFalse())
	}
	g.Expect(overflows(clientCheck("another"))).To(BeTrue(), "the budget of new keys is used up")
	g.Expect(overflows(clientCheck("invented-0"))).To(BeFalse(), "a known key")
	g.Expect(overflows(named("a/y"))).To(BeFalse())
	low = true
	bob := named("a/y")
	bob.Key = []string{"bob"}
	g.Expect(overflows(bob)).To(BeTrue(), "Redis has little memory")
}

// IDs have a budget of their own, and take no room while the store is short of memory: a repeat then counts again.
func TestIDsFillNoStore(t *testing.T) {
	g := NewWithT(t)
	low := false
	f := newFloodFixture(flood.Limits{PerMinute: 10}, func() bool { return low })
	f.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x", threshold(1000)), makePlan("a/y", threshold(1000))}))
	repeats := func(policy, id string) (counted bool) {
		f.charge(t, named(policy), id)
		return f.charge(t, named(policy), id).Charged
	}
	g.Expect(repeats("a/x", "first")).To(BeFalse())
	low = true
	g.Expect(repeats("a/x", "low")).To(BeTrue())
	low = false
	for i := range 8 {
		g.Expect(repeats("a/x", fmt.Sprint("within-", i))).To(BeFalse())
	}
	g.Expect(repeats("a/x", "beyond")).To(BeTrue())
	g.Expect(repeats("a/y", "other")).To(BeFalse(), "the budget of another policy")
	g.Expect(f.decide(t, clientCheck("new")).Limits[0].Overflow).To(BeFalse(), "the budget of new keys")
	f.Use(index.NewSnapshot(2, []*plan.Plan{makePlan("a/x", threshold(2000))}))
	g.Expect(repeats("a/x", "edited")).To(BeTrue(), "an edit does not renew the budget")
}

func TestIDsOfStreamsBeginAlike(t *testing.T) {
	NewWithT(t).Expect(store.StreamPrefix).To(Equal(limiter.EnvoyIDPrefix))
}
