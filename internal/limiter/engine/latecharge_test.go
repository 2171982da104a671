// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/flood"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// late makes hits of 2 and more charges.
func late(p *plan.Plan) { p.LateCharges.From = 2 }

// hitting returns a check with one descriptor for the user alice that has the hits.
func hitting(hits limiter.Hits) *limiter.Check {
	check := requestingNothing()
	check.Hits[0] = hits
	check.ReservationID = "stream-1"
	return check
}

// usedOf returns the units that alice uses of the policies, and those that are held.
func (f *fixture) usedOf(t *testing.T, ids ...string) (all []int64) {
	t.Helper()
	for _, id := range ids {
		l := f.decide(t, &limiter.Check{Policies: []string{id}, Key: []string{"alice"}, Cost: 1, Peek: true}).Limits[0]
		all = append(all, l.Used, l.Held)
	}
	return all
}

func lost() error {
	return &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
}

func TestLateChargesAreNeverDenied(t *testing.T) {
	deny := overridden(plan.Override{Name: "o", Keys: []string{"alice"}, Action: plan.ActionDeny})
	for name, tc := range map[string]struct {
		plans   []*plan.Plan
		hits    limiter.Hits
		allowed bool
		reason  limiter.Reason
		used    int64 // of a/x, of which 2 are used before
	}{
		"a charge that fits":       {[]*plan.Plan{makePlan("a/x", byUser, late)}, limiter.Hits{Cost: 2}, true, limiter.ReasonAllowed, 4},
		"above the threshold":      {[]*plan.Plan{makePlan("a/x", byUser, late)}, limiter.Hits{Cost: 100}, true, limiter.ReasonAllowed, 102},
		"in Shadow":                {[]*plan.Plan{makePlan("a/x", byUser, late, mode(plan.ModeShadow))}, limiter.Hits{Cost: 100}, true, limiter.ReasonAllowed, 102},
		"disabled":                 {[]*plan.Plan{makePlan("a/x", byUser, late, mode(plan.ModeDisabled)), makePlan("a/y")}, limiter.Hits{Cost: 100}, true, limiter.ReasonNoPolicy, -1},
		"one hit":                  {[]*plan.Plan{makePlan("a/x", byUser, late)}, limiter.Hits{Cost: 1}, true, limiter.ReasonAllowed, 3},
		"a peek":                   {[]*plan.Plan{makePlan("a/x", byUser, late)}, limiter.Hits{Cost: 1, Peek: true}, true, limiter.ReasonAllowed, 2},
		"a peek of many hits":      {[]*plan.Plan{makePlan("a/x", byUser, late)}, limiter.Hits{Cost: 2, Peek: true}, false, limiter.ReasonLimitExceeded, 2},
		"without lateCharges":      {[]*plan.Plan{makePlan("a/x", byUser)}, limiter.Hits{Cost: 2}, false, limiter.ReasonLimitExceeded, 2},
		"a caller that is denied":  {[]*plan.Plan{makePlan("a/x", byUser, late, deny)}, limiter.Hits{Cost: 2}, true, limiter.ReasonNoPolicy, -1},
		"one hit, a denied caller": {[]*plan.Plan{makePlan("a/x", byUser, late, deny)}, limiter.Hits{Cost: 1}, false, limiter.ReasonDeniedByOverride, -1},
		"beside a check that denies": {
			[]*plan.Plan{makePlan("a/x", byUser, late), makePlan("a/y", byUser)}, limiter.Hits{Cost: 4}, false, limiter.ReasonCostExceedsThreshold, 6,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(tc.plans...)
			for range 2 {
				f.decide(t, requestingNothing())
			}
			d := f.decide(t, hitting(tc.hits))
			g.Expect([]any{d.Allowed, d.Reason}).To(Equal([]any{tc.allowed, tc.reason}))
			g.Expect(d.Descriptors[0].Allowed).To(Equal(tc.allowed))
			g.Expect(d.Unsent).To(BeEmpty())
			if tc.used >= 0 {
				g.Expect(f.usedOf(t, "a/x")[0]).To(Equal(tc.used))
			}
		})
	}
}

