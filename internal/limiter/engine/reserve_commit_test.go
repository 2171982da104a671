// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
)

func TestReservationsEnd(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable))
	r := reserve(60, "a/x")
	r.TTL = time.Minute
	first := f.reserve(t, r).Reservation
	renew := func(ttl time.Duration) (*limiter.Renewed, error) {
		return f.Renew(t.Context(), &limiter.Renew{Reservation: first, TTL: ttl})
	}
	f.store.now = f.store.now.Add(50 * time.Second)
	renewed, err := renew(2 * time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(renewed).To(Equal(&limiter.Renewed{Policies: []limiter.RenewedPolicy{{Policy: "a/x", Renewed: true}}, Revision: 1}))
	_, err = renew(11 * time.Minute)
	g.Expect(fieldOf(err)).To(Equal("ttl"))

	f.store.now = f.store.now.Add(110 * time.Second)
	g.Expect(f.used(t)).To(Equal([]int64{60, 60}))
	f.store.now = f.store.now.Add(10 * time.Second)
	g.Expect(f.used(t)).To(Equal([]int64{60, 0}), "it is spent at its estimate")
	_, err = renew(0)
	g.Expect(err).To(MatchError(limiter.ErrReservationEnded))
	g.Expect(f.commit(t, first, 1).Found()).To(BeFalse())
	g.Expect(f.used(t)).To(Equal([]int64{60, 0}))
}

func TestReservationOfSeveralKeysOfAPolicy(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable, keyed(user), matching(matchingDescriptor("user"))))
	r := f.reserve(t, &limiter.Reserve{Check: *described("user=x", "user=y")}).Reservation
	g.Expect(r.Holds).To(HaveExactElements(HaveField("Key", []string{"x"}), HaveField("Key", []string{"y"})))
	var used []int64
	for _, p := range f.commit(t, r, 7).Policies {
		used = append(used, p.Limits[0].Used)
	}
	g.Expect(used).To(Equal([]int64{7, 7}))
}

// The caller names the policies of its reserve, and does not know which of them held nothing.
func TestCommitWithCostsOfPoliciesThatHeldNothing(t *testing.T) {
	g := NewWithT(t)
	exempt := overridden(plan.Override{Name: "o", Keys: []string{"alice"}, Action: plan.ActionAllow})
	f := newFixture(makePlan("a/x", reservable),
		makePlan("a/shadow", reservable, threshold(5), mode(plan.ModeShadow)), makePlan("a/exempt", reservable, keyed(apiKey), exempt))
	costs := limiter.Costs{"a/x": 60, "a/shadow": 60, "a/exempt": 60}
	r := reserve(1, "a/x", "a/shadow", "a/exempt")
	r.Costs = costs
	reservation := f.reserve(t, r).Reservation
	g.Expect(reservation.Holds).To(HaveExactElements(HaveField("Policy", "a/x")))
	committed, err := f.Commit(t.Context(), &limiter.Commit{Reservation: reservation, Costs: costs})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(committed.Policies).To(HaveExactElements(And(HaveField("Policy", "a/x"), HaveField("Cost", int64(60)))))
	g.Expect(f.usedOf(t, "a/x", "a/shadow")).To(Equal([]int64{60, 0, 0, 0}))
}

// A reservation is open as long as one of its holds is.
func TestRenewOfAReservationThatIsOpenInPart(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable), makePlan("a/y", reservable))
	r := f.reserve(t, reserve(60, "a/x", "a/y")).Reservation
	g.Expect(f.commit(t, &limiter.Reservation{ID: r.ID, Holds: r.Holds[1:]}, 1).Found()).To(BeTrue())
	renewed, err := f.Renew(t.Context(), &limiter.Renew{Reservation: r})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(renewed.Policies).To(Equal([]limiter.RenewedPolicy{{Policy: "a/x", Renewed: true}, {Policy: "a/y"}}))
}

// The actual cost is spent under the limits that are in force at the commit.
func TestCommitAfterAnEdit(t *testing.T) {
	gold := func(units int64) func(*plan.Plan) {
		return overridden(plan.Override{
			Name: "gold", Keys: []string{"alice"}, Action: plan.ActionLimit,
			Limits: []plan.LimitOverride{{Name: "burst", Threshold: units}},
		})
	}
	silver := overridden(plan.Override{
		Name: "silver", Keys: []string{"bob"}, Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "burst", Threshold: 5}},
	})
	for name, tc := range map[string]struct {
		edited   []*plan.Plan
		override string
		quota    int64
		gone     bool
	}{
		"the same":             {[]*plan.Plan{makePlan("a/x", reservable, keyed(apiKey), gold(1000))}, "gold", 1000, false},
		"another number":       {[]*plan.Plan{makePlan("a/x", reservable, keyed(apiKey), gold(500))}, "gold", 500, false},
		"beside another one":   {[]*plan.Plan{makePlan("a/x", reservable, keyed(apiKey), silver, gold(500))}, "gold", 500, false},
		"exempt by it":         {[]*plan.Plan{makePlan("a/x", reservable, keyed(apiKey), overridden(plan.Override{Name: "gold", Keys: []string{"alice"}, Action: plan.ActionAllow}))}, "", 100, false},
		"without the override": {[]*plan.Plan{makePlan("a/x", reservable, keyed(apiKey))}, "", 100, false},
		"disabled":             {[]*plan.Plan{makePlan("a/x", reservable, keyed(apiKey), mode(plan.ModeDisabled))}, "", 100, false},
		"deleted":              {[]*plan.Plan{makePlan("a/y")}, "", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", reservable, keyed(apiKey), gold(1000)))
			reservation := f.reserve(t, reserve(600, "a/x")).Reservation
			g.Expect(reservation.Holds[0].Override).To(Equal("gold"))
			f.Use(index.NewSnapshot(2, tc.edited))
			committed := f.commit(t, reservation, 300)
			g.Expect(committed.Found()).To(Equal(!tc.gone))
			only := committed.Policies[0]
			g.Expect([]any{only.Policy, only.Gone, only.Committed, only.Override}).To(Equal([]any{"a/x", tc.gone, !tc.gone, tc.override}))
			if !tc.gone {
				g.Expect([]int64{only.Limits[0].Quota, only.Limits[0].Used}).To(Equal([]int64{tc.quota, 300}))
			}
		})
	}
}

