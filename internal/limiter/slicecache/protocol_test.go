// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// This file checks the protocol of slices by exploring every order of its steps, for a small quota and up to three
// replicas. It is a model of the protocol, not of the code: of the calls that replicas send, of what the store does with
// them, and of what may happen to both. The store counts a FixedWindow; what the other algorithms do with holds is
// compared with the model of package reference.
//
// In each state one step is made: a replica sends a call, the store decides a call that was sent, once or again, a reply
// arrives, a unit is admitted, a tick of time passes, a replica is suspended or resumes, the store loses its data, or
// its clock is set forward. A state is a defect in which more units were admitted in a window than the quota, and
// another quota for each loss and each change of the clock.

const (
	modelQuota  = 3
	modelAge    = 2 // ticks for which a replica spends from a slice
	modelHold   = 3 // ticks for which the store keeps its hold
	modelWindow = 4 // ticks of a window
	mostModels  = 3 // replicas
	mostTakes   = 3 // of a replica
)

// history bounds the histories to explore.
type history struct {
	replicas    int
	takes       int8 // of each replica
	ticks       int8
	disruptions int8 // losses of data and changes of the clock
}

// defect is a mistake in the protocol. The check must find each.
type defect string

const (
	none            defect = ""
	oneCall         defect = "one call drops the former slice and takes the next one"
	countedAnew     defect = "the end of a slice counts from the repeated call"
	spentAfterSeal  defect = "units are spent after the seal"
	namedByCallers  defect = "callers can name the ID of a slice"
	ignoresSuspends defect = "the clock of a replica stops while it is suspended"
)

// modelSlice is a slice of a replica.
type modelSlice struct{ ID, Left, Spent, Ends int8 }

// modelCall is a call that was sent and is not answered. The store may decide it more than once, since it is repeated.
type modelCall struct {
	Kind    byte // 't' takes, 'c' commits, 'x' takes and drops the former slice
	ID      int8
	Units   int8 // of a commit
	Drops   int8 // the slice that 'x' drops, and what it had spent when the call was sent
	Spent   int8
	Sent    int8 // the tick by the clock of the replica
	Decided bool
	Granted int8
}

type modelReplica struct {
	Slice     modelSlice
	Call      modelCall
	Clock     int8 // ticks
	Suspended bool
	Takes     int8
	Old       modelSlice // sealed, to be committed
}

type modelHeld struct{ ID, Units, Ends int8 }

// modelState is a state of the world. It is comparable.
type modelState struct {
	Replicas [mostModels]modelReplica
	Holds    [mostModels * mostTakes]modelHeld
	Used     int8 // in the window
	Now      int8 // the clock of the store
	Ticks    int8 // true time
	Admitted int8 // in the window
	NextID   int8
	// Disruptions are all so far, Allowed is what they and the quota admit in the window.
	Disruptions, Allowed int8
}

func (s *modelState) held() (units int8) {
	for _, h := range s.Holds {
		units += h.Units
	}
	return units
}

// settle spends the holds that have ended, as of their ends.
func (s *modelState) settle() {
	for i, h := range s.Holds {
		if h.ID != 0 && h.Ends <= s.Now {
			if h.Ends/modelWindow == s.Now/modelWindow {
				s.Used += h.Units
			}
			s.Holds[i] = modelHeld{}
		}
	}
}

// pass lets the clock of the store advance.
func (s *modelState) pass(ticks int8) {
	before := s.Now / modelWindow
	s.Now += ticks
	if s.Now/modelWindow != before {
		s.Used, s.Admitted, s.Allowed = 0, 0, modelQuota*(1+s.Disruptions) // slices may outlive the window
	}
}

func (s *modelState) holdOf(id int8) *modelHeld {
	return &s.Holds[slices.IndexFunc(s.Holds[:], func(h modelHeld) bool { return h.ID == id })]
}

func (s *modelState) hasHold(id int8) bool {
	return slices.ContainsFunc(s.Holds[:], func(h modelHeld) bool { return h.ID == id })
}