// The largest hits of the descriptors with the same key are charged, the others checked.
func TestLateChargesOfSeveralDescriptors(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", byUser, late, threshold(5)), makePlan("a/y", byUser, threshold(5)))
	check := hitting(limiter.Hits{Cost: 4})
	check.Attributes.Descriptors = append(check.Attributes.Descriptors, plan.Descriptor{{Key: "user", Value: "bob"}}, check.Attributes.Descriptors[0])
	check.Hits = append(check.Hits, limiter.Hits{Cost: 1}, limiter.Hits{Cost: 1, Peek: true})
	d := f.decide(t, check)
	g.Expect(d.Allowed).To(BeTrue())
	g.Expect(d.Limits).To(HaveLen(3), "bob's of a/x, and both of a/y")
	g.Expect(f.usedOf(t, "a/x", "a/y")).To(Equal([]int64{4, 0, 4, 0}))
	d = f.decide(t, check)
	g.Expect([]any{d.Allowed, d.Policy}).To(Equal([]any{false, "a/y"}))
	g.Expect(f.usedOf(t, "a/x", "a/y")).To(Equal([]int64{8, 0, 4, 0}), "the charge counts all the same")
}

// A requested limit may have a state of its own, which charges do not use.
func TestLateChargesIgnoreRequestedLimits(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", byUser, late))
	f.decide(t, hitting(limiter.Hits{Cost: 7, Limit: &limiter.RequestedLimit{Units: 1, Window: time.Hour}}))
	g.Expect(f.usedOf(t, "a/x")).To(Equal([]int64{7, 0}))
}

// So do reserves.
func TestReservesIgnoreRequestedLimits(t *testing.T) {
	f := newFixture(makePlan("a/x", byUser, reservable))
	d := f.decide(t, hitting(limiter.Hits{Cost: 7, Action: limiter.HitsReserve, Limit: &limiter.RequestedLimit{Units: 1, Window: time.Hour}}))
	NewWithT(t).Expect([]any{d.Allowed, d.Limits[0].Threshold}).To(Equal([]any{true, int64(100)}))
}

func TestLateChargesWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", byUser, late, fails(plan.FailClosed)), makePlan("a/y", byUser, late), makePlan("a/z"))
	f.store.err = lost()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d, err := f.Decide(ctx, hitting(limiter.Hits{Cost: 40}))
	g.Expect(err).NotTo(HaveOccurred(), "a charge counts even if the caller has gone")
	g.Expect(f.store.canceled).To(BeFalse())
	g.Expect([]any{d.Allowed, d.Degraded}).To(Equal([]any{true, plan.FailureMode("")}))
	g.Expect(d.Unsent).To(HaveLen(2))
	f.store.err = nil
	for range 2 {
		for i := range d.Unsent {
			committed, err := f.Commit(t.Context(), &d.Unsent[i])
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(committed.Policies).To(HaveLen(1))
		}
	}
	g.Expect(f.usedOf(t, "a/x", "a/y")).To(Equal([]int64{40, 0, 40, 0}), "each counts once")
}

