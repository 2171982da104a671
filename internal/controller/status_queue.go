// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

const (
	// settleTime is how long the status of a new generation waits for its final state. Most
	// plans reach every replica earlier, so that one write reports everything.
	settleTime = 300 * time.Millisecond

	// maxInitialHold bounds how long a lost registry that waits for the initial pass keeps
	// statuses from reporting Publishing.
	maxInitialHold = 10 * time.Second
)

// statusQueue holds the newest facts of every object of one kind, and queues the statuses that are to be
// written. A status is due
//   - when the facts have settled,
//   - settleTime after they became unsettled, if their generation is not reported yet,
//   - otherwise when they have been unsettled for outageDelay without a break.
//
// Edited objects come before the others.
type statusQueue struct {
	kind        plan.Kind
	publisher   Publisher
	outageDelay time.Duration
	now         func() time.Time
	name        string // of the queue and its controller
	queue       priorityqueue.PriorityQueue[reconcile.Request]

	mu        sync.Mutex
	term      term
	holdUntil time.Time // zero after the initial pass
	trafficBy time.Time // trafficDelay after the beginning of the term
	sightings sightings
	// readUntil is how long a term holds the statuses of policies that select requests, for the first read of
	// sightings; zero once it has ended.
	readUntil    time.Time
	readsTraffic bool
	gateways     targetObjects // nil if the objects of targets are not read
	records      map[types.NamespacedName]*statusRecord
	// outdated are versions of objects that the API server has replaced. While the cache holds
	// one, a write would fail. They remain true in the next term.
	outdated map[types.NamespacedName]string
}

// statusRecord is the state of one object in one term.
type statusRecord struct {
	facts
	id       string
	isEdited bool
	phase    phase

	unsettledSince time.Time // when the facts were last settled; zero while they are
	phaseSince     time.Time
	// reported is what the status is known to report, reportedPhase the phase that was last
	// written since the facts are unsettled.
	reported      reported
	reportedPhase phase
	// isReportedReady is true if the status reports this generation as Ready.
	isReportedReady bool

	announced eventContent // the last event of this generation
	outdated  string       // see statusQueue; set by take
}

func newStatusQueue(k *kind, p Publisher, outageDelay time.Duration) *statusQueue {
	name := strings.ToLower(k.name) + "_status"
	return &statusQueue{
		kind: k.record, publisher: p, outageDelay: outageDelay, now: time.Now, //nolint:forbidigo // the age of facts
		name: name,
		queue: priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) {
			o.RateLimiter = options().RateLimiter
		}),
		records:  map[types.NamespacedName]*statusRecord{},
		outdated: map[types.NamespacedName]string{},
	}
}

// beginTerm forgets the facts of earlier terms, and all objects but these.
func (q *statusQueue) beginTerm(t term, objects []reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.enter(t)
	retained := map[types.NamespacedName]string{}
	for _, object := range objects {
		if version := q.outdated[object.NamespacedName]; version != "" {
			retained[object.NamespacedName] = version
		}
	}
	q.outdated = retained
}

// enter makes t the term of the queue, unless a later one is. It returns false if t has ended.
// The caller holds the lock.
func (q *statusQueue) enter(t term) bool {
	if t.ended() || t.number < q.term.number {
		return false
	}
	if t.number > q.term.number {
		q.term, q.holdUntil = t, q.now().Add(maxInitialHold)
		q.trafficBy, q.readUntil = q.now().Add(trafficDelay), time.Time{}
		if q.readsTraffic && !q.sightings.known {
			q.readUntil = q.now().Add(maxReadHold)
		}
		clear(q.records)
	}
	return true
}

// endInitialPass reports that the publisher knows every object, so that it writes their records.
func (q *statusQueue) endInitialPass(t term) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.enter(t) {
		return
	}
	q.holdUntil = time.Time{}
	for name, s := range q.records {
		if s.phase == publishing {
			s.unsettledSince = q.now()
			q.schedule(name, s)
		}
	}
}

// observe records the facts of an object that was handed to the publisher in that term.
func (q *statusQueue) observe(t term, object client.Object, was earlierStatus, isEdited bool, compiled *compiledRecord) {
	name := client.ObjectKeyFromObject(object)
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.enter(t) {
		return
	}
	s := q.records[name]
	if s == nil || s.uid != object.GetUID() {
		s = &statusRecord{id: plan.IDOf(q.kind, name.Namespace, name.Name)}
		q.records[name] = s
	}
	if s.generation != object.GetGeneration() {
		s.announced = announcedBy(object, &was, isEdited)
		s.isReportedReady = isReady(was.conditions, object.GetGeneration())
	}
	next := facts{kind: q.kind, uid: object.GetUID(), generation: object.GetGeneration(), judgement: compiled.judgement, rollout: s.rollout}
	if compiled.complete != nil {
		compiled.complete(&next, &s.facts)
	}
	s.facts = next
	// The cache may be behind the last write.
	if was := reportedBy(object, &was); s.reported == (reported{}) || was == s.key() {
		s.reported = was
	}
	s.isEdited = s.isEdited || isEdited
	s.setRollout(q.publisher.Rollout(s.id), q.now())
	q.judgeTraffic(name, s)
	q.schedule(name, s)
}

