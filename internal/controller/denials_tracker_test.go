// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// denialSimulation is a leader with its replicas and their Redis, in simulated seconds.
type denialSimulation struct {
	tracker *denialTracker
	now     time.Time
	skew    time.Duration // of the clock of Redis
	reports map[plan.Identity]time.Time
	events  []simulatedEvent
	perTick []int
}

type simulatedEvent struct {
	at     time.Duration
	policy plan.Identity
	denies bool
}

func newDenialSimulation() *denialSimulation {
	s := &denialSimulation{now: time.Unix(0, 0), reports: map[plan.Identity]time.Time{}}
	s.tracker = newDenialTracker(s.now, nil, nil)
	return s
}

func policyNumber(i int) plan.Identity {
	return plan.Identity{ID: fmt.Sprintf("shop/p%04d", i), UID: strconv.Itoa(i)}
}

func policyNumbers(n int) (list []plan.Identity) {
	for i := range n {
		list = append(list, policyNumber(i))
	}
	return list
}

// list returns the reports of the last five minutes.
func (s *denialSimulation) list() (list []plan.DenialReport) {
	for p, at := range s.reports {
		if s.now.Add(s.skew).Sub(at) > 5*time.Minute {
			delete(s.reports, p)
			continue
		}
		list = append(list, plan.DenialReport{Identity: p, At: at})
	}
	return list
}

// run runs rounds for the duration, while these policies deny requests and report it every 15 seconds.
func (s *denialSimulation) run(length time.Duration, denying ...plan.Identity) {
	for end := s.now.Add(length); s.now.Before(end); s.now = s.now.Add(denialInterval) {
		if s.now.Unix()%15 == 0 {
			for _, p := range denying {
				s.reports[p] = s.now.Add(s.skew)
			}
		}
		s.tracker.observe(s.now, s.list())
		due := s.tracker.due(s.now, maxDenialEvents)
		s.perTick = append(s.perTick, len(due))
		for _, p := range due {
			denies := s.tracker.denies(p)
			s.tracker.announce(p, denies, s.now)
			s.events = append(s.events, simulatedEvent{s.now.Sub(time.Unix(0, 0)), p, denies})
		}
	}
}

// replaceLeader begins the term of another leader.
func (s *denialSimulation) replaceLeader() {
	var announced []plan.Identity
	for p, r := range s.tracker.records {
		if r.announced {
			announced = append(announced, p)
		}
	}
	s.tracker = newDenialTracker(s.now, announced, s.list())
}

func TestDenialsBeginAndEnd(t *testing.T) {
	g := NewWithT(t)
	s, x, y := newDenialSimulation(), policyNumber(1), policyNumber(2)
	s.run(10 * time.Minute)
	g.Expect(s.events).To(BeEmpty())
	s.run(5*time.Minute, x)
	s.run(time.Hour)
	g.Expect(s.events).To(Equal([]simulatedEvent{
		{10 * time.Minute, x, true},
		// The last report was 15 s before.
		{15*time.Minute - 15*time.Second + denialsEnd, x, false},
	}))
	g.Expect(s.tracker.records).To(BeEmpty(), "nothing stays of a policy that denies nothing")
	s.run(time.Second, y)
	g.Expect(s.events[2:]).To(Equal([]simulatedEvent{{75 * time.Minute, y, true}}))
}

// Pauses of less than a minute end nothing.
func TestShortPausesAreNoEnd(t *testing.T) {
	g := NewWithT(t)
	s, x := newDenialSimulation(), policyNumber(1)
	for range 20 {
		s.run(time.Second, x)
		s.run(74 * time.Second)
	}
	g.Expect(s.events).To(HaveLen(1))
}

// A policy that alternates as fast as it can has at most one event a minute.
func TestOneEventAMinuteAPolicy(t *testing.T) {
	g := NewWithT(t)
	s, x := newDenialSimulation(), policyNumber(1)
	for range 100 {
		s.run(time.Second, x)
		s.run(89 * time.Second)
	}
	g.Expect(len(s.events)).To(BeNumerically(">", 50))
	for i, event := range s.events[1:] {
		g.Expect(event.at - s.events[i].at).To(BeNumerically(">=", time.Minute))
		g.Expect(event.denies).To(Equal(!s.events[i].denies))
	}
}

