// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// mostSurveying is the number of processes of which each finds all others at every heartbeat. More of them read as many reports
// together as these: if each of N processes read N reports, the cost to Redis would rise with the square of their number.
const mostSurveying = 32

// agePerProcess bounds the surveys that callers cause: 1,000 replicas whose lists are all read all the time read 83,000 reports a second.
const agePerProcess = 10 * time.Millisecond

// survey decides at which of its heartbeats a replica finds all live processes: at every one with up to mostSurveying
// processes, else less often, at random times. So replicas that start or reconnect together do not do it together.
type survey struct {
	due time.Time // zero before the number of processes is known
}

// isDue reports whether the replica finds all processes now. It plans the first survey by their number, earlier than the next
// ones: until then the replica lists none.
func (s *survey) isDue(now time.Time, processes int) bool {
	if s.due.IsZero() {
		s.due = now
		if mean := surveyInterval(processes); mean > 0 {
			s.due = now.Add(rand.N(mean)) //nolint:gosec // a spread in time is not secret
		}
	}
	return !now.Before(s.due)
}

// plan plans the next survey.
func (s *survey) plan(now time.Time, processes int) {
	s.due = now
	if mean := surveyInterval(processes); mean > 0 {
		s.due = now.Add(mean/2 + rand.N(mean)) //nolint:gosec // a spread in time is not secret
	}
}

// surveyInterval returns the mean time between two surveys of one process among that number.
func surveyInterval(processes int) time.Duration {
	if processes <= mostSurveying {
		return 0 // at every heartbeat
	}
	share := float64(processes) / mostSurveying
	return time.Duration(share * share * float64(period))
}

// found is what a survey has found; nil before the first one.
type found struct {
	at        time.Time
	processes int
	replicas  []Replica // sorted by name
}

// isOld reports whether a caller should get a later list: a larger one may be older, since callers may come to every replica. It is not old
// while the replica surveys at every heartbeat.
func (f *found) isOld() bool {
	return f == nil || time.Since(f.at) > 2*period+time.Duration(f.processes)*agePerProcess
}

func (f *found) list() []Replica { return cmp.Or(f, &found{}).replicas }

// number returns the number of replicas among that number of live processes: those that were found, and the processes that have
// come or gone since. Without a survey all processes count.
func (f *found) number(processes int) int {
	if f == nil {
		return processes
	}
	return max(0, len(f.replicas)+processes-f.processes)
}

// liveReplicas is the number of live replicas, from the heartbeats of one replica.
type liveReplicas struct {
	most   atomic.Int64
	counts []replicaCount
	last   time.Time
	// answered is how long heartbeats were answered, without outages.
	answered time.Duration
}

// replicaCount is the number of replicas that a heartbeat found after that time of answers.
type replicaCount struct {
	at       time.Duration
	replicas int
}

// LiveReplicas returns the number of replicas last known to be alive (see Replicas), at least 1: the largest of
// the heartbeats of the last three seconds, not counting the time in which Redis did not answer.
// A Redis that lost its data counts each replica only from its next heartbeat on, and the first
// replicas must not take all limits for themselves.
func (w *Watcher) LiveReplicas() int { return max(1, int(w.live.most.Load())) }

// record records what a heartbeat at that time found.
func (l *liveReplicas) record(now time.Time, replicas int) {
	if !l.last.IsZero() {
		l.answered += min(now.Sub(l.last), period)
	}
	l.last = now
	l.counts = slices.DeleteFunc(l.counts, func(c replicaCount) bool { return l.answered-c.at > lifetime })
	l.counts = append(l.counts, replicaCount{at: l.answered, replicas: replicas})
	most := slices.MaxFunc(l.counts, func(a, b replicaCount) int { return a.replicas - b.replicas })
	l.most.Store(int64(most.replicas))
}
