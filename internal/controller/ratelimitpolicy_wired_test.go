// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/gatewayapi"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// wiredQueue is a queue with one policy that has matches.
type wiredQueue struct {
	*queueAt

	plan *plan.Plan
}

func newWiredQueue(t *testing.T) *wiredQueue {
	t.Helper()
	q := &wiredQueue{queueAt: newQueueAt(t)}
	q.policy.Spec.Matches = []v1alpha1.Match{{Domain: "edge"}}
	q.plan = &plan.Plan{Namespace: "shop", Name: "p", UID: "u", Generation: 3, Matches: []plan.Match{{Domain: "edge"}}}
	q.endInitialPass(q.running)
	return q
}

// reconcile observes the policy, whose plan every replica has.
func (q *wiredQueue) reconcile() {
	q.rollout = rolledOut
	q.observePolicy(q.running, q.policy, &compilation{plan: q.plan}, true)
}

// write takes the status that is due, and makes the policy have it.
func (q *wiredQueue) write() {
	q.t.Helper()
	s := q.isDueNow(q.at)
	q.policy.Status = s.policyStatus(q.policy)
	q.wrote(q.name(), s)
}

// wired returns "<status> <reason>" of the condition, with the generation if it is not the policy's; "" without
// one.
func (q *wiredQueue) wired() string {
	c := meta.FindStatusCondition(q.policy.Status.Conditions, v1alpha1.ConditionWired)
	switch {
	case c == nil:
		return ""
	case c.ObservedGeneration != q.policy.Generation:
		return string(c.Status) + " " + c.Reason + " of an earlier generation"
	default:
		return string(c.Status) + " " + c.Reason
	}
}

// report is what a read of the sightings returns.
func (q *wiredQueue) report(at time.Duration, selectors string) {
	q.addTraffic([]plan.Sighting{{Policy: "shop/p", Selectors: selectors, At: time.Unix(1_800_000_000, 0).Add(at)}}, nil)
}

// nextTerm begins a term of another process.
func (q *wiredQueue) nextTerm() {
	q.t.Helper()
	q.statusQueue = newStatusQueue(&policyKind().kind, published{queueAt: q.queueAt}, tooLong)
	q.now = func() time.Time { return time.Unix(1_900_000_000, 0).Add(q.at) }
	q.t.Cleanup(q.queue.ShutDown)
	q.endInitialPass(q.running)
	q.reconcile()
}

// wantsWrite reports whether the status is to be written.
func (q *wiredQueue) wantsWrite() bool {
	q.t.Helper()
	s := q.isDueNow(q.at)
	status := s.policyStatus(q.policy)
	return needsWrite(&q.policy.Status, &status)
}

var broken = field.ErrorList{field.Invalid(field.NewPath("spec"), 1, "cannot be")}

const (
	isTrue    = "True TrafficSeen"
	isUnknown = "Unknown NoTraffic"
)

func TestWiredBeginsUnknownAndBecomesTrue(t *testing.T) {
	g := NewWithT(t)
	q := newWiredQueue(t)
	q.addTraffic(nil, nil)
	q.reconcile()
	g.Expect(q.awaitsTraffic()).To(BeTrue())
	q.write()
	g.Expect(q.wired()).To(Equal(isUnknown))
	c := meta.FindStatusCondition(q.policy.Status.Conditions, v1alpha1.ConditionWired)
	g.Expect(c.Message).To(ContainSubstring("kubectl weir probe"))
	g.Expect(q.policy.Status.WiredSelectors).To(BeNil())

	q.report(0, "others")
	g.Expect(q.wantsWrite()).To(BeFalse(), "another generation had traffic")
	q.report(0, q.plan.Selectors())
	q.write()
	g.Expect(q.wired()).To(Equal(isTrue))
	g.Expect(q.awaitsTraffic()).To(BeFalse())
	g.Expect(meta.IsStatusConditionTrue(q.policy.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue())
}

// Without traffic for days, and with leaders that come and go, nothing is written.
func TestSilenceAndRestartsWriteNothing(t *testing.T) {
	for name, want := range map[string]string{"with traffic": isTrue, "without": isUnknown} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			q := newWiredQueue(t)
			q.addTraffic(nil, nil)
			q.reconcile()
			if want == isTrue {
				q.report(0, q.plan.Selectors())
			}
			q.write()
			g.Expect(q.wired()).To(Equal(want))
			q.nextTerm()
			g.Expect(q.wantsWrite()).To(BeFalse(), "before the first read")
			q.addTraffic(nil, errors.New("Redis is away"))
			g.Expect(q.wantsWrite()).To(BeFalse())
			q.addTraffic(nil, nil)
			q.at += 48 * time.Hour
			q.addTraffic(nil, nil)
			g.Expect(q.wantsWrite()).To(BeFalse())
			g.Expect(q.awaitsTraffic()).To(Equal(want != isTrue))
		})
	}
}

