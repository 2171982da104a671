// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

const (
	// trafficInterval is the time between two reads of sightings.
	trafficInterval = 2 * time.Second
	// termPoll is how often a process that does not lead looks whether it does.
	termPoll = 200 * time.Millisecond
	// maxReadHold is how long statuses wait for the first read.
	maxReadHold = 2 * termPoll
	// trafficOverlap is how much two reads overlap, because the time of Redis goes back in a failover.
	trafficOverlap = 10 * time.Second
	// trafficDelay is how long a term waits for sightings, before it adds the condition Wired to a policy
	// without any: while a release that reports sightings rolls out, one write then reports everything.
	trafficDelay = 2 * time.Minute
	// maxSightings bounds the sightings in memory: more than the registry has.
	maxSightings = 1 << 17
)

// Traffic reads which policies checks apply to.
type Traffic interface {
	// Read returns the sightings that replicas have reported at or after the time; the zero time returns
	// all.
	Read(ctx context.Context, since time.Time) ([]plan.Sighting, error)
}

// sightings are the sightings that were read.
type sightings struct {
	known  bool // the last read succeeded
	last   map[sightedPolicy]time.Time
	newest time.Time
}

// sightedPolicy is a policy with the selectors of its plan.
type sightedPolicy struct{ id, selectors string }

// add records sightings.
func (s *sightings) add(list []plan.Sighting) {
	if s.last == nil || len(s.last) > maxSightings {
		s.last = map[sightedPolicy]time.Time{}
	}
	for _, sighting := range list {
		key := sightedPolicy{id: sighting.Policy, selectors: sighting.Selectors}
		if sighting.At.After(s.last[key]) {
			s.last[key] = sighting.At
		}
		if sighting.At.After(s.newest) {
			s.newest = sighting.At
		}
	}
}

// since returns the time from which on sightings are to be read.
func (s *sightings) since() time.Time {
	if s.newest.IsZero() || len(s.last) > maxSightings {
		return time.Time{}
	}
	return s.newest.Add(-trafficOverlap)
}

// readTraffic reads the sightings while a policy waits for its first, and queues the statuses that they
// change, or that objects of the Gateway API change, also by their absence. It ends with ctx.
func (r *Reconciler) readTraffic(ctx context.Context) error {
	next := time.NewTimer(0)
	defer next.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.objectsChanged():
			r.policies.statuses.judgeTargets()
			continue
		case <-next.C:
		}
		t, leading := r.Terms.running()
		if !leading {
			next.Reset(termPoll)
			continue
		}
		if r.policies.statuses.awaitsTraffic() {
			err := r.readTrafficOnce(ctx, t)
			if err != nil && !failed && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "Failed to read the traffic of policies")
			}
			failed = err != nil
		}
		r.policies.statuses.endTargetDelays()
		next.Reset(trafficInterval)
	}
}

// objectsChanged receives a value after objects of the Gateway API have changed; nil if they are not read.
func (r *Reconciler) objectsChanged() <-chan struct{} {
	if r.Gateways == nil {
		return nil
	}
	return r.Gateways.Changed()
}

func (r *Reconciler) readTrafficOnce(ctx context.Context, t term) error {
	ctx, release := t.bind(ctx)
	defer release()
	list, err := r.Traffic.Read(ctx, r.policies.statuses.trafficSince())
	r.policies.statuses.addTraffic(list, err)
	return err
}

// awaitsTraffic reports whether a policy waits for a check that applies to it, or nothing was read yet.
func (q *statusQueue) awaitsTraffic() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.sightings.known {
		return true
	}
	for _, s := range q.records {
		if s.wiring.selects && !s.wiring.seen {
			return true
		}
	}
	return false
}

func (q *statusQueue) trafficSince() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sightings.since()
}

// addTraffic records what was read and queues the statuses that it changes.
func (q *statusQueue) addTraffic(list []plan.Sighting, err error) {
	q.mu.Lock()
	q.sightings.known, q.readUntil = err == nil, time.Time{}
	q.sightings.add(list)
	q.mu.Unlock()
	q.judgeWhere(func(s *statusRecord) bool { return !s.wiring.seen })
}

// judgeTargets judges the policies with targets again.
func (q *statusQueue) judgeTargets() {
	q.judgeWhere(func(s *statusRecord) bool { return len(s.wiring.targets) > 0 })
}

// judgeWhere judges the traffic and the targets of the policies for which isDue is true, if the term runs.
func (q *statusQueue) judgeWhere(isDue func(*statusRecord) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.term.number == 0 || q.term.ended() {
		return
	}
	for name, s := range q.records {
		if isDue(s) {
			q.judgeTraffic(name, s)
		}
	}
}

// judgeTraffic judges the traffic and the targets of the policy, and queues its status if the outcome changes. The caller holds the
// lock.
func (q *statusQueue) judgeTraffic(name types.NamespacedName, s *statusRecord) {
	e := evidence{
		known:      q.sightings.known,
		last:       q.sightings.last[sightedPolicy{id: s.id, selectors: s.wiring.selectors}],
		end:        q.sightings.newest,
		rollingOut: q.now().Before(q.trafficBy),
	}
	changed := false
	if q.gateways != nil && len(s.wiring.targets) > 0 {
		q.gateways.Want()
		objects := q.gateways.Snapshot()
		e.finding = objects.Judge(s.wiring.targets)
		changed = s.resolution.judgeTargets(s.wiring.targets, objects, s.isReportedReady, q.now())
	}
	if s.wiring.judgeEvidence(e) || changed {
		q.schedule(name, s)
	}
}
