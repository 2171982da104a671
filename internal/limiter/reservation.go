// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Errors of a Reserver.
var (
	// ErrReservationDiffers is returned by Reserve if a reservation with the same ID is open and
	// has another estimate.
	ErrReservationDiffers = errors.New("a reservation with this id is open, with another estimate")
	// ErrReservationEnded is returned by Renew if no hold of the reservation is open.
	ErrReservationEnded = errors.New("the reservation is not open: it was committed, has ended, or its key was reset")
	// ErrStoreUnavailable is returned by Commit, Renew and Charge if Redis does not answer in time.
	// They may have had their effect; sending them again is safe.
	ErrStoreUnavailable = errors.New("the store did not answer in time")
)

// Reserver holds units for requests whose cost is known only when they end. The engine
// implements it. Its methods return the errors of Decider.Decide and those above.
type Reserver interface {
	// Reserve decides the check and, if it is allowed, holds its cost. Redis that does not answer is
	// not an error: the failure modes decide.
	Reserve(ctx context.Context, reserve *Reserve) (*Decision, error)
	// Commit ends the holds of a reservation and spends the actual cost. It is never denied.
	Commit(ctx context.Context, commit *Commit) (*Committed, error)
	// Renew moves the end of a reservation.
	Renew(ctx context.Context, renew *Renew) (*Renewed, error)
	// Charge spends units that a client has used already. It is never denied.
	Charge(ctx context.Context, charge *Charge) (*Charged, error)
}

// Costs are numbers of units by policy, "<namespace>/<name>".
type Costs map[string]int64

// Reserve asks to hold units until the cost of a request is known.
type Reserve struct {
	// Check must be admitted. Its cost is the estimate: what the policies that take reservations
	// hold. All others spend 1.
	Check Check
	// Costs, when not nil, has the estimates in place of the cost. Policies that it does not name
	// spend 1. A policy that it names must take reservations.
	Costs Costs
	// ID names the reservation: 1 to 64 printable ASCII characters without spaces. While a
	// reservation is open, the same request with its ID is answered like the first and holds
	// nothing more. Empty draws a random one.
	ID string
	// TTL is how long the reservation stays open, in whole milliseconds. It is at most the
	// smallest maxTTL of the policies that hold units, which is also the default, 0.
	TTL time.Duration
}

// MaxIDBytes is the length of the longest ID of a reservation or of a charge, without EnvoyIDPrefix.
const MaxIDBytes = 64

// EnvoyIDPrefix begins the IDs of reservations and charges of Envoy, which are IDs of streams: upstreams and logs know
// them. The HTTP API rejects such IDs, so only Envoy can commit its reservations.
const EnvoyIDPrefix = "envoy:"

// RejectEnvoyID returns a *FieldError about the field if the ID is one of Envoy.
func RejectEnvoyID(field, id string) error {
	if !strings.HasPrefix(id, EnvoyIDPrefix) {
		return nil
	}
	return &FieldError{Field: field, Problem: "has an id of Envoy, beginning with " + EnvoyIDPrefix + ": only Envoy's rate limit service uses these"}
}

// idRule is what an ID is, see isID.
var idRule = fmt.Sprintf("1 to %d printable ASCII characters without spaces", MaxIDBytes)

func isID(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= MaxIDBytes
}

// validateID returns a *FieldError for an ID that is invalid. An empty one is valid.
func validateID(id string) error {
	if id == "" || isID(id) {
		return nil
	}
	return &FieldError{Field: "id", Problem: "must be " + idRule}
}

// validate returns a *FieldError for a reservation with an invalid ID.
func (r *Reservation) validate() error {
	if isID(strings.TrimPrefix(r.ID, EnvoyIDPrefix)) {
		return nil
	}
	return &FieldError{Field: "reservation", Problem: "has an invalid id"}
}

// Validate returns a *FieldError for the first invalid field, or nil.
func (r *Reserve) Validate() error {
	if err := r.Check.Validate(); err != nil {
		return err
	}
	if r.Check.Peek {
		return &FieldError{Field: "peek", Problem: "is not supported by reservations"}
	}
	return cmp.Or(validateTTL(r.TTL), validateID(r.ID), r.Costs.validate(1))
}

// Commit asks to end a reservation and to spend the actual cost.
type Commit struct {
	Reservation *Reservation
	// Cost is the number of units to spend of each policy of the reservation; 0 cancels it. NoCost, which needs
	// a Response, spends the estimates.
	Cost int64
	// Costs, when not nil, replaces Cost. It must name every policy of the reservation, except policies that compute
	// their cost. Others, which held nothing although the reserve named them, spend nothing.
	Costs Costs
	// Response is the outcome of the request. Policies that compute their cost from it need it, unless CostIsFinal, and
	// must not be in Costs.
	Response *Response
	// CostIsFinal is true for a commit that is sent again: Cost is what all policies spend.
	CostIsFinal bool
}

// NoCost is the Cost of a commit that names none.
const NoCost int64 = -1

// Response is the outcome of a request.
type Response struct {
	// Code is its status, 0..plan.MaxResponseCode; 0 is unknown.
	Code int
}

