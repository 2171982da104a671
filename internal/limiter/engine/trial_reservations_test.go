// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/flood"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// tryingFifty is a policy of 100 units that takes reservations and tries 50 units.
func tryingFifty(p *plan.Plan) {
	reservable(p)
	trying(50)(p)
}

// A reservation that the candidate denies holds and spends nothing there.
func TestCandidatesOfReservations(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", tryingFifty))
	first := f.reserve(t, reserve(40, "a/x"))
	second := f.reserve(t, reserve(20, "a/x")) // denied by the candidate: 60 of 50
	for reservation, cost := range map[*limiter.Reservation]int64{first.Reservation: 10, second.Reservation: 20} {
		f.commit(t, reservation, cost)
		f.AwaitBackground()
	}
	f.reserve(t, reserve(40, "a/x"))
	g.Expect(f.candidates(t)).To(Equal([]string{"a/x burst allowed/allowed 2", "a/x burst allowed/denied 1"}))

	_, err := f.Charge(t.Context(), &limiter.Charge{Check: limiter.Check{Policies: []string{"a/x"}, Key: []string{"bob"}, Cost: 50}})
	g.Expect(err).NotTo(HaveOccurred())
	f.AwaitBackground()
	bob := &limiter.Check{Policies: []string{"a/x"}, Key: []string{"bob"}, Cost: 1}
	g.Expect(f.decide(t, bob).Allowed).To(BeTrue())
	g.Expect(f.candidates(t)).To(Equal([]string{"a/x burst allowed/allowed 2", "a/x burst allowed/denied 2"}))
}

// The candidate holds and spends the 45 units of the reservation, as the limit does.
func TestCandidatesFollowTheCallsOfReservations(t *testing.T) {
	for name, call := range map[string]func(*testing.T, *fixture) error{
		"renew": func(t *testing.T, f *fixture) error {
			t.Helper()
			_, err := f.Renew(t.Context(), &limiter.Renew{Reservation: f.reserve(t, reserve(45, "a/x")).Reservation})
			return err
		},
		"a commit of a reservation made without Redis": func(t *testing.T, f *fixture) error {
			t.Helper()
			f.store.err = lost()
			r := f.reserve(t, reserve(45, "a/x")).Reservation
			f.store.err = nil
			_, err := f.Commit(t.Context(), &limiter.Commit{Reservation: r, Cost: 45})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", tryingFifty))
			g.Expect(call(t, f)).To(Succeed())
			f.AwaitBackground()
			ten := named("a/x")
			ten.Cost = 10
			g.Expect(f.decide(t, ten).Allowed).To(BeTrue())
			g.Expect(f.candidates(t)).To(ContainElement("a/x burst allowed/denied 1"), "55 of 50 units")
		})
	}
}

// A commit of Envoy without a hold is a charge, but not in a candidate that denied the reserve.
func TestCandidatesOfReservationsOfDescriptors(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", byUser, tryingFifty))
	for _, action := range []limiter.HitsAction{limiter.HitsReserve, limiter.HitsCommit} {
		for id, cost := range map[string]int64{"stream-1": 60, "stream-2": 20} {
			check := hitting(limiter.Hits{Cost: cost, Action: action})
			check.ReservationID = id
			g.Expect(f.decide(t, check).Allowed).To(BeTrue())
			f.AwaitBackground()
		}
	}
	g.Expect(f.usedOf(t, "a/x")).To(Equal([]int64{80, 0}))
	thirty := named("a/x")
	thirty.Cost = 30
	f.decide(t, thirty)
	g.Expect(f.candidates(t)).To(ContainElement("a/x burst denied/allowed 1"), "20 and 30 of 50 units")
}

// A caller that is gone does not end the work for candidates.
func TestCandidatesJudgeWithoutTheCaller(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", trying(2)))
	ctx, cancel := context.WithCancel(t.Context())
	f.store.during(cancel)
	_, err := f.Decide(ctx, named("a/x"))
	g.Expect(err).NotTo(HaveOccurred())
	f.AwaitBackground()
	g.Expect([]bool{ctx.Err() != nil, f.store.canceled}).To(Equal([]bool{true, false}))
}

// Checks that the limits in force did not judge are not judged by candidates.
func TestCandidatesJudgeJudgedChecks(t *testing.T) {
	for name, prepare := range map[string]func(*fixture, *limiter.Check){
		"answered by a cache, without Redis": func(f *fixture, _ *limiter.Check) {
			f.store.changeReplies(func(r *store.Reply) { r.Unanswered = true })
		},
		"a copied ID": func(_ *fixture, c *limiter.Check) { c.Hits[0].Action = limiter.HitsReserve },
		"a peek beside a check": func(_ *fixture, c *limiter.Check) {
			c.Hits[0].Peek = true
			c.Attributes.Descriptors = append(c.Attributes.Descriptors, descriptors("b=1")...)
			c.Hits = append(c.Hits, limiter.Hits{Cost: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", byUser, tryingFifty), makePlan("a/b", matching(matchingDescriptor("b"))))
			f.decide(t, hitting(limiter.Hits{Cost: 40, Action: limiter.HitsReserve}))
			check := hitting(limiter.Hits{Cost: 1})
			prepare(f, check)
			f.decide(t, check)
			g.Expect(f.candidates(t)).To(Equal([]string{"a/x burst allowed/allowed 1"}))
		})
	}
}

// Unknown keys share one budget of the candidate, as they do of the limits in force.
func TestCandidatesDuringAFlood(t *testing.T) {
	f := newFloodFixture(flood.Limits{}, func() bool { return true })
	f.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x", keyed(apiKey), trying(1))}))
	for _, name := range []string{"bob", "carol"} {
		f.decide(t, clientCheck(name))
		f.AwaitBackground()
	}
	NewWithT(t).Expect(f.candidates(t)).To(Equal([]string{"a/x burst allowed/allowed 1", "a/x burst allowed/denied 1"}))
}