func TestWiredFollowsTheSelectors(t *testing.T) {
	g := NewWithT(t)
	q := newWiredQueue(t)
	q.report(0, q.plan.Selectors())
	q.reconcile()
	q.write()
	g.Expect(q.wired()).To(Equal(isTrue))

	edited := *q.plan
	edited.Generation, q.policy.Generation = 4, 4
	rolledOutAs := func(generation int64) {
		q.rollout.Record = &plan.Plan{UID: "u", Generation: generation}
	}
	q.plan = &edited
	q.observePolicy(q.running, q.policy, &compilation{plan: q.plan}, true)
	rolledOutAs(4)
	q.write()
	g.Expect(q.wired()).To(Equal(isTrue), "a new limit changes nothing")

	other := edited
	other.Generation, q.policy.Generation = 5, 5
	other.Matches = []plan.Match{{Domain: "edge", Hosts: []string{"a.example"}}}
	q.plan = &other
	q.observePolicy(q.running, q.policy, &compilation{plan: q.plan}, true)
	rolledOutAs(5)
	q.write()
	g.Expect(q.wired()).To(Equal(isUnknown))
	g.Expect(q.policy.Status.WiredSelectors).To(HaveValue(BeEmpty()))
	q.report(time.Minute, edited.Selectors())
	g.Expect(q.wantsWrite()).To(BeFalse(), "a replica that lags behind")
	q.report(2*time.Minute, other.Selectors())
	q.write()
	g.Expect(q.wired()).To(Equal(isTrue))

	q.policy.Generation, q.policy.Spec.Matches = 6, nil
	none := other
	none.Generation, none.Matches = 6, nil
	q.observePolicy(q.running, q.policy, &compilation{plan: &none}, true)
	rolledOutAs(6)
	q.write()
	g.Expect(q.wired()).To(BeEmpty(), "callers name the policy")
	g.Expect(q.awaitsTraffic()).To(BeFalse())
}

// While Redis does not answer, nothing is known about the traffic.
func TestWiredStaysDuringAnOutage(t *testing.T) {
	g := NewWithT(t)
	q := newWiredQueue(t)
	q.addTraffic(nil, errors.New("Redis is away"))
	q.reconcile()
	q.write()
	g.Expect(q.wired()).To(BeEmpty())
	q.report(0, q.plan.Selectors())
	q.write()
	g.Expect(q.wired()).To(Equal(isTrue))

	q.addTraffic(nil, errors.New("Redis is away"))
	edited := *q.plan
	edited.Matches = []plan.Match{{Domain: "other"}}
	edited.Generation, q.policy.Generation = 4, 4
	q.plan = &edited
	q.observePolicy(q.running, q.policy, &compilation{plan: q.plan}, true)
	q.rollout.Record = &plan.Plan{UID: "u", Generation: 4}
	q.write()
	g.Expect(q.wired()).To(Equal(isTrue + " of an earlier generation"))
	q.addTraffic(nil, nil)
	q.write()
	g.Expect(q.wired()).To(Equal(isUnknown))
}

// An edit that does not compile leaves the plan in force, and its traffic.
func TestWiredOfTheLastGoodPlan(t *testing.T) {
	g := NewWithT(t)
	q := newWiredQueue(t)
	q.report(0, q.plan.Selectors())
	q.reconcile()
	q.write()
	good := q.plan
	q.plan, q.policy.Generation = nil, 4
	q.observePolicy(q.running, q.policy, &compilation{problems: broken}, true)
	q.write()
	g.Expect(q.wired()).To(Equal(isTrue))
	q.nextTerm()
	q.observePolicy(q.running, q.policy, &compilation{problems: broken}, true)
	q.addTraffic(nil, nil)
	g.Expect(q.wantsWrite()).To(BeFalse(), "a leader that has never seen the plan")
	g.Expect(q.policy.Status.WiredSelectors).To(HaveValue(Equal(good.Selectors())))
}

// When a release that reports traffic replaces one that did not, most policies have traffic within minutes: one
// write reports that.
func TestUpgradeWritesOnce(t *testing.T) {
	g := NewWithT(t)
	q := newWiredQueue(t)
	q.reconcile()
	q.write()
	g.Expect(q.wired()).To(BeEmpty())
	q.nextTerm()
	q.addTraffic(nil, nil)
	q.at += trafficDelay - time.Second
	q.addTraffic(nil, nil)
	g.Expect(q.wantsWrite()).To(BeFalse())
	q.at += time.Second
	q.addTraffic(nil, nil)
	q.write()
	g.Expect(q.wired()).To(Equal(isUnknown))
}

func TestSightingsOfMissedTimesAreRead(t *testing.T) {
	g := NewWithT(t)
	var s sightings
	g.Expect(s.since()).To(BeZero(), "all")
	at := time.Unix(1_800_000_000, 0)
	s.add([]plan.Sighting{{Policy: "a/x", At: at}, {Policy: "a/y", At: at.Add(-time.Hour)}})
	g.Expect(s.since()).To(Equal(at.Add(-trafficOverlap)))
	s.add([]plan.Sighting{{Policy: "a/x", At: at.Add(-time.Minute)}})
	g.Expect(s.last[sightedPolicy{id: "a/x"}]).To(Equal(at))
}