// commit is a commit in the store.
func (s *modelState) commit(id, units int8) {
	if id != 0 && s.hasHold(id) {
		s.Used += units
		*s.holdOf(id) = modelHeld{}
	}
}

// take is a take in the store. It grants one unit, so that the states are few.
func (s *modelState) take(id int8) (granted int8) {
	if s.hasHold(id) {
		return s.holdOf(id).Units
	}
	if s.Used+s.held() >= modelQuota {
		return 0
	}
	*s.holdOf(0) = modelHeld{id, 1, s.Now + modelHold}
	return 1
}

// decide is the store with a call. A repeated take of a slice whose hold is gone makes a new one.
func (s *modelState) decide(c modelCall) modelCall {
	s.settle()
	switch c.Kind {
	case 't':
		c.Granted = s.take(c.ID)
	case 'c':
		s.commit(c.ID, c.Units)
	case 'x':
		if !s.hasHold(c.ID) {
			s.commit(c.Drops, c.Spent)
		}
		c.Granted = s.take(c.ID)
	}
	c.Decided = true
	return c
}

// next calls visit with every state that may follow.
func (s *modelState) next(h history, d defect, visit func(step string, next modelState)) {
	if s.Ticks < h.ticks {
		n := *s
		n.Ticks++
		n.pass(1)
		for i := range n.Replicas {
			if r := &n.Replicas[i]; !r.Suspended || d != ignoresSuspends {
				r.Clock++
			}
		}
		visit("a tick", n)
	}
	for i := range h.replicas {
		s.nextOf(i, h, d, func(step string, next modelState) { visit(fmt.Sprintf("replica %d: %s", i, step), next) })
	}
	n := *s
	n.settle()
	if n.Used+n.held() < modelQuota {
		n.Used++
		n.Admitted++
		visit("the store admits a check", n)
	}
	if s.Disruptions < h.disruptions {
		s.disrupt(visit)
	}
}

// disrupt calls visit with the states after a loss of data and a change of the clock.
func (s *modelState) disrupt(visit func(step string, next modelState)) {
	n := *s
	n.Disruptions++
	n.Allowed += modelQuota
	lost, ahead := n, n
	clear(lost.Holds[:])
	lost.Used = 0
	visit("the store loses its data", lost)
	ahead.Now += modelWindow
	ahead.Used = 0 // the window has ended by this clock; what was admitted counts in the true one
	visit("the clock of the store is set forward", ahead)
}

// nextOf calls visit with every state that follows a step of one replica.
func (s *modelState) nextOf(i int, h history, d defect, visit func(string, modelState)) {
	with := func(step string, change func(n *modelState, r *modelReplica)) {
		n := *s
		change(&n, &n.Replicas[i])
		visit(step, n)
	}
	r := s.Replicas[i]
	if r.Call.Kind != 0 { // what happens to calls does not depend on the replica
		with("the store decides", func(n *modelState, r *modelReplica) { r.Call = n.decide(r.Call) })
	}
	if r.Suspended {
		with("resumes", func(_ *modelState, r *modelReplica) { r.Suspended = false })
		return
	}
	with("is suspended", func(_ *modelState, r *modelReplica) { r.Suspended = true })
	if r.Slice.Left > 0 && r.Clock < r.Slice.Ends {
		with("admits", func(n *modelState, r *modelReplica) {
			r.Slice.Left, r.Slice.Spent = r.Slice.Left-1, r.Slice.Spent+1
			n.Admitted++
		})
	}
	s.nextWith(i, d, with)
	s.sendCallOf(i, h, d, with)
	s.nextCallOf(i, with)
}

// nextWith passes the steps of a defect to with.
func (s *modelState) nextWith(i int, d defect, with func(string, func(*modelState, *modelReplica))) {
	r := s.Replicas[i]
	switch {
	case d == countedAnew && r.Call.Kind != 0:
		with("sends again", func(_ *modelState, r *modelReplica) { r.Call.Sent = r.Clock })
	case d == spentAfterSeal && r.Old.Left > 0 && r.Clock < r.Old.Ends:
		with("admits from a sealed slice", func(n *modelState, r *modelReplica) {
			r.Old.Left--
			n.Admitted++
		})
	case d == namedByCallers && r.Slice.ID != 0:
		with("a caller commits its slice", func(n *modelState, _ *modelReplica) { n.commit(r.Slice.ID, 0) })
	}
}

