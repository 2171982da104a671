// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// The number of live replicas follows a leaving replica after three seconds of answers, a joining
// one at once, and does not fall during or right after an outage.
func TestLiveReplicas(t *testing.T) {
	g := NewWithT(t)
	w := &Watcher{}
	g.Expect(w.LiveReplicas()).To(Equal(1), "before the first heartbeat")
	now := time.Unix(1_900_000_000, 0)
	heartbeats := func(n, replicas int) {
		for range n {
			now = now.Add(period)
			w.live.record(now, replicas)
		}
	}
	heartbeats(5, 3)
	g.Expect(w.LiveReplicas()).To(Equal(3))
	heartbeats(1, 4)
	g.Expect(w.LiveReplicas()).To(Equal(4))
	heartbeats(3, 2)
	g.Expect(w.LiveReplicas()).To(Equal(4))
	heartbeats(1, 2)
	g.Expect(w.LiveReplicas()).To(Equal(2))
	now = now.Add(time.Hour) // an outage, after which Redis has lost its data
	heartbeats(1, 1)
	g.Expect(w.LiveReplicas()).To(Equal(2))
	heartbeats(1, 2)
	g.Expect(w.LiveReplicas()).To(Equal(2))
	heartbeats(20, 0)
	g.Expect(w.LiveReplicas()).To(Equal(1))
}

// Up to 32 processes survey at every heartbeat. More of them read as many reports together.
func TestSurveysReadABoundedNumberOfReports(t *testing.T) {
	g := NewWithT(t)
	g.Expect(surveyInterval(1)).To(BeZero())
	g.Expect(surveyInterval(mostSurveying)).To(BeZero())
	for _, processes := range []int{33, 100, 1_000, 10_000, 1_000_000} {
		surveys := float64(processes) * float64(period) / float64(surveyInterval(processes))
		g.Expect(surveys*float64(processes)).To(BeNumerically("~", 1024, 1), "%d processes", processes)
	}
	now, s := time.Unix(1_900_000_000, 0), survey{}
	mean := surveyInterval(1_000)
	s.isDue(now, 1_000)
	g.Expect(s.due).To(BeTemporally("<", now.Add(mean)))
	s.plan(now, 1_000)
	g.Expect(s.due).To(And(BeTemporally(">=", now.Add(mean/2)), BeTemporally("<", now.Add(mean*3/2))))
}

// Between surveys the number of replicas follows the number of processes.
func TestLiveReplicasBetweenSurveys(t *testing.T) {
	g := NewWithT(t)
	var unknown *found
	g.Expect(unknown.number(7)).To(Equal(7), "before the first survey")
	f := &found{processes: 1_002, replicas: make([]Replica, 1_000)} // with a leader and a standby
	g.Expect(f.number(1_002)).To(Equal(1_000))
	g.Expect(f.number(1_102)).To(Equal(1_100))
	g.Expect(f.number(502)).To(Equal(500))
}