// judged is a wiring with traffic, as a term judges it.
func judged(w wiring, e evidence) (wiring, string) {
	w.judgeEvidence(e)
	return w, w.outcome.reason
}

func TestFindingsPrecedeTraffic(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	bypassed := gatewayapi.Finding{Result: gatewayapi.Bypassed, Message: "by cors"}
	missing := gatewayapi.Finding{Result: gatewayapi.NotFound, Message: "no route"}
	pending := gatewayapi.Finding{Result: gatewayapi.Pending}
	read := func(f gatewayapi.Finding, last, end time.Duration) evidence {
		return evidence{finding: f, known: true, last: at.Add(last), end: at.Add(end)}
	}
	fresh := wiring{selects: true, selectors: "s", shown: true}
	none := gatewayapi.Finding{}

	t.Run("a target that is created has its traffic back", func(t *testing.T) {
		g := NewWithT(t)
		w, reason := judged(fresh, read(none, 0, 0))
		g.Expect(reason).To(Equal(v1alpha1.ReasonTrafficSeen))
		w, reason = judged(w, read(missing, 0, 0))
		g.Expect(reason).To(Equal(v1alpha1.ReasonTargetNotFound))
		g.Expect(w.outcome.message).To(Equal("no route"))
		g.Expect(w.wiredSelectors(nil)).To(HaveValue(Equal("s")))
		_, reason = judged(w, evidence{known: true})
		g.Expect(reason).To(Equal(v1alpha1.ReasonTrafficSeen))
	})
	t.Run("only traffic after a bypass counts", func(t *testing.T) {
		g := NewWithT(t)
		w, _ := judged(fresh, read(none, 0, 0))
		w, reason := judged(w, read(bypassed, 0, time.Second))
		g.Expect(reason).To(Equal(v1alpha1.ReasonBypassed))
		g.Expect(w.wiredSelectors(new("s"))).To(HaveValue(BeEmpty()))
		w, _ = judged(w, read(bypassed, 5*time.Second, 9*time.Second)) // through another target
		w, reason = judged(w, read(none, 5*time.Second, 9*time.Second))
		g.Expect(reason).To(Equal(v1alpha1.ReasonNoTraffic))
		_, reason = judged(w, read(none, 10*time.Second, 10*time.Second))
		g.Expect(reason).To(Equal(v1alpha1.ReasonTrafficSeen))
	})
	t.Run("during a bypass Redis did not answer", func(t *testing.T) {
		g := NewWithT(t)
		w, _ := judged(fresh, evidence{finding: bypassed})
		w, reason := judged(w, evidence{})
		g.Expect(reason).To(Equal(v1alpha1.ReasonBypassed), "the condition stays as it is")
		w, reason = judged(w, read(none, 5*time.Second, 9*time.Second))
		g.Expect(reason).To(Equal(v1alpha1.ReasonNoTraffic))
		_, reason = judged(w, read(none, 10*time.Second, 10*time.Second))
		g.Expect(reason).To(Equal(v1alpha1.ReasonTrafficSeen))
	})
	t.Run("objects that are too many to compare", func(t *testing.T) {
		g := NewWithT(t)
		unchecked := gatewayapi.Finding{Result: gatewayapi.Unchecked, Message: "Too many."}
		w, reason := judged(fresh, evidence{finding: unchecked, known: true})
		g.Expect(reason).To(Equal(v1alpha1.ReasonNoTraffic))
		g.Expect(w.outcome.message).To(HaveSuffix(" Too many."))
		w, reason = judged(w, read(unchecked, time.Second, time.Second))
		g.Expect(reason).To(Equal(v1alpha1.ReasonTrafficSeen))
		g.Expect(w.outcome.message).To(Equal("A check has applied to the policy. Too many."))
		w, _ = judged(w, read(none, time.Second, time.Second))
		g.Expect(w.outcome.message).To(Equal("A check has applied to the policy."))
	})
	t.Run("a leader that has not read the objects", func(t *testing.T) {
		g := NewWithT(t)
		adopted := fresh
		adopted.reason, adopted.distrust = v1alpha1.ReasonBypassed, true
		w, reason := judged(adopted, read(pending, 0, 0))
		g.Expect(reason).To(BeEmpty(), "it stays as it is")
		w, reason = judged(w, read(bypassed, 0, 0))
		g.Expect(reason).To(Equal(v1alpha1.ReasonBypassed))
		_, reason = judged(w, read(pending, 0, time.Minute))
		g.Expect(reason).To(Equal(v1alpha1.ReasonBypassed))
		_, reason = judged(fresh, read(pending, 0, 0))
		g.Expect(reason).To(Equal(v1alpha1.ReasonTrafficSeen), "traffic needs no objects")
	})
}
