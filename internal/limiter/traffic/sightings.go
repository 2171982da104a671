// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"sync/atomic"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Sightings records whether checks apply to one plan. Decisions mark, a Reporter reads.
type Sightings struct {
	plan       *plan.Plan
	untargeted state // of checks without a target
}

// state is unseen, seen, or above these the second in which the sighting was reported.
type state struct{ atomic.Uint32 }

const (
	unseen uint32 = iota
	seen
	firstSecond
)

// NewSightings returns Sightings of a plan without any. They must not be copied later.
func NewSightings(p *plan.Plan) Sightings { return Sightings{plan: p} }

// Mark records that a check applies to the plan.
func (s *Sightings) Mark() { s.untargeted.mark() }

// each visits the states, with their targets.
func (s *Sightings) each(visit func(target string, of *state)) { visit("", &s.untargeted) }

// mark changes only a state that is unseen: a processor that reads shares the cache line with the others.
func (s *state) mark() {
	if s.Load() == unseen {
		s.CompareAndSwap(unseen, seen)
	}
}

// renew makes a state unseen that was reported reportPeriod ago, and reports whether it is to be reported.
func (s *state) renew(second uint32) bool {
	was := s.Load()
	if was >= firstSecond && second-was >= reportSeconds {
		s.CompareAndSwap(was, unseen)
	}
	return was == seen
}

// setReported records that a sighting was reported.
func (s *state) setReported(second uint32) { s.CompareAndSwap(seen, second) }

// member returns the member of the sorted set for the target.
func (s *Sightings) member(target string) string {
	return s.plan.ID() + " " + s.plan.Selectors() + " " + target
}
