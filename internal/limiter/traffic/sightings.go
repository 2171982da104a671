// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"slices"
	"sync/atomic"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Sightings records whether checks apply to one plan, and whether it denies any. Decisions mark, a Reporter
// reads.
type Sightings struct {
	plan       *plan.Plan
	untargeted state // of checks that no target selects
	denials    state
	targets    []targetState
}

// targetState is the state of the checks that one target of the plan selects.
type targetState struct {
	state

	target plan.Target
}

// state is unseen, seen, or above these the second in which the sighting was reported.
type state struct {
	atomic.Uint32

	last atomic.Uint32 // the second of the last report
}

const (
	unseen uint32 = iota
	seen
	firstSecond
)

// NewSightings returns Sightings of a plan without any. They must not be copied later.
func NewSightings(p *plan.Plan) Sightings { return Sightings{plan: p, targets: newTargetStates(p)} }

func newTargetStates(p *plan.Plan) []targetState {
	targets := p.Targets()
	states := make([]targetState, len(targets))
	for i := range states {
		states[i].target = targets[i]
	}
	return states
}

// Mark records that a check applies to the plan, without a target.
func (s *Sightings) Mark() { s.untargeted.mark() }

// MarkDenial records that the plan denies a check.
func (s *Sightings) MarkDenial() { s.denials.mark() }

// MarkTargets records that a check applies to the plan, which came through these targets. Others than the
// targets of the plan are ignored.
func (s *Sightings) MarkTargets(through []plan.Target) {
	for i := range s.targets {
		if own := &s.targets[i]; own.Load() == unseen && slices.ContainsFunc(through, own.target.Covers) {
			own.mark()
		}
	}
}

// each visits the states, with their targets.
func (s *Sightings) each(visit func(target plan.Target, of *state)) {
	visit("", &s.untargeted)
	for i := range s.targets {
		visit(s.targets[i].target, &s.targets[i].state)
	}
}

// mark changes only a state that is unseen: a processor that reads shares the cache line with the others.
func (s *state) mark() {
	if s.Load() == unseen {
		s.CompareAndSwap(unseen, seen)
	}
}

// renew makes a state unseen that was reported at least interval seconds ago, and reports whether it is to be
// reported.
func (s *state) renew(second, interval uint32) bool {
	was := s.Load()
	if was >= firstSecond && second-was >= interval {
		s.CompareAndSwap(was, unseen)
	}
	return was == seen
}

// setReported records that a sighting was reported.
func (s *state) setReported(second uint32) {
	s.CompareAndSwap(seen, second)
	s.last.Store(second)
}

// member returns the member of the set of sightings for the target.
func (s *Sightings) member(target plan.Target) string {
	return s.plan.ID() + " " + s.plan.Selectors() + " " + string(target)
}

// denialMember returns the member of the set of denials.
func (s *Sightings) denialMember() string {
	return memberOf(plan.Identity{ID: s.plan.ID(), UID: s.plan.UID})
}
