// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/flood"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// reservable lets the policy take reservations of at most ten minutes, three for each key, from a
// quota of 100 units an hour.
func reservable(p *plan.Plan) {
	p.Reservations = plan.Reservations{MaxTTLMillis: 600_000, MaxOpen: 3}
	p.Limits[0].Threshold, p.Limits[0].WindowMillis = 100, 3_600_000
}

// reserve is a request to reserve the estimate of the named policies.
func reserve(estimate int64, ids ...string) *limiter.Reserve {
	return &limiter.Reserve{Check: limiter.Check{Policies: ids, Key: []string{"alice"}, Cost: estimate}}
}

func (f *fixture) reserve(t *testing.T, r *limiter.Reserve) *limiter.Decision {
	t.Helper()
	d, err := f.Reserve(t.Context(), r)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(d.Reservation != nil).To(Equal(d.Allowed), "an allowed reserve has a reservation")
	return d
}

// commit commits the reservation, which takes the way through its text.
func (f *fixture) commit(t *testing.T, r *limiter.Reservation, cost int64) *limiter.Committed {
	t.Helper()
	g := NewWithT(t)
	decoded, err := limiter.DecodeReservation(r.Encode())
	g.Expect(err).NotTo(HaveOccurred())
	committed, err := f.Commit(t.Context(), &limiter.Commit{Reservation: decoded, Cost: cost})
	g.Expect(err).NotTo(HaveOccurred())
	return committed
}

// used returns the used and the held units of the first limit of a/x.
func (f *fixture) used(t *testing.T) []int64 {
	t.Helper()
	l := f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Key: []string{"alice"}, Cost: 1, Peek: true}).Limits[0]
	return []int64{l.Used, l.Held}
}

func fieldOf(err error) string {
	if invalid, ok := errors.AsType[*limiter.FieldError](err); ok {
		return invalid.Field
	}
	return ""
}

func TestReserveHoldsAndCommitSpends(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable))
	first := f.reserve(t, reserve(60, "a/x"))
	g.Expect(first.Reservation.ID).To(MatchRegexp("^[0-9a-f]{32}$"))
	g.Expect(first.Reservation.Holds).To(Equal([]limiter.Hold{{Policy: "a/x", Key: []string{"alice"}, Units: 60}}))
	g.Expect(first.Limits[0].Used).To(Equal(int64(60)))
	g.Expect(first.Limits[0].Held).To(Equal(int64(60)))

	denied := f.reserve(t, reserve(50, "a/x"))
	g.Expect(denied.Allowed).To(BeFalse())
	g.Expect(denied.Reason).To(Equal(limiter.ReasonLimitExceeded))
	g.Expect(denied.WaitsFor).To(Equal(limiter.WaitsForReservations))
	g.Expect(denied.RetryAfter).To(Equal(time.Second))

	committed := f.commit(t, first.Reservation, 10)
	g.Expect(committed.Found()).To(BeTrue())
	g.Expect(committed.Revision).To(Equal(int64(1)))
	only := committed.Policies[0]
	g.Expect([]any{only.Policy, only.Committed, only.Cost, only.Estimate}).To(Equal([]any{"a/x", true, int64(10), int64(60)}))
	g.Expect(only.Limits[0].Used).To(Equal(int64(10)))
	g.Expect(f.used(t)).To(Equal([]int64{10, 0}))

	again := f.commit(t, first.Reservation, 10)
	g.Expect(again.Found()).To(BeFalse(), "the hold is the record")
	g.Expect(again.Policies[0].Cost).To(BeZero())
	g.Expect(f.used(t)).To(Equal([]int64{10, 0}))

	second := f.reserve(t, reserve(50, "a/x"))
	g.Expect(f.commit(t, second.Reservation, 0).Found()).To(BeTrue(), "a cost of 0 cancels")
	g.Expect(f.used(t)).To(Equal([]int64{10, 0}))
	g.Expect(f.commit(t, f.reserve(t, reserve(90, "a/x")).Reservation, 200).Policies[0].Limits[0].Used).
		To(Equal(int64(210)), "a commit is never denied")
	g.Expect(f.decide(t, named("a/x")).WaitsFor).To(BeEmpty(), "spent units deny")
}

