// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"slices"
	"sync/atomic"
	"time"
)

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
