// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/gatewayapi"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// wiring holds the facts about whether requests reach a policy.
type wiring struct {
	selects   bool // the policy has matches or targetRefs
	targets   []plan.Target
	selectors string // see plan.Plan.Selectors; "" if the policy has no plan in this term
	// seen is true once a check has applied to these selectors since the last bypass. It never becomes
	// false because of silence.
	seen bool
	// after is the end of the last bypass: earlier sightings do not count. distrust is true until the end is
	// known in the time of Redis.
	after    time.Time
	distrust bool
	shown    bool // the status has the condition
	// adopted is true if an earlier term had reported the policy, perhaps of a release without the condition.
	adopted bool
	outcome wiredOutcome
	reason  string // of the last outcome, perhaps of an earlier term
}

// wiredOutcome is the content of the condition Wired. The zero outcome leaves the condition as it is.
type wiredOutcome struct {
	status          metav1.ConditionStatus
	reason, message string
}

// The outcomes that name no object.
var (
	trafficSeen = wiredOutcome{
		metav1.ConditionTrue, v1alpha1.ReasonTrafficSeen, "A check has applied to the policy.",
	}
	noTraffic = wiredOutcome{
		metav1.ConditionUnknown, v1alpha1.ReasonNoTraffic,
		"No check has applied to the policy yet. Find out whether a URL reaches it with: kubectl weir probe URL",
	}
)

// with returns the outcome, with a message that reports whether objects could not be compared.
func (o wiredOutcome) with(f gatewayapi.Finding) wiredOutcome {
	if f.Result == gatewayapi.Unchecked {
		o.message += " " + f.Message
	}
	return o
}

// evidence is what replicas have reported about one policy, and what the objects of its targets prove.
type evidence struct {
	finding gatewayapi.Finding

	known bool      // the reports could be read
	last  time.Time // when the policy was last reported with its selectors; zero for never
	end   time.Time // of what was read
	// rollingOut is true while replicas of an earlier release, which report nothing, may still be replaced.
	rollingOut bool
}

// follow returns the wiring after an edit of the policy. The zero wiring belongs to a policy that is new to the
// term.
func (w *wiring) follow(policy *v1alpha1.RateLimitPolicy, selectors string) wiring {
	shown := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionWired)
	next := wiring{selects: policy.Spec.SelectsRequests(), selectors: selectors, shown: w.shown || shown != nil}
	next.targets = compile.TargetsOf(policy)
	if w.selects == next.selects && (w.selectors == selectors || selectors == "") {
		w.shown, w.targets = next.shown, next.targets
		return *w // without a plan, the one in force stays
	}
	// The cache may be behind the last write, so the status is read only here.
	next.seen = selectors != "" && policy.Status.WiredSelectors != nil && *policy.Status.WiredSelectors == selectors
	next.adopted = policy.Status.ObservedGeneration == policy.Generation
	if shown != nil {
		next.reason = shown.Reason
	}
	next.distrust = next.reason == v1alpha1.ReasonBypassed
	return next
}

// judgeEvidence sets the outcome, and reports whether it has changed.
func (w *wiring) judgeEvidence(e evidence) (changed bool) {
	if !w.selects {
		changed = w.outcome != (wiredOutcome{})
		w.outcome = wiredOutcome{}
		return changed
	}
	w.weigh(e)
	next := w.outcome
	switch {
	case e.finding.Result == gatewayapi.Bypassed:
		next = wiredOutcome{metav1.ConditionFalse, v1alpha1.ReasonBypassed, e.finding.Message}
	case e.finding.Result == gatewayapi.NotFound:
		next = wiredOutcome{metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound, e.finding.Message}
	case e.finding.Result == gatewayapi.Pending && w.isByObjects():
		// The condition stays as it is until the objects are read.
	case w.seen:
		next = trafficSeen.with(e.finding)
	case !e.known, e.rollingOut && w.adopted && !w.shown, w.selectors == "" && w.shown:
		// The condition stays as it is.
	default:
		next = noTraffic.with(e.finding)
	}
	changed = next != w.outcome
	w.outcome = next
	w.reason = cmp.Or(next.reason, w.reason)
	return changed
}

// isByObjects reports whether objects of the Gateway API are the reason of the last outcome.
func (w *wiring) isByObjects() bool {
	return w.reason == v1alpha1.ReasonBypassed || w.reason == v1alpha1.ReasonTargetNotFound
}

// weigh sets whether a check has applied to the policy. A bypass ends what was seen before: the requests that it
// diverts may have been all.
func (w *wiring) weigh(e evidence) {
	isBypassed := e.finding.Result == gatewayapi.Bypassed
	if isBypassed {
		w.seen, w.distrust = false, true
	}
	if w.distrust && e.known {
		w.after, w.distrust = e.end, false
	}
	if !isBypassed && e.known && !w.distrust && e.last.After(w.after) {
		w.seen = true
	}
}

// condition returns the condition Wired of that generation, nil if the policy has none.
func (w *wiring) condition(earlier []metav1.Condition, generation int64) *metav1.Condition {
	switch {
	case !w.selects:
		return nil
	case w.outcome == (wiredOutcome{}):
		return meta.FindStatusCondition(earlier, v1alpha1.ConditionWired)
	}
	c := condition(v1alpha1.ConditionWired, w.outcome.status, w.outcome.reason, w.outcome.message)
	c.ObservedGeneration = generation
	return &c
}

// wiredSelectors returns the selectors with traffic that the status remembers. A patch cannot remove the
// field, so it becomes empty.
func (w *wiring) wiredSelectors(earlier *string) *string {
	switch {
	case w.selects && w.outcome == (wiredOutcome{}):
		return earlier
	case w.selects && w.seen:
		return new(w.selectors)
	case earlier != nil:
		return new("")
	default:
		return nil
	}
}
