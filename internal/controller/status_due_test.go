// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// queueAt is a status queue at a time that the test sets, with the policy shop/p.
type queueAt struct {
	*statusQueue

	t       *testing.T
	running term
	policy  *v1alpha1.RateLimitPolicy
	at      time.Duration // since the start
	rollout plan.Rollout
}

// published is a Publisher with the Rollout of the queue.
type published struct {
	Publisher

	*queueAt
}

func (p published) Rollout(string) plan.Rollout { return p.rollout }

const (
	tooLong    = time.Minute // the OutageDelay
	justBefore = -time.Nanosecond
)

// newQueueAt returns the queue of a first term, with a policy that is not reported yet.
func newQueueAt(t *testing.T) *queueAt {
	t.Helper()
	q := &queueAt{t: t, running: term{number: 1, ctx: t.Context()}}
	q.policy = testpolicy.Make("shop/p").Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1s").Obj()
	q.policy.UID, q.policy.Generation = "u", 3
	q.statusQueue = newStatusQueue(&policyKind().kind, published{queueAt: q}, tooLong)
	t.Cleanup(q.queue.ShutDown)
	start := time.Unix(1_900_000_000, 0)
	q.now = func() time.Time { return start.Add(q.at) }
	return q
}

// observePolicy observes the policy with what it was compiled to.
func (q *statusQueue) observePolicy(t term, policy *v1alpha1.RateLimitPolicy, compiled *compilation, isEdited bool) {
	q.observe(t, policy, earlierOf(policy), isEdited, compiled.record(policy))
}

func (q *queueAt) name() types.NamespacedName { return nameOf("shop/p") }

// reconciled observes the policy with that Rollout.
func (q *queueAt) reconciled(rollout plan.Rollout) {
	q.rollout = rollout
	q.observePolicy(q.running, q.policy, &compilation{}, true)
}

// isDueAt expects that the status becomes due at that time, and not earlier.
func (q *queueAt) isDueAt(at time.Duration) *statusRecord {
	q.t.Helper()
	g := NewWithT(q.t)
	q.at = at + justBefore
	_, _, due := q.take(q.name())
	g.Expect(due).To(BeFalse(), "just before")
	return q.isDueNow(at)
}

func (q *queueAt) isDueNow(at time.Duration) *statusRecord {
	q.t.Helper()
	q.at = at
	s, _, due := q.take(q.name())
	NewWithT(q.t).Expect(due).To(BeTrue())
	return &s
}

var (
	rolledOut = plan.Rollout{
		Reachable: true, Record: &plan.Plan{UID: "u", Generation: 3}, HasReplicas: true, AllReplicasCurrent: true,
	}
	writing  = plan.Rollout{Reachable: true, HasReplicas: true}
	noAnswer = plan.Rollout{}
	behind   = plan.Rollout{Reachable: true, Record: &plan.Plan{UID: "u", Generation: 3}, HasReplicas: true}
)

func TestEditIsReportedOnceItHasSettled(t *testing.T) {
	q := newQueueAt(t)
	q.endInitialPass(q.running)
	q.reconciled(rolledOut)
	q.isDueNow(0)

	q = newQueueAt(t)
	q.endInitialPass(q.running)
	q.reconciled(writing)
	q.rollout = behind
	q.at = 100 * time.Millisecond
	q.refresh()
	q.isDueAt(settleTime)
}

// setReported makes the status report the generation, and a request that was handled.
func (q *queueAt) setReported() {
	metav1.SetMetaDataAnnotation(&q.policy.ObjectMeta, v1alpha1.ReconcileRequestedAtAnnotation, "handled")
	q.policy.Status = v1alpha1.RateLimitPolicyStatus{
		ObservedGeneration: 3, LastHandledReconcileAt: "handled",
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAccepted, Reason: v1alpha1.ReasonAccepted}},
	}
}

func TestTermThatBeginsInAnOutageWaits(t *testing.T) {
	q := newQueueAt(t)
	q.setReported()
	q.endInitialPass(q.running)
	q.reconciled(noAnswer)
	q.isDueAt(tooLong)
}

func TestStateOutsideOfAPolicyMustLast(t *testing.T) {
	q := newQueueAt(t)
	q.setReported()
	q.endInitialPass(q.running)
	q.reconciled(rolledOut)
	q.wrote(q.name(), q.isDueNow(0))

	q.at, q.rollout = time.Second, noAnswer
	q.refresh()
	q.at, q.rollout = 2*time.Second, rolledOut
	q.refresh()
	q.at, q.rollout = 3*time.Second, noAnswer
	q.refresh()
	q.at, q.rollout = 4*time.Second, behind // still not what the status reports
	q.refresh()
	q.wrote(q.name(), q.isDueAt(3*time.Second+tooLong))

	const began = 3 * time.Minute // of another state, which must last as well
	q.at, q.rollout = began, noAnswer
	q.refresh()
	q.isDueAt(began + tooLong)
	q.rollout = rolledOut
	q.isDueNow(began + tooLong)
}

func TestInitialPassHoldsStatuses(t *testing.T) {
	q := newQueueAt(t)
	q.reconciled(writing)
	q.isDueAt(maxInitialHold)

	q = newQueueAt(t)
	q.reconciled(writing)
	q.at = 5 * time.Second
	q.endInitialPass(q.running)
	q.isDueAt(5*time.Second + settleTime)

	q = newQueueAt(t)
	q.reconciled(behind)
	q.isDueAt(settleTime)
}

// A later term knows which versions in the cache the API server has replaced, and nothing else.
func TestTermsShareReplacedVersions(t *testing.T) {
	g := NewWithT(t)
	q := newQueueAt(t)
	q.reconciled(rolledOut)
	q.outdate(q.name(), "41")
	q.outdate(nameOf("shop/gone"), "42")
	g.Expect(q.isDueNow(0).outdated).To(Equal("41"))

	q.running.number++
	q.beginTerm(q.running, []reconcile.Request{requestFor("shop/p")})
	_, _, due := q.take(q.name())
	g.Expect(due).To(BeFalse(), "the facts of the last term")
	g.Expect(q.outdated).To(Equal(map[types.NamespacedName]string{q.name(): "41"}))
	q.reconciled(rolledOut)
	g.Expect(q.isDueNow(0).outdated).To(Equal("41"))

	q.forget(q.name())
	_, _, due = q.take(q.name())
	g.Expect(due).To(BeFalse())
	g.Expect(q.outdated).To(BeEmpty())
}

func TestEndedTermsObserveNothing(t *testing.T) {
	g := NewWithT(t)
	q := newQueueAt(t)
	isEmpty := func() bool { return len(q.records) == 0 }
	ctx, end := context.WithCancel(t.Context())
	first, second := term{number: 1, ctx: ctx}, term{number: 2, ctx: t.Context()}
	q.running = first
	q.reconciled(writing)
	g.Expect(isEmpty()).To(BeFalse())
	end()
	q.rollout = rolledOut
	q.refresh()
	g.Expect(q.records[q.name()].rollout).To(Equal(writing))
	_, _, due := q.take(q.name())
	g.Expect(due).To(BeFalse())

	q.beginTerm(second, nil)
	q.reconciled(writing)
	g.Expect(isEmpty()).To(BeTrue(), "a reconcile of the first term ends late")
	q.endInitialPass(first)
	q.running = second
	q.reconciled(writing)
	q.isDueAt(maxInitialHold)
	q.observePolicy(term{number: 1, ctx: t.Context()}, testpolicy.Make("shop/late").Obj(), &compilation{}, true)
	g.Expect(q.records).To(HaveLen(1), "an earlier number")
}
