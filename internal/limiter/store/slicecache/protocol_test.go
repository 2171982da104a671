// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// This file checks the protocol of slices by exploring every order of its steps, for a small quota and up to three
// replicas. It is a model of the protocol, not of the code: of the calls that replicas send, of what the store does with
// them, and of what may happen to both. The store counts as one of three algorithms do: SlidingWindow counts as
// SlidingLog does, with coarser times, and GCRA as TokenBucket.
//
// In each state one step is made: a replica sends a call, the store decides a call that was sent, once or again, a reply
// arrives, and a copy of its call may still be on its way, a unit is admitted, a tick of time passes, a replica is suspended or
// resumes, the store loses its data, or its clock is set forward. A state is a defect in which the admissions, counted
// by the algorithm at the time of each, are above the quota, and another quota for each loss and each change of the clock.

const (
	modelQuota  = 3
	modelAge    = 2 // ticks for which a replica spends from a slice
	modelHold   = 3 // ticks for which the store keeps its hold
	modelWindow = 4 // ticks of a window
	modelLog    = 2 // ticks for which a SlidingLog counts a unit
	modelRefill = 2 // ticks in which a bucket refills by one unit
	mostModels  = 3 // replicas
	mostTakes   = 3 // of a replica
)

// history bounds the histories to explore.
type history struct {
	algorithm   store.Algorithm
	replicas    int
	takes       int8 // of each replica
	ticks       int8
	disruptions int8 // losses of data and changes of the clock
	late        bool // copies of calls may arrive after the reply
}

// modelCounter counts units: of a SlidingLog by their ages in ticks, else all in the first.
type modelCounter [modelLog]int8

func (c *modelCounter) sum() (units int8) {
	for _, n := range c {
		units += n
	}
	return units
}

// pass lets a tick pass, which is the n-th one.
func (c *modelCounter) pass(a store.Algorithm, n int8) {
	switch {
	case a == store.SlidingLog:
		copy(c[1:], c[:modelLog-1])
		c[0] = 0
	case a == store.FixedWindow && n%modelWindow == 0:
		c[0] = 0
	case a == store.TokenBucket && n%modelRefill == 0:
		c[0] = max(0, c[0]-1)
	}
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
	Used     modelCounter // in the store, by its clock
	Admitted modelCounter // in truth
	Now      int8         // the clock of the store
	Ticks    int8         // true time
	NextID   int8
	Late     modelCall // a copy of a call that was answered
	// Disruptions are all so far.
	Disruptions int8
}

// isOver reports whether more was admitted than the quota, and another one for each disruption.
func (s *modelState) isOver() bool { return s.Admitted.sum() > modelQuota*(1+s.Disruptions) }

func (s *modelState) held() (units int8) {
	for _, h := range s.Holds {
		units += h.Units
	}
	return units
}

// pass lets the clock of the store advance by a tick, and spends the holds that end with it. Redis does so at the next call,
// as of their ends.
func (s *modelState) pass(a store.Algorithm) {
	s.Now++
	s.Used.pass(a, s.Now)
	for i, h := range s.Holds {
		if h.ID != 0 && h.Ends <= s.Now {
			s.Used[0] += h.Units
			s.Holds[i] = modelHeld{}
		}
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
		s.Used[0] += units
		*s.holdOf(id) = modelHeld{}
	}
}

// take is a take in the store. It grants one unit, so that the states are few.
func (s *modelState) take(id int8) (granted int8) {
	if s.hasHold(id) {
		return s.holdOf(id).Units
	}
	if s.Used.sum()+s.held() >= modelQuota {
		return 0
	}
	*s.holdOf(0) = modelHeld{id, 1, s.Now + modelHold}
	return 1
}