// A charge that Redis made, but whose reply was lost, counts once.
func TestLostReplyOfALateCharge(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", byUser, late), makePlan("a/r", byUser, reservable))
	f.store.loseReplies()
	charge := f.decide(t, hitting(limiter.Hits{Cost: 40}))
	commit := f.decide(t, hitting(limiter.Hits{Cost: 30, Action: limiter.HitsCommit}))
	f.store.around = nil
	g.Expect(charge.Unsent).To(HaveLen(1))
	g.Expect(commit.Unsent).To(HaveLen(2), "a/x charges it, too")
	for _, unsent := range append(charge.Unsent, commit.Unsent...) {
		_, err := f.Commit(t.Context(), &unsent)
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(f.usedOf(t, "a/x", "a/r")).To(Equal([]int64{70, 0, 70, 0}), "a/r has the check of 40, too")
}

// What a check spends beside its limits is kept, although its caller has gone.
func TestLateChargesOfACallerThatHasGone(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", byUser, late), makePlan("a/y", byUser, threshold(100)))
	f.store.err = lost()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d, err := f.Decide(ctx, hitting(limiter.Hits{Cost: 40}))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(d.Unsent).To(HaveLen(1))
}

// Reservations of Envoy, as the hits of descriptors.
func TestReservationsOfDescriptors(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/rate", byUser), makePlan("a/tokens", byUser, reservable), makePlan("a/late", byUser, late))
	ids := []string{"a/rate", "a/tokens", "a/late"}
	d := f.decide(t, hitting(limiter.Hits{Cost: 60, Action: limiter.HitsReserve}))
	g.Expect(d.Allowed).To(BeTrue())
	g.Expect(d.Reservation).To(BeNil())
	g.Expect(f.usedOf(t, ids...)).To(Equal([]int64{1, 0, 60, 60, 1, 0}), "the estimate is held, and all others spend 1")

	d = f.decide(t, hitting(limiter.Hits{Cost: 20, Action: limiter.HitsReserve}))
	g.Expect([]any{d.Allowed, d.Reason, d.Policy}).To(Equal([]any{false, limiter.ReasonReservationOpen, "a/tokens"}))
	g.Expect([]any{d.WaitsFor, d.RetryAfter, d.Descriptors[0].Allowed}).To(Equal([]any{limiter.WaitsForReservations, time.Second, false}))
	g.Expect(f.usedOf(t, ids...)).To(Equal([]int64{1, 0, 60, 60, 1, 0}))

	d = f.decide(t, hitting(limiter.Hits{Cost: 70, Action: limiter.HitsCommit}))
	g.Expect([]any{d.Allowed, d.Reason, d.Descriptors[0].Allowed}).To(Equal([]any{true, limiter.ReasonAllowed, true}))
	g.Expect(f.usedOf(t, ids...)).To(Equal([]int64{1, 0, 70, 0, 71, 0}), "a/rate spends nothing afterwards")
	f.decide(t, hitting(limiter.Hits{Cost: 70, Action: limiter.HitsCommit}))
	g.Expect(f.usedOf(t, ids...)).To(Equal([]int64{1, 0, 70, 0, 71, 0}), "a commit counts once")

	text := exposition(g, f.registry)
	for outcome, count := range map[string]string{"reserved": "1", "denied": "1", "committed": "1", "missing": "1"} {
		g.Expect(text).To(ContainSubstring(`weir_reservations_total{namespace="a",outcome="` + outcome + `",policy="tokens"} ` + count + "\n"))
	}
	g.Expect(text).To(ContainSubstring(`weir_charges_total{namespace="a",outcome="charged",policy="late"} 1`))
	g.Expect(text).To(ContainSubstring(`weir_charges_total{namespace="a",outcome="repeated",policy="late"} 1`))
}

// The ID of a check is open in one Namespace while the script fails for another one, which has no reply.
func TestCopiedIDWhileANamespaceFails(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/user", byUser, reservable), makePlan("b/user", byUser, reservable))
	f.decide(t, hitting(limiter.Hits{Cost: 10, Action: limiter.HitsReserve}))
	f.store.failWith("b/user", &store.Error{Cause: store.CauseScript, Err: context.DeadlineExceeded, Unwritten: true})
	d := f.decide(t, hitting(limiter.Hits{Cost: 10, Action: limiter.HitsReserve}))
	g.Expect([]any{d.Allowed, d.Reason}).To(Equal([]any{false, limiter.ReasonReservationOpen}))
	reserve := &limiter.Reserve{Check: *hitting(limiter.Hits{}), ID: "stream-1"}
	reserve.Check.Hits, reserve.Check.Cost = nil, 20
	_, err := f.Reserve(t.Context(), reserve)
	g.Expect(err).To(MatchError(limiter.ErrReservationDiffers))
}

// During a flood, unknown keys share the reservations of the overflow key. After it, a commit finds
// none for its own key, and is a charge.
func TestReservationsOfDescriptorsDuringAFlood(t *testing.T) {
	for name, tc := range map[string]struct {
		isOver                bool
		used, held, usedOfKey int64
	}{
		"commit during it": {false, 70, 0, 0},
		"commit after it":  {true, 60, 60, 70},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			low := true
			f := newFloodFixture(flood.Limits{}, func() bool { return low })
			f.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x", byUser, reservable)}))
			f.decide(t, hitting(limiter.Hits{Cost: 60, Action: limiter.HitsReserve}))
			low = !tc.isOver
			f.decide(t, hitting(limiter.Hits{Cost: 70, Action: limiter.HitsCommit}))
			low = true
			shared := f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Key: []string{"another"}, Cost: 1, Peek: true}).Limits[0]
			g.Expect([]int64{shared.Used, shared.Held}).To(Equal([]int64{tc.used, tc.held}))
			low = false
			g.Expect(f.usedOf(t, "a/x")).To(Equal([]int64{tc.usedOfKey, 0}))
		})
	}
}