// Where spent units deny too, the caller waits for the window.
func TestOnlyHoldsWaitForReservations(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable), makePlan("a/y"))
	f.reserve(t, reserve(99, "a/x"))
	g.Expect(f.reserve(t, reserve(2, "a/x", "a/y")).WaitsFor).To(Equal(limiter.WaitsForReservations))
	check := named("a/y")
	check.Cost = 3
	f.decide(t, check)
	for _, chain := range [][]string{{"a/x", "a/y"}, {"a/y", "a/x"}} {
		d := f.reserve(t, reserve(2, chain...))
		g.Expect(d.Policy).To(Equal(chain[0]))
		g.Expect(d.WaitsFor).To(BeEmpty())
		g.Expect(d.RetryAfter).To(BeNumerically(">", 50*time.Second))
	}
}

// A blocked key waits for its block, although no limit denies the reserve.
func TestBlockedReserveWaitsForTheBlock(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable, func(p *plan.Plan) {
		p.Limits[0].WindowMillis, p.Limits[0].BlockMillis = 1000, 600_000
	}))
	f.spend(t, 101, "a/x")
	f.store.now = f.store.now.Add(time.Minute)
	d := f.reserve(t, reserve(1, "a/x"))
	g.Expect([]any{d.Reason, d.Limits[0].Used, d.WaitsFor}).To(Equal([]any{limiter.ReasonBlocked, int64(0), limiter.WaitsFor("")}))
	g.Expect(d.RetryAfter).To(Equal(9 * time.Minute))
}

func TestTooManyReservations(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable))
	for range 3 {
		g.Expect(f.reserve(t, reserve(1, "a/x")).Allowed).To(BeTrue())
	}
	d := f.reserve(t, reserve(1, "a/x"))
	g.Expect(d.Reason).To(Equal(limiter.ReasonTooManyReservations))
	g.Expect([]any{d.Policy, d.Limit, d.WaitsFor, d.RetryAfter}).To(Equal([]any{"a/x", "", limiter.WaitsForReservations, time.Second}))
	g.Expect(f.decide(t, named("a/x")).Allowed).To(BeTrue(), "checks hold nothing")
}

// Policies that take no reservations, and those that costs do not name, spend one unit, finally.
func TestEstimatesOfAChain(t *testing.T) {
	longer := func(p *plan.Plan) {
		reservable(p)
		p.Reservations.MaxTTLMillis = 1_200_000
	}
	for name, tc := range map[string]struct {
		costs limiter.Costs
		ttl   time.Duration
		used  []int64
		held  []int64
		field string
	}{
		"one estimate":                {nil, 0, []int64{7, 1, 7}, []int64{7, 0, 7}, ""},
		"estimates by policy":         {limiter.Costs{"a/x": 5, "a/z": 9}, 0, []int64{9, 1, 5}, []int64{9, 0, 5}, ""},
		"an estimate of one policy":   {limiter.Costs{"a/z": 9}, 0, []int64{9, 1, 1}, []int64{9, 0, 0}, ""},
		"the shortest maxTTL":         {nil, 10 * time.Minute, []int64{7, 1, 7}, []int64{7, 0, 7}, ""},
		"a longer ttl":                {nil, 10*time.Minute + time.Millisecond, nil, nil, "ttl"},
		"only what holds is bounding": {limiter.Costs{"a/z": 9}, 20 * time.Minute, []int64{9, 1, 1}, []int64{9, 0, 0}, ""},
		"another policy":              {limiter.Costs{"a/w": 1}, 0, nil, nil, `costs["a/w"]`},
		"a policy without any":        {limiter.Costs{"a/x": 1, "a/y": 1}, 0, nil, nil, `costs["a/y"]`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", reservable), makePlan("a/y"), makePlan("a/z", longer))
			r := reserve(7, "a/z", "a/y", "a/x")
			r.Costs, r.TTL = tc.costs, tc.ttl
			d, err := f.Reserve(t.Context(), r)
			if tc.field != "" {
				g.Expect(fieldOf(err)).To(Equal(tc.field))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			var used, held []int64
			for _, l := range d.Limits {
				used, held = append(used, l.Used), append(held, l.Held)
			}
			g.Expect(used).To(Equal(tc.used))
			g.Expect(held).To(Equal(tc.held))
		})
	}
}