// decide is the store with a call. A repeated take of a slice whose hold is gone makes a new one.
func (s *modelState) decide(c modelCall) modelCall {
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
		n.Admitted.pass(h.algorithm, n.Ticks)
		n.pass(h.algorithm)
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
	if n := *s; n.Used.sum()+n.held() < modelQuota {
		n.Used[0]++
		n.Admitted[0]++
		visit("the store admits a check", n)
	}
	if n := *s; n.Late.Kind != 0 {
		n.Late = modelCall{}
		n.decide(s.Late)
		visit("the store decides a late copy", n)
	}
	if s.Disruptions < h.disruptions {
		s.disrupt(h.algorithm, visit)
	}
}

// disrupt calls visit with the states after a loss of data and a change of the clock.
func (s *modelState) disrupt(a store.Algorithm, visit func(step string, next modelState)) {
	n := *s
	n.Disruptions++
	lost, ahead := n, n
	clear(lost.Holds[:])
	lost.Used = modelCounter{}
	visit("the store loses its data", lost)
	for range modelWindow {
		ahead.pass(a)
	}
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
			n.Admitted[0]++
		})
	}
	s.nextWith(i, d, with)
	s.sendCallOf(i, h, d, with)
	s.nextCallOf(i, with)
	if h.late && s.Late.Kind == 0 && r.Call.Decided {
		s.nextCallOf(i, func(step string, change func(*modelState, *modelReplica)) {
			with(step+", a copy is late", func(n *modelState, r *modelReplica) {
				n.Late = r.Call
				change(n, r)
			})
		})
	}
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
			n.Admitted[0]++
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
	type reached struct {
		state modelState
		from  int // the state before, by its place
		step  string
	}
	all := []reached{{}}
	seen := map[modelState]bool{{}: true}
	for at := 0; at < len(all); at++ {
		over := false
		state := all[at].state
		state.next(h, d, func(step string, next modelState) {
			if over || seen[next] {
				return
			}
			seen[next] = true
			all = append(all, reached{next, at, step})
			over = next.isOver()
		})
		if over {
			for i := len(all) - 1; i > 0; i = all[i].from {
				steps = append(steps, all[i].step)
			}
			slices.Reverse(steps)
			break
		}
	}
	return steps, len(all)
}

// The protocol admits no more than it may, in any order of its steps.
func TestProtocol(t *testing.T) {
	for _, h := range []history{
		{algorithm: store.FixedWindow, replicas: 1, takes: 2, ticks: 5, disruptions: 1},
		{algorithm: store.FixedWindow, replicas: 1, takes: 2, ticks: 5, late: true},
		{algorithm: store.FixedWindow, replicas: 2, takes: 1, ticks: 3},
		{algorithm: store.FixedWindow, replicas: 3, takes: 1},
		{algorithm: store.SlidingLog, replicas: 1, takes: 2, ticks: 3, disruptions: 1},
		{algorithm: store.SlidingLog, replicas: 1, takes: 2, ticks: 3, late: true},
		{algorithm: store.TokenBucket, replicas: 1, takes: 2, ticks: 3, disruptions: 1},
		{algorithm: store.TokenBucket, replicas: 1, takes: 2, ticks: 4, late: true},
	} {
		steps, states := explore(h, none)
		NewWithT(t).Expect(steps).To(BeEmpty(), strings.Join(steps, "\n"))
		t.Logf("%+v: %d states", h, states)
	}
}

// The check of the protocol finds every defect that is put in.
func TestProtocolDefects(t *testing.T) {
	for _, algorithm := range []store.Algorithm{store.FixedWindow, store.SlidingLog, store.TokenBucket} {
		for _, d := range []defect{oneCall, countedAnew, spentAfterSeal, namedByCallers, ignoresSuspends} {
			t.Run(fmt.Sprint(algorithm, ": ", d), func(t *testing.T) {
				steps, states := explore(history{algorithm: algorithm, replicas: 1, takes: 2, ticks: 6}, d)
				NewWithT(t).Expect(steps).NotTo(BeEmpty(), "%d states", states)
				t.Logf("%d states:\n%s", states, strings.Join(steps, "\n"))
			})
		}
	}
}
