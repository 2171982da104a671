// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/gatewayapi"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// targetQueue is a queue with one policy whose targetRefs name the HTTPRoute shop/checkout, and with the objects that the test sets.
type targetQueue struct {
	*wiredQueue

	objects *gatewayapi.Snapshot
}

func (q *targetQueue) Want() {}

func (q *targetQueue) Snapshot() *gatewayapi.Snapshot { return q.objects }

// The objects of a test: pending are not read yet.
var (
	pending = &gatewayapi.Snapshot{}
	none    = gatewayapi.NewSnapshot(nil)
)

func withRoute() *gatewayapi.Snapshot {
	route := &gatewayapi.HTTPRoute{}
	route.Namespace, route.Name = "shop", "checkout"
	return gatewayapi.NewSnapshot(nil, route)
}

func newTargetQueue(t *testing.T, objects *gatewayapi.Snapshot) *targetQueue {
	t.Helper()
	q := &targetQueue{wiredQueue: newWiredQueue(t), objects: objects}
	q.policy.Spec.Matches = nil
	q.policy.Spec.TargetRefs = []gatewayv1.LocalPolicyTargetReferenceWithSectionName{{
		LocalPolicyTargetReference: gatewayv1.LocalPolicyTargetReference{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Name: "checkout"},
	}}
	q.gateways = q
	q.addTraffic(nil, nil)
	return q
}

// lead begins a term of another process, which has read these objects.
func (q *targetQueue) lead(objects *gatewayapi.Snapshot) {
	q.t.Helper()
	q.objects = objects
	q.statusQueue = newStatusQueue(&policyKind().kind, published{queueAt: q.queueAt}, tooLong)
	q.now = func() time.Time { return time.Unix(1_900_000_000, 0).Add(q.at) }
	q.gateways = q
	q.t.Cleanup(q.queue.ShutDown)
	q.endInitialPass(q.running)
	q.addTraffic(nil, nil)
	q.reconcile()
}

// edit makes the next generation, whose plan every replica has.
func (q *targetQueue) edit() {
	q.policy.Generation++
	edited := *q.plan
	edited.Generation = q.policy.Generation
	q.plan = &edited
	q.observePolicy(q.running, q.policy, &compilation{plan: q.plan}, true)
	q.rollout.Record = &plan.Plan{UID: "u", Generation: q.policy.Generation}
	q.refresh()
}

// change makes the queue read other objects.
func (q *targetQueue) change(objects *gatewayapi.Snapshot) {
	q.objects = objects
	q.judgeTargets()
}

// after expects that the next status is written when the time has passed, and not before.
func (q *targetQueue) after(length time.Duration) {
	q.t.Helper()
	q.at += length + justBefore
	q.endTargetDelays()
	NewWithT(q.t).Expect(q.wantsWrite()).To(BeFalse(), "just before")
	q.at -= justBefore
	q.endTargetDelays()
	NewWithT(q.t).Expect(q.wantsWrite()).To(BeTrue())
	q.write()
}

// state returns "<status> <reason>" of Ready, with the condition of kstatus.
func (q *targetQueue) state() string {
	c := meta.FindStatusCondition(q.policy.Status.Conditions, v1alpha1.ConditionReady)
	state := []string{string(c.Status) + " " + c.Reason}
	for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if meta.IsStatusConditionTrue(q.policy.Status.Conditions, kind) {
			state = append(state, kind)
		}
	}
	return strings.Join(state, ", ")
}

const (
	isReadyState = "True Ready"
	isMissing    = "Unknown TargetNotFound, Reconciling"
	isStalled    = "False TargetNotFound, Stalled"
)

func TestMissingTargetsMakeAPolicyUnready(t *testing.T) {
	g := NewWithT(t)
	q := newTargetQueue(t, none)
	q.reconcile()
	q.write()
	g.Expect(q.state()).To(Equal(isMissing))
	g.Expect(q.unready()).To(Equal(plan.Unready{Count: 1, Policies: []plan.UnreadyPolicy{{ID: "shop/p", Reason: "TargetNotFound"}}}))
	q.after(targetDelay)
	g.Expect(q.state()).To(Equal(isStalled))
	q.at += time.Hour
	q.endTargetDelays()
	g.Expect(q.wantsWrite()).To(BeFalse(), "one more write for the edit")

	q.change(withRoute())
	q.write()
	g.Expect(q.state()).To(Equal(isReadyState), "at once")
	g.Expect(q.unready().Count).To(BeZero())
	g.Expect(meta.FindStatusCondition(q.policy.Status.Conditions, v1alpha1.ConditionResolvedRefs)).To(BeNil())
}