// A reserve with the ID of an open reservation is answered like the first one.
func TestReserveIsRepeatable(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable), makePlan("a/y"))
	r := reserve(60, "a/x", "a/y")
	r.ID = "request-1"
	first := f.reserve(t, r)
	g.Expect(first.Reservation.ID).To(Equal("request-1"))
	g.Expect(f.reserve(t, r).Reservation).To(Equal(first.Reservation))
	g.Expect(f.used(t)).To(Equal([]int64{60, 60}))
	g.Expect(f.decide(t, named("a/y")).Limits[0].Used).To(Equal(int64(2)), "the repeated one spends nothing")

	r.Check.Cost = 30
	_, err := f.Reserve(t.Context(), r)
	g.Expect(err).To(MatchError(limiter.ErrReservationDiffers))
	g.Expect(f.used(t)).To(Equal([]int64{60, 60}))
	for _, id := range []string{"a b", strings.Repeat("i", 65), "é"} {
		r.ID = id
		_, err = f.Reserve(t.Context(), r)
		g.Expect(fieldOf(err)).To(Equal("id"), id)
	}
}

// A reserve that differs from the open one holds nothing of other policies either.
func TestReserveThatDiffersHoldsNothing(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/y", reservable), makePlan("a/x", reservable))
	first, second := reserve(60, "a/y"), reserve(30, "a/x", "a/y")
	first.ID, second.ID = "request-1", "request-1"
	f.reserve(t, first)
	_, err := f.Reserve(t.Context(), second)
	g.Expect(err).To(MatchError(limiter.ErrReservationDiffers))
	g.Expect(f.used(t)).To(Equal([]int64{0, 0}))
}

func TestDeniedReserves(t *testing.T) {
	deny := overridden(plan.Override{Name: "o", Keys: []string{"alice"}, Action: plan.ActionDeny})
	for name, tc := range map[string]struct {
		plan   *plan.Plan
		cost   int64
		reason limiter.Reason
	}{
		"an override":     {makePlan("a/x", reservable, keyed(apiKey), deny), 1, limiter.ReasonDeniedByOverride},
		"a large cost":    {makePlan("a/x", reservable), 101, limiter.ReasonCostExceedsThreshold},
		"the whole quota": {makePlan("a/x", reservable), 100, limiter.ReasonAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(tc.plan)
			g.Expect(f.reserve(t, reserve(tc.cost, "a/x")).Reason).To(Equal(tc.reason))
		})
	}
}

// In mode Shadow holds are taken where they fit, and nothing is denied.
func TestReservationsInShadow(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable, mode(plan.ModeShadow)))
	g.Expect(f.reserve(t, reserve(60, "a/x")).Reservation.Holds).To(HaveLen(1))
	over := f.reserve(t, reserve(60, "a/x"))
	g.Expect(over.Allowed).To(BeTrue())
	g.Expect(over.Reservation.Holds).To(BeEmpty())
	g.Expect(f.used(t)).To(Equal([]int64{60, 60}))
}