// Validate returns a *FieldError for the first invalid field, or nil.
func (c *Commit) Validate() error {
	if (c.Cost != NoCost || c.Response == nil) && (c.Cost < 0 || c.Cost > plan.MaxCost) {
		return &FieldError{Field: "cost", Problem: rangeProblem(0)}
	}
	return cmp.Or(c.Response.validate(), c.Reservation.validate(), c.Costs.validate(0))
}

// validate returns a *FieldError for a code out of bounds. A nil response is valid.
func (r *Response) validate() error {
	if r != nil && (r.Code < 0 || r.Code > plan.MaxResponseCode) {
		return &FieldError{Field: "response.code", Problem: fmt.Sprintf("must be 0..%d", plan.MaxResponseCode)}
	}
	return nil
}

// CostOf returns the number of units to spend of the policy of the hold, which does not compute its cost. It returns a
// *FieldError if Costs does not name it.
func (c *Commit) CostOf(hold *Hold) (int64, error) {
	if c.Costs == nil && c.Cost == NoCost {
		return hold.Units, nil
	}
	if c.Costs == nil {
		return c.Cost, nil
	}
	cost, found := c.Costs[hold.Policy]
	if !found {
		return 0, &FieldError{Field: "costs", Problem: "must name every policy of the reservation; " + hold.Policy + " is missing"}
	}
	return cost, nil
}

// Renew asks to move the end of a reservation.
type Renew struct {
	Reservation *Reservation
	// TTL is how long the reservation stays open from now. See Reserve.TTL.
	TTL time.Duration
}

// Validate returns a *FieldError for the first invalid field, or nil.
func (r *Renew) Validate() error {
	return cmp.Or(r.Reservation.validate(), validateTTL(r.TTL))
}

// Charge asks to spend units that a client has used already, by every policy that applies. Each policy spends by
// itself.
type Charge struct {
	// Check selects the policies and the keys, and has the cost. It must not be a peek.
	Check Check
	// ID, if not empty, makes the charge safe to repeat: the same ID is charged once in ten minutes. See
	// Reserve.ID.
	ID string
}

// Validate returns a *FieldError for the first invalid field, or nil.
func (c *Charge) Validate() error {
	if c.Check.Peek || slices.ContainsFunc(c.Check.Hits, func(h Hits) bool { return h.Peek }) {
		return &FieldError{Field: "peek", Problem: "is not supported by charges"}
	}
	return cmp.Or(validateID(c.ID), c.Check.Validate())
}

// Committed is the answer to a Commit.
type Committed struct {
	// Policies are the policies of the reservation, in its order.
	Policies []CommittedPolicy
	// Revision is the registry revision of the plans.
	Revision int64
}

// Found reports whether the commit spent anything or ended a hold. It is true for a reservation
// without holds.
func (c *Committed) Found() bool {
	for i := range c.Policies {
		if c.Policies[i].Committed {
			return true
		}
	}
	return len(c.Policies) == 0
}

// CommittedPolicy is the outcome of a commit for one hold.
type CommittedPolicy struct {
	Policy, Override, Exception string
	// Committed is false if no hold was open: it was committed before, has ended, or its key was
	// reset. Nothing was spent then.
	Committed bool
	// Gone is true if the policy no longer exists. Nothing was spent.
	Gone bool
	// Cost is the number of units spent, Estimate the number that was held.
	Cost, Estimate int64
	// Limits are the states of the limits afterwards.
	Limits []LimitState
}

// Renewed is the answer to a Renew.
type Renewed struct {
	// Policies are the policies of the reservation, in its order.
	Policies []RenewedPolicy
	Revision int64
}

// RenewedPolicy is the outcome of a renewal for one hold.
type RenewedPolicy struct {
	Policy string `json:"policy"`
	// Renewed is false if the hold was not open.
	Renewed bool `json:"renewed"`
}

// Charged is the answer to a Charge.
type Charged struct {
	// Charged is false if the ID was charged before.
	Charged bool
	// Limits holds every limit that took part, in the order of the chain.
	Limits   []LimitState
	Revision int64
}

func validateTTL(ttl time.Duration) error {
	if ttl < 0 || ttl > plan.MaxReservationTTL || ttl%time.Millisecond != 0 {
		return &FieldError{Field: "ttl", Problem: fmt.Sprintf("must be whole milliseconds, 1ms to %gh", plan.MaxReservationTTL.Hours())}
	}
	return nil
}

func (c Costs) validate(smallest int64) error {
	return c.Check(func(_ string, cost int64) string {
		if cost < smallest || cost > plan.MaxCost {
			return rangeProblem(smallest)
		}
		return ""
	})
}

// Check returns a *FieldError for the first policy, by name, for which problem returns one.
func (c Costs) Check(problem func(policy string, cost int64) string) error {
	for _, policy := range slices.Sorted(maps.Keys(c)) {
		if text := problem(policy, c[policy]); text != "" {
			return &FieldError{Field: CostField(policy), Problem: text}
		}
	}
	return nil
}

// CostField returns the path of the cost of a policy in a request, as in `costs["shop/usd"]`.
func CostField(policy string) string { return fmt.Sprintf("costs[%q]", policy) }

func rangeProblem(smallest int64) string {
	return fmt.Sprintf("must be %d..%d", smallest, int64(plan.MaxCost))
}