// sendCallOf passes the steps that send calls to with.
func (s *modelState) sendCallOf(i int, h history, d defect, with func(string, func(*modelState, *modelReplica))) {
	r := s.Replicas[i]
	switch {
	case r.Call.Kind != 0:
	case r.Old.ID != 0:
		with("sends a commit", func(_ *modelState, r *modelReplica) {
			r.Call = modelCall{Kind: 'c', ID: r.Old.ID, Units: r.Old.Spent, Sent: r.Clock}
		})
	case r.Takes < h.takes:
		with("sends a take", func(n *modelState, r *modelReplica) {
			n.NextID++
			r.Takes++
			r.Call = modelCall{Kind: 't', ID: n.NextID, Sent: r.Clock}
			if d == oneCall && r.Slice.ID != 0 {
				r.Call.Kind, r.Call.Drops, r.Call.Spent = 'x', r.Slice.ID, r.Slice.Spent
			}
		})
	}
}

// nextCallOf passes the steps that receive replies, and that seal a slice, to with.
func (s *modelState) nextCallOf(i int, with func(string, func(*modelState, *modelReplica))) {
	r := s.Replicas[i]
	switch {
	case r.Call.Decided && r.Call.Kind == 'c':
		with("gets the reply to a commit", func(_ *modelState, r *modelReplica) { r.Call, r.Old = modelCall{}, modelSlice{} })
	case r.Call.Decided:
		with("gets a slice", func(_ *modelState, r *modelReplica) {
			c := r.Call
			if r.Slice.ID != 0 && c.Kind == 't' {
				r.Old = r.Slice
			}
			r.Slice, r.Call = modelSlice{ID: c.ID, Left: c.Granted, Ends: c.Sent + modelAge}, modelCall{}
		})
	case r.Call.Kind == 0 && r.Slice.ID != 0 && r.Old.ID == 0:
		with("seals its slice", func(_ *modelState, r *modelReplica) { r.Old, r.Slice = r.Slice, modelSlice{} })
	}
}

// explore returns the steps to a state with more admitted than allowed, or nil, and the number of states.
func explore(h history, d defect) (steps []string, states int) {
	type from struct {
		state modelState
		step  string
	}
	start := modelState{Allowed: modelQuota}
	seen := map[modelState]from{start: {}}
	queue := []modelState{start}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		var over *modelState
		at.next(h, d, func(step string, next modelState) {
			if _, found := seen[next]; found || over != nil {
				return
			}
			seen[next] = from{at, step}
			queue = append(queue, next)
			if next.Admitted > next.Allowed {
				over = &next
			}
		})
		if over != nil {
			for s := *over; s != start; s = seen[s].state {
				steps = append(steps, seen[s].step)
			}
			slices.Reverse(steps)
			return steps, len(seen)
		}
	}
	return nil, len(seen)
}

// The protocol admits no more than it may, in any order of its steps.
func TestProtocol(t *testing.T) {
	for _, h := range []history{
		{replicas: 1, takes: 2, ticks: 5, disruptions: 1},
		{replicas: 2, takes: 1, ticks: 3},
		{replicas: 3, takes: 1},
	} {
		steps, states := explore(h, none)
		NewWithT(t).Expect(steps).To(BeEmpty(), strings.Join(steps, "\n"))
		t.Logf("%+v: %d states", h, states)
	}
}

// The check of the protocol finds every defect that is put in.
func TestProtocolDefects(t *testing.T) {
	for _, d := range []defect{oneCall, countedAnew, spentAfterSeal, namedByCallers, ignoresSuspends} {
		t.Run(string(d), func(t *testing.T) {
			steps, states := explore(history{replicas: 1, takes: 2, ticks: 6}, d)
			NewWithT(t).Expect(steps).NotTo(BeEmpty(), "%d states", states)
			t.Logf("%d states:\n%s", states, strings.Join(steps, "\n"))
		})
	}
}