// Commits find the key again, whatever its parts are.
func TestReservationsOfUnusualKeys(t *testing.T) {
	for name, parts := range map[string][]string{
		"no key":            {},
		"a missing part":    {""},
		"missing parts":     {"", "a", ""},
		"a dash":            {"-"},
		"separators":        {"a|b", "{c}", "50%", "#", "# 1", "#a/x#0"},
		"text":              {"é \u2028", "\"quoted\\\"", "\x00\xff"},
		"a long part":       {strings.Repeat("k", 300)},
		"as long as a hash": {strings.Repeat("k", 33)},
		"eight long parts":  {strings.Repeat("a", 255), strings.Repeat("b", 255), "c", "d", "e", "f", "g", "h"},
		"looks like a hash": {"#0123456789abcdef0123456789abcdef"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var key []plan.KeyPart
			headers := map[string]string{}
			for i, part := range parts {
				header := string(rune('a' + i))
				key, headers[header] = append(key, plan.KeyPart{Type: plan.KeyHeader, Header: header}), part
			}
			f := newFixture(makePlan("a/x", reservable, keyed(key...)))
			d := f.reserve(t, &limiter.Reserve{Check: limiter.Check{Policies: []string{"a/x"}, Cost: 60, Attributes: plan.Attributes{Headers: headers}}})
			committed := f.commit(t, d.Reservation, 10)
			g.Expect(committed.Found()).To(BeTrue())
			g.Expect(committed.Policies[0].Limits[0].Used).To(Equal(int64(10)))
		})
	}
}

func TestKeysTooLongForAReservation(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable), makePlan("a/y", reservable), makePlan("a/z", reservable))
	r := reserve(1, "a/x", "a/y", "a/z")
	r.Check.Key = nil
	for range plan.MaxKeyParts {
		r.Check.Key = append(r.Check.Key, strings.Repeat("k", 255))
	}
	_, err := f.Reserve(t.Context(), r)
	g.Expect(fieldOf(err)).To(Equal("key"))
	g.Expect(f.store.last).To(BeNil(), "nothing is held")
	r.Check.Policies = []string{"a/x", "a/y"}
	g.Expect(len(f.reserve(t, r).Reservation.Encode())).To(BeNumerically("<=", limiter.MaxReservationBytes))
}

func TestInvalidCallsOfReservations(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable))
	r := f.reserve(t, reserve(1, "a/x")).Reservation
	f.store.last = nil
	peek := reserve(1, "a/x")
	peek.Check.Peek = true
	_, reserved := f.Reserve(t.Context(), peek)
	_, committed := f.Commit(t.Context(), &limiter.Commit{Reservation: r, Cost: -1})
	_, renewed := f.Renew(t.Context(), &limiter.Renew{Reservation: r, TTL: -time.Second})
	_, charged := f.Charge(t.Context(), &limiter.Charge{Check: limiter.Check{Policies: []string{"a/x"}}})
	g.Expect([]string{fieldOf(reserved), fieldOf(committed), fieldOf(renewed), fieldOf(charged)}).
		To(Equal([]string{"peek", "cost", "ttl", "cost"}))
	g.Expect(f.store.last).To(BeNil())
}

