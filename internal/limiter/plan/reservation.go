// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"time"
)

// Bounds of reservations.
const (
	// MaxReservationTTL is the longest that a reservation may stay open without being renewed.
	MaxReservationTTL = 24 * time.Hour
	// MaxOpenReservations is the largest number of open reservations that a key may have.
	MaxOpenReservations = 100_000
	// MaxResponseCode is the largest code of a response; 0 is an unknown one.
	MaxResponseCode = 999

	minReservationTTL = time.Second
)

// Reservations bounds the reservations that a policy takes. The zero value takes none.
type Reservations struct {
	// MaxTTLMillis is the longest that a reservation stays open without being renewed, in
	// milliseconds.
	MaxTTLMillis int64 `json:"maxTTLMillis"`
	// MaxOpen is the largest number of open reservations of one key.
	MaxOpen int64 `json:"maxOpen"`
	// Cost is an expression that yields the cost of a commit, from the code of the response. If it is empty, commits
	// name their cost.
	Cost string `json:"cost,omitempty"`
	// BlockOnCommit makes commits that fill a limit start its block, in place of denials.
	BlockOnCommit bool `json:"blockOnCommit,omitempty"`
}

// Allowed reports whether the policy takes reservations.
func (r Reservations) Allowed() bool { return r.MaxOpen > 0 }

// MaxTTL returns the longest that a reservation stays open without being renewed.
func (r Reservations) MaxTTL() time.Duration { return time.Duration(r.MaxTTLMillis) * time.Millisecond }

func (p *Plan) validateReservations(fail func(string, ...any)) {
	r := p.Reservations
	if r == (Reservations{}) {
		return
	}
	if r.MaxTTLMillis < minReservationTTL.Milliseconds() || r.MaxTTLMillis > MaxReservationTTL.Milliseconds() {
		fail("reservations: a maxTTL of %d ms is out of bounds", r.MaxTTLMillis)
	}
	requireWithin(fail, "reservations.maxOpen", r.MaxOpen, 1, MaxOpenReservations)
	if longerThan(r.Cost, MaxExpression) {
		fail("reservations.cost is longer than %d characters", MaxExpression)
	}
	if p.Counting != CountAdmitted {
		fail("reservations need counting Admitted")
	}
	for i, l := range p.Limits {
		if l.Algorithm == Suppressed {
			fail("limits[%d].algorithm Suppressed supports no reservations", i)
		}
	}
}

// minLateCharge is the smallest number of hits that may be a charge.
const minLateCharge = 2

// LateCharges makes large hits of Envoy's rate limit service charges, which are spent whatever the
// limits admit. The zero value makes none.
type LateCharges struct {
	// From is the smallest number of hits that is a charge.
	From int64 `json:"from"`
}

// Include reports whether so large a number of hits is a charge.
func (l LateCharges) Include(hits int64) bool { return l.From > 0 && hits >= l.From }

func (p *Plan) validateLateCharges(fail func(string, ...any)) {
	if from := p.LateCharges.From; from != 0 {
		requireWithin(fail, "lateCharges.from", from, minLateCharge, math.MaxInt32)
	}
}