func TestReadyGenerationsStayReadyForAMinute(t *testing.T) {
	g := NewWithT(t)
	q := newTargetQueue(t, withRoute())
	q.reconcile()
	q.write()
	g.Expect(q.state()).To(Equal(isReadyState))
	q.change(none)
	q.write()
	g.Expect(q.state()).To(Equal(isReadyState))
	g.Expect(meta.FindStatusCondition(q.policy.Status.Conditions, v1alpha1.ConditionResolvedRefs).Status).To(Equal(metav1.ConditionUnknown))
	g.Expect(q.unready().Count).To(BeZero())
	q.after(targetDelay)
	g.Expect(q.state()).To(Equal(isStalled))
	q.change(withRoute())
	q.write()
	q.change(none)
	q.write()
	g.Expect(q.state()).To(Equal(isReadyState), "the clock starts again")

	q.at += targetDelay / 2
	q.edit()
	q.write()
	g.Expect(q.state()).To(Equal(isMissing), "another generation, which was not Ready")
	q.after(targetDelay)
	g.Expect(q.state()).To(Equal(isStalled))
}

func TestEachGenerationStartsTheClockAgain(t *testing.T) {
	g := NewWithT(t)
	q := newTargetQueue(t, none)
	q.reconcile()
	q.write()
	for range 3 {
		q.at += targetDelay - time.Second
		q.edit()
		q.write()
		g.Expect(q.state()).To(Equal(isMissing))
	}
	q.after(targetDelay)
	g.Expect(q.state()).To(Equal(isStalled))
	q.edit()
	q.write()
	g.Expect(q.state()).To(Equal(isMissing))
}

func TestNewLeadersContinueTheClock(t *testing.T) {
	for name, first := range map[string]*gatewayapi.Snapshot{"of a new policy": none, "of a policy that was Ready": withRoute()} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			q := newTargetQueue(t, first)
			q.reconcile()
			q.write()
			if first != none {
				q.change(none)
				q.write()
			}
			before := q.state()
			q.at += 20 * time.Second
			q.lead(pending)
			g.Expect(q.wantsWrite()).To(BeFalse(), "the last state stays while objects are read")
			q.change(none)
			g.Expect(q.wantsWrite()).To(BeFalse())
			g.Expect(q.state()).To(Equal(before))
			q.after(targetDelay - 20*time.Second)
			g.Expect(q.state()).To(Equal(isStalled))

			q.lead(pending)
			g.Expect(q.wantsWrite()).To(BeFalse())
			q.at += time.Hour
			q.endTargetDelays()
			q.change(none)
			g.Expect(q.wantsWrite()).To(BeFalse())
			q.change(withRoute())
			q.write()
			g.Expect(q.state()).To(Equal(isReadyState))
		})
	}
}

// While the objects are not read, nothing ends the time of a missing target.
func TestUnreadObjectsEndNoClock(t *testing.T) {
	g := NewWithT(t)
	q := newTargetQueue(t, none)
	q.reconcile()
	q.write()
	q.lead(pending)
	q.at += time.Hour
	q.endTargetDelays()
	g.Expect(q.wantsWrite()).To(BeFalse())
	q.change(none)
	q.write()
	g.Expect(q.state()).To(Equal(isStalled))
}

// The first status of a generation waits for the objects, so that a policy without its target is never Ready.
func TestFirstStatusWaitsForTheObjects(t *testing.T) {
	g := NewWithT(t)
	q := newTargetQueue(t, pending)
	q.reconcile()
	_, _, due := q.take(q.name())
	g.Expect(due).To(BeFalse())
	q.change(none)
	q.write()
	g.Expect(q.state()).To(Equal(isMissing))

	q = newTargetQueue(t, pending)
	q.reconcile()
	q.rollout = writing
	q.refresh()
	q.at = settleTime
	q.write()
	g.Expect(q.state()).To(Equal("False NotReady, Reconciling"))
	q.rollout = rolledOut
	q.refresh()
	_, _, due = q.take(q.name())
	g.Expect(due).To(BeFalse(), "a status that does not report Ready changes nothing")
	q.change(none)
	q.write()
	g.Expect(q.state()).To(Equal(isMissing))

	q = newTargetQueue(t, pending)
	q.reconcile()
	q.isDueAt(maxTargetHold)
	q.write()
	g.Expect(q.state()).To(Equal(isReadyState), "the objects cannot be read")
}