func TestFiveEventsASecondInAll(t *testing.T) {
	g := NewWithT(t)
	s := newDenialSimulation()
	s.run(30*time.Second, policyNumbers(5000)...)
	g.Expect(s.perTick).To(HaveLen(30))
	g.Expect(s.perTick).To(HaveEach(5))

	s = newDenialSimulation()
	s.run(2*time.Minute, policyNumbers(300)...)
	g.Expect(s.perTick[:60]).To(HaveEach(5))
	g.Expect(s.perTick[60:]).To(HaveEach(0))
	seen := map[plan.Identity]bool{}
	for _, event := range s.events {
		g.Expect(event.denies).To(BeTrue())
		seen[event.policy] = true
	}
	g.Expect(seen).To(HaveLen(300), "each has its event")
}

// What begins and ends while others have their events gets none.
func TestEventsAreNeverStale(t *testing.T) {
	g := NewWithT(t)
	s := newDenialSimulation()
	s.run(time.Second, policyNumbers(600)...)
	s.run(time.Hour)
	began, ended := 0, 0
	for _, event := range s.events {
		if event.denies {
			began++
			g.Expect(event.at).To(BeNumerically("<", denialsEnd))
		} else {
			ended++
		}
	}
	g.Expect(began).To(Equal(5 * int(denialsEnd/time.Second)))
	g.Expect(ended).To(Equal(began))
	g.Expect(s.tracker.records).To(BeEmpty())
}

func TestNextLeaderRepeatsNothing(t *testing.T) {
	g := NewWithT(t)
	s, x, y := newDenialSimulation(), policyNumber(1), policyNumber(2)
	s.run(5*time.Minute, x)
	s.replaceLeader()
	s.run(5*time.Minute, x)
	g.Expect(s.events).To(HaveLen(1))
	s.run(20 * time.Second) // it ends while leaders change
	s.replaceLeader()
	s.run(2 * time.Minute)
	g.Expect(s.events).To(HaveLen(2))
	g.Expect(s.events[1].denies).To(BeFalse())
	s.replaceLeader() // reports of x are still in Redis
	s.run(10 * time.Minute)
	g.Expect(s.events).To(HaveLen(2))

	s.reports[y] = s.now // began without a leader
	s.replaceLeader()
	s.run(2*time.Minute, y)
	g.Expect(s.events).To(HaveLen(3))
	g.Expect(s.events[2].policy).To(Equal(y))
}

// An end just before a change of leaders, and a beginning just after it, are a minute apart.
func TestOneEventAMinuteAcrossLeaders(t *testing.T) {
	g := NewWithT(t)
	s, x := newDenialSimulation(), policyNumber(1)
	s.run(time.Second, x)
	for len(s.events) < 2 {
		s.run(time.Second)
	}
	s.replaceLeader()
	s.run(2*time.Minute, x)
	g.Expect(s.events).To(HaveLen(3))
	g.Expect(s.events[2].at - s.events[1].at).To(BeNumerically(">=", time.Minute))
}

func TestSilenceDoesNotCountWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	s, x := newDenialSimulation(), policyNumber(1)
	s.run(time.Minute, x)
	for range 600 {
		s.now = s.now.Add(time.Second)
		s.tracker.skip(s.now)
	}
	s.run(time.Second)
	g.Expect(s.events).To(HaveLen(1))
	s.run(10*time.Minute, x)
	g.Expect(s.events).To(HaveLen(1))
	s.run(denialsEnd)
	g.Expect(s.events).To(HaveLen(2))
}

// A failover to a Redis whose clock is behind, and the loss of all data, end nothing.
func TestClockOfRedisGoesBack(t *testing.T) {
	g := NewWithT(t)
	s, x := newDenialSimulation(), policyNumber(1)
	s.run(time.Minute, x)
	s.skew = -time.Hour
	s.run(10*time.Minute, x)
	clear(s.reports)
	s.run(10*time.Minute, x)
	g.Expect(s.events).To(HaveLen(1))
}