func TestInvalidHolds(t *testing.T) {
	for name, r := range map[string]limiter.Reservation{
		"no id":                 {},
		"an id with a space":    {ID: "a b"},
		"an empty part":         {ID: "a", Holds: []limiter.Hold{{Policy: "a/x", Key: []string{""}, Units: 1}}},
		"a hash tag":            {ID: "a", Holds: []limiter.Hold{{Policy: "a/x", Key: []string{"}:x"}, Units: 1}}},
		"a separator":           {ID: "a", Holds: []limiter.Hold{{Policy: "a/x", Key: []string{"a|b"}, Units: 1}}},
		"an escape too many":    {ID: "a", Holds: []limiter.Hold{{Policy: "a/x", Key: []string{"%41"}, Units: 1}}},
		"another overflow":      {ID: "a", Holds: []limiter.Hold{{Policy: "a/x", Key: []string{"#a/y#0"}, Units: 1}}},
		"a negative overflow":   {ID: "a", Holds: []limiter.Hold{{Policy: "a/x", Key: []string{"#a/x#-1"}, Units: 1}}},
		"an overflow among":     {ID: "a", Holds: []limiter.Hold{{Policy: "a/x", Key: []string{"#a/x#0", "a"}, Units: 1}}},
		"nine parts":            {ID: "a", Holds: []limiter.Hold{{Policy: "a/x", Key: strings.Split("abcdefghi", ""), Units: 1}}},
		"the same hold twice":   {ID: "a", Holds: []limiter.Hold{{Policy: "a/x", Units: 1}, {Policy: "a/x", Units: 2}}},
		"a control character":   {ID: "a", Holds: []limiter.Hold{{Policy: "a/x", Key: []string{"\n"}, Units: 1}}},
		"a hash in upper case":  {ID: "a", Holds: []limiter.Hold{{Policy: "a/x", Key: []string{"#" + strings.Repeat("A", 32)}, Units: 1}}},
		"a hash of other bytes": {ID: "a", Holds: []limiter.Hold{{Policy: "a/x", Key: []string{"#" + strings.Repeat("}", 32)}, Units: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newFixture(makePlan("a/x", reservable), makePlan("a/y", reservable))
			_, err := f.Commit(t.Context(), &limiter.Commit{Reservation: &r, Cost: 1})
			g.Expect(fieldOf(err)).To(Equal("reservation"))
			_, err = f.Renew(t.Context(), &limiter.Renew{Reservation: &r})
			g.Expect(fieldOf(err)).To(Equal("reservation"))
			g.Expect(f.store.last).To(BeNil())
		})
	}
}

// During a flood the hold of an unknown key is one of the overflow key.
func TestReservationsDuringAFlood(t *testing.T) {
	g := NewWithT(t)
	low := true
	f := newFloodFixture(flood.Limits{}, func() bool { return low })
	f.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x", reservable, keyed(apiKey))}))
	d := f.reserve(t, reserve(60, "a/x"))
	g.Expect(d.Limits[0].Overflow).To(BeTrue())
	g.Expect(d.Reservation.Holds[0].Key).To(Equal([]string{"#a/x#0"}))
	low = false
	committed := f.commit(t, d.Reservation, 10)
	g.Expect(committed.Found()).To(BeTrue())
	g.Expect(committed.Policies[0].Estimate).To(Equal(int64(60)))
	g.Expect(f.used(t)).To(Equal([]int64{0, 0}))
}

func TestMetricsOfReservations(t *testing.T) {
	g := NewWithT(t)
	f := newFixture(makePlan("a/x", reservable))
	r := reserve(60, "a/x")
	r.TTL = time.Minute
	f.reserve(t, r)
	f.reserve(t, r) // denied
	f.store.now = f.store.now.Add(2 * time.Minute)
	f.decide(t, named("a/x")) // spends the 60 that ended
	reservation := f.reserve(t, reserve(30, "a/x")).Reservation
	_, err := f.Renew(t.Context(), &limiter.Renew{Reservation: reservation})
	g.Expect(err).NotTo(HaveOccurred())
	f.commit(t, f.reserve(t, reserve(1, "a/x")).Reservation, 0)
	second := f.reserve(t, reserve(9, "a/x")).Reservation
	f.commit(t, reservation, 60)
	f.commit(t, reservation, 60)
	f.commit(t, second, 11)
	for _, id := range []string{"c", "c"} {
		_, err = f.Charge(t.Context(), &limiter.Charge{Check: *named("a/x"), ID: id})
		g.Expect(err).NotTo(HaveOccurred())
	}
	text := exposition(g, f.registry)
	for outcome, count := range map[string]string{
		"reserved": "4", "denied": "1", "ended": "1", "renewed": "1", "committed": "2", "cancelled": "1", "missing": "1",
	} {
		g.Expect(text).To(ContainSubstring(`weir_reservations_total{namespace="a",outcome="`+outcome+`",policy="x"} `+count+"\n"), text)
	}
	g.Expect(text).To(ContainSubstring(`weir_charges_total{namespace="a",outcome="charged",policy="x"} 1`))
	g.Expect(text).To(ContainSubstring(`weir_charges_total{namespace="a",outcome="repeated",policy="x"} 1`))
	g.Expect(text).To(ContainSubstring(`weir_debt_units_total{namespace="a",policy="x"} 33`), "of 60 + 1 + 9 + 60 the quota lacks 30, of the 11 in place of 9 it lacks 2, and of the charge 1")
	f.Use(index.NewSnapshot(2, nil))
	g.Expect(exposition(g, f.registry)).NotTo(ContainSubstring(`namespace="a"`))
}