// refresh reads every Rollout again and queues the statuses that it changes. It returns the
// objects that are not accepted and whose last record has changed: whether they may keep it must
// be judged again.
func (q *statusQueue) refresh() (judge []reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.term.number == 0 || q.term.ended() {
		return nil
	}
	for name, s := range q.records {
		rollout := q.publisher.Rollout(s.id)
		if rollout == s.rollout {
			continue
		}
		if (len(s.problems) > 0 || rollout.OverBudget != nil) && rollout.Record != s.rollout.Record {
			judge = append(judge, reconcile.Request{NamespacedName: name})
		}
		s.setRollout(rollout, q.now())
		q.schedule(name, s)
	}
	return judge
}

// take returns the newest facts of a status that is due in the running term, with that term.
func (q *statusQueue) take(name types.NamespacedName) (statusRecord, term, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.records[name]
	if s == nil || q.term.ended() {
		return statusRecord{}, term{}, false
	}
	s.setRollout(q.publisher.Rollout(s.id), q.now())
	if q.due(s).After(q.now()) {
		q.schedule(name, s)
		return statusRecord{}, term{}, false
	}
	taken := *s
	taken.outdated = q.outdated[name]
	return taken, q.term, true
}

// wrote records that the status reports the facts of s.
func (q *statusQueue) wrote(name types.NamespacedName, s *statusRecord) {
	q.mu.Lock()
	defer q.mu.Unlock()
	current := q.records[name]
	if current == nil || current.uid != s.uid {
		return
	}
	current.reported = s.key()
	if current.generation == s.generation {
		current.announced, current.isReportedReady = s.announced, s.unmet() == ""
	}
	if current.unsettledSince.Equal(s.unsettledSince) {
		current.reportedPhase = s.phase
	}
	if current.key() == s.key() {
		current.isEdited = false
	}
}

// unready returns the objects that are not Ready.
func (q *statusQueue) unready() plan.Unready {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.term.number == 0 || q.term.ended() {
		return plan.Unready{}
	}
	var unready []*statusRecord
	for _, s := range q.records {
		if s.phase != settled || !s.isAccepted() || s.resolution.isUnmet() {
			unready = append(unready, s)
		}
	}
	slices.SortFunc(unready, func(a, b *statusRecord) int { return strings.Compare(a.id, b.id) })
	list := plan.Unready{Count: len(unready)}
	for _, s := range unready[:min(len(unready), plan.MaxUnready)] {
		list.Policies = append(list.Policies, plan.UnreadyPolicy{ID: s.id, Reason: s.unmet()})
	}
	return list
}

// outdate records a version of the object that the API server has replaced.
func (q *statusQueue) outdate(name types.NamespacedName, version string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.outdated[name] = version
}

// forget drops the facts of an object.
func (q *statusQueue) forget(name types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.records, name)
	delete(q.outdated, name)
	q.queue.Forget(reconcile.Request{NamespacedName: name})
}

// schedule queues the status for the time when it is due. The caller holds the lock.
func (q *statusQueue) schedule(name types.NamespacedName, s *statusRecord) {
	priority := new(handler.LowPriority)
	if s.isEdited {
		priority = new(0)
	}
	q.queue.AddWithOpts(priorityqueue.AddOpts{After: max(0, q.due(s).Sub(q.now())), Priority: priority}, reconcile.Request{NamespacedName: name})
}

// due returns when the status is to be written. The caller holds the lock.
func (q *statusQueue) due(s *statusRecord) time.Time {
	var at time.Time
	switch {
	case s.phase == settled && !s.isReportedReady && s.resolution.heldUntil().After(q.readUntil):
		return s.resolution.heldUntil()
	case s.phase == settled && s.wiring.selects && s.wiring.outcome == (wiredOutcome{}):
		return q.readUntil
	case s.phase == settled:
		return at
	case s.reported != s.key():
		at = s.unsettledSince.Add(settleTime)
	case s.reportedPhase != settled:
		at = s.phaseSince.Add(q.outageDelay)
	default:
		at = s.unsettledSince.Add(q.outageDelay)
	}
	if s.phase == publishing && at.Before(q.holdUntil) {
		return q.holdUntil
	}
	return at
}

// setRollout records the newest Rollout, and its phase.
func (s *statusRecord) setRollout(rollout plan.Rollout, now time.Time) {
	s.rollout = rollout
	before := s.phase
	s.phase = s.facts.phase()
	switch {
	case s.phase == before:
		return
	case s.phase == settled:
		s.unsettledSince, s.reportedPhase = time.Time{}, settled
	case before == settled:
		s.unsettledSince = now
	}
	s.phaseSince = now
}