// A policy that no longer takes reservations has no holds: a commit is a charge, by the ID.
func TestCommitAfterReservationsWereTurnedOff(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable))
	reservation := f.reserve(t, reserve(60, "a/x")).Reservation
	f.Use(index.NewSnapshot(2, []*plan.Plan{makePlan("a/x", func(p *plan.Plan) {
		reservable(p)
		p.Reservations = plan.Reservations{}
	})}))
	g.Expect(f.commit(t, reservation, 0).Found()).To(BeTrue(), "there is nothing to cancel")
	g.Expect(f.commit(t, reservation, 10).Found()).To(BeTrue())
	g.Expect(f.commit(t, reservation, 10).Found()).To(BeFalse())
	g.Expect(f.used(t)).To(Equal([]int64{10, 0}))
	_, err := f.Renew(t.Context(), &limiter.Renew{Reservation: reservation})
	g.Expect(err).To(MatchError(limiter.ErrReservationEnded))
}

// A reservation that holds nothing is committed and renewed like any other.
func TestReservationsWithoutHolds(t *testing.T) {
	exempt := overridden(plan.Override{Name: "o", Keys: []string{"alice"}, Action: plan.ActionAllow})
	for name, p := range map[string]*plan.Plan{
		"exempt":     makePlan("a/x", reservable, keyed(apiKey), exempt),
		"disabled":   makePlan("a/x", reservable, mode(plan.ModeDisabled)),
		"no holding": makePlan("a/x"),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(p)
			reservation := f.reserve(t, reserve(60, "a/x")).Reservation
			g.Expect(reservation.Holds).To(BeEmpty())
			g.Expect(f.commit(t, reservation, 60).Found()).To(BeTrue())
			_, err := f.Renew(t.Context(), &limiter.Renew{Reservation: reservation})
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

// While Redis is away a reserve is a check by failureMode, and its commit a charge.
func TestReservationsWithoutRedis(t *testing.T) {
	down := &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
	for name, failure := range map[string]plan.FailureMode{"open": plan.FailOpen, "local": plan.FailLocal, "closed": plan.FailClosed} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", reservable, fails(failure)))
			f.store.err = down
			d := f.reserve(t, reserve(60, "a/x"))
			g.Expect(d.Allowed).To(Equal(failure != plan.FailClosed))
			g.Expect(d.Degraded).To(Equal(failure))
			if !d.Allowed {
				return
			}
			for _, l := range d.Limits {
				g.Expect(l.Held).To(BeZero(), "the replica spends it")
			}
			g.Expect(d.Reservation.Charged).To(BeTrue())
			again := f.reserve(t, reserve(60, "a/x"))
			g.Expect(again.Allowed).To(Equal(failure == plan.FailOpen), "the estimate counts in the share of the replica")

			_, err := f.Commit(t.Context(), &limiter.Commit{Reservation: d.Reservation, Cost: 10})
			g.Expect(err).To(MatchError(limiter.ErrStoreUnavailable))
			_, err = f.Renew(t.Context(), &limiter.Renew{Reservation: d.Reservation})
			g.Expect(err).To(MatchError(limiter.ErrStoreUnavailable))
			f.store.err = nil
			_, err = f.Renew(t.Context(), &limiter.Renew{Reservation: d.Reservation})
			g.Expect(err).NotTo(HaveOccurred(), "it cannot end")
			g.Expect(f.commit(t, d.Reservation, 10).Found()).To(BeTrue())
			g.Expect(f.commit(t, d.Reservation, 10).Found()).To(BeFalse())
			g.Expect(f.used(t)).To(Equal([]int64{10, 0}))
		})
	}
}

// Without Redis, too, a policy in mode Shadow has no part in a reservation above its quota.
func TestEstimateAboveTheQuotaOfAShadowPolicy(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable, mode(plan.ModeShadow)))
	g.Expect(f.reserve(t, reserve(101, "a/x")).Reservation.Holds).To(BeEmpty())
	f.store.err = &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
	g.Expect(f.reserve(t, reserve(101, "a/x")).Reservation.Holds).To(BeEmpty())
	g.Expect(f.reserve(t, reserve(100, "a/x")).Reservation.Holds).To(HaveLen(1))
}

// A hold whose reply was lost is ended by the commit of the reservation that was given out without it.
func TestLostReplyOfAReserve(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable))
	r := reserve(60, "a/x")
	r.ID = "request-1"
	f.reserve(t, r)
	f.store.err = &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
	degraded := f.reserve(t, r).Reservation
	f.store.err = nil
	g.Expect(f.commit(t, degraded, 10).Policies[0].Estimate).To(Equal(int64(60)))
	g.Expect(f.commit(t, degraded, 10).Found()).To(BeFalse())
	g.Expect(f.used(t)).To(Equal([]int64{10, 0}))
}

// An engine whose store lists no holds shows their number.
func TestInspectOfUnlistedHolds(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable, keyed(apiKey)))
	f.reserve(t, reserve(60, "a/x"))
	state, err := f.Inspect(t.Context(), "a/x", alice, plan.Attributes{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]any{state.Open, state.Holds}).To(Equal([]any{int64(1), []limiter.OpenHold(nil)}))
}