// A late charge is of another call, so it ends no reservation, although it has its ID.
func TestLateChargesLeaveReservationsOpen(t *testing.T) {
	f := newFixture(makePlan("a/x", byUser, reservable, late))
	f.decide(t, hitting(limiter.Hits{Cost: 60, Action: limiter.HitsReserve}))
	f.decide(t, hitting(limiter.Hits{Cost: 5}))
	NewWithT(t).Expect(f.usedOf(t, "a/x")).To(Equal([]int64{65, 60}))
}

func TestCommitsOfDescriptorsWithoutAHold(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", byUser, reservable))
	g.Expect(f.decide(t, hitting(limiter.Hits{Cost: 0, Action: limiter.HitsCommit})).Allowed).To(BeTrue())
	g.Expect(f.usedOf(t, "a/x")).To(Equal([]int64{0, 0}))
	f = newFixture(makePlan("a/x", byUser, reservable))
	g.Expect(f.decide(t, hitting(limiter.Hits{Cost: 500, Action: limiter.HitsCommit})).Allowed).To(BeTrue())
	g.Expect(f.usedOf(t, "a/x")).To(Equal([]int64{500, 0}), "without a hold it is a charge")
	g.Expect(f.decide(t, hitting(limiter.Hits{Cost: 1, Peek: true, Action: limiter.HitsReserve})).Allowed).To(BeFalse())

	f = newFixture(makePlan("a/x", byUser, reservable))
	f.decide(t, hitting(limiter.Hits{Cost: 60, Action: limiter.HitsReserve}))
	f.decide(t, hitting(limiter.Hits{Cost: 0, Action: limiter.HitsCommit}))
	g.Expect(f.usedOf(t, "a/x")).To(Equal([]int64{0, 0}), "0 cancels")
	g.Expect(f.decide(t, hitting(limiter.Hits{Cost: 101, Action: limiter.HitsReserve})).Reason).To(Equal(limiter.ReasonCostExceedsThreshold))
}

// A copied ID holds nothing with keys of its own, even if it is open only in mode Shadow, with another key.
func TestCopiedReservationIDs(t *testing.T) {
	g := NewWithT(t)
	team := func(p *plan.Plan) { byUser(p); p.Key = nil }
	f := newFixture(makePlan("a/team", team, reservable, mode(plan.ModeShadow)), makePlan("a/user", byUser, reservable))
	bob := hitting(limiter.Hits{Cost: 10, Action: limiter.HitsReserve})
	bob.Attributes.Descriptors[0][0].Value = "bob"
	g.Expect(f.decide(t, bob).Allowed).To(BeTrue())
	d := f.decide(t, hitting(limiter.Hits{Cost: 10, Action: limiter.HitsReserve}))
	g.Expect([]any{d.Allowed, d.Reason, d.Policy}).To(Equal([]any{false, limiter.ReasonReservationOpen, "a/team"}))
	g.Expect(f.usedOf(t, "a/user")).To(Equal([]int64{0, 0}))
	g.Expect(exposition(g, f.registry)).To(ContainSubstring(`weir_reservations_total{namespace="a",outcome="reserved",policy="user"} 1`))
}

func TestReservationsOfDescriptorsWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", byUser, reservable))
	f.store.err = lost()
	d := f.decide(t, hitting(limiter.Hits{Cost: 60, Action: limiter.HitsReserve}))
	g.Expect([]any{d.Allowed, d.Degraded}).To(Equal([]any{true, plan.FailOpen}))
	d = f.decide(t, hitting(limiter.Hits{Cost: 50, Action: limiter.HitsCommit}))
	g.Expect(d.Unsent).To(HaveLen(1))
	f.store.err = nil
	_, err := f.Commit(t.Context(), &d.Unsent[0])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.usedOf(t, "a/x")).To(Equal([]int64{50, 0}))
}

func TestInvalidReservationIDs(t *testing.T) {
	f := newFixture(makePlan("a/x", byUser, reservable))
	for _, id := range []string{"", "a b", "é"} {
		check := hitting(limiter.Hits{Cost: 1, Action: limiter.HitsCommit})
		check.ReservationID = id
		_, err := f.Decide(t.Context(), check)
		NewWithT(t).Expect(fieldOf(err)).To(Equal("descriptors[0]"), "%q", id)
	}
}
