// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"math/rand/v2"
	"time"
)

// Bounds of the surveys that all processes together make in one period. Each of N processes reads N reports, so the cost to Redis of
// unbounded surveys would rise with the square of their number.
const (
	// surveysPerPeriod is how many of them find all others.
	surveysPerPeriod = 32
	// surveyedPerPeriod is how many reports they read. Redis takes about 1 us for one, so it spends at most 0.8% of a core.
	surveyedPerPeriod = 8192
)

// survey decides at which of its heartbeats a replica finds all live processes: at every one with up to surveysPerPeriod
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
	if processes <= surveysPerPeriod {
		return 0 // at every heartbeat
	}
	surveys := min(surveysPerPeriod, surveyedPerPeriod/float64(processes)) // in a period
	return time.Duration(float64(period) * float64(processes) / surveys)
}
