// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/gatewayapi"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

const (
	// targetDelay is how long a target may be missing before the policy is Stalled: tools apply a policy and its route
	// together, in any order.
	targetDelay = time.Minute

	// maxTargetHold bounds how long the status of a generation that was never Ready waits until the objects are read. Without
	// it a policy whose target is missing would be Ready for a moment.
	maxTargetHold = 5 * time.Second
)

// targetObjects has the objects that targetRefs may name.
type targetObjects interface {
	// Want makes Snapshot have the objects after some time.
	Want()
	Snapshot() *gatewayapi.Snapshot
}

// resolution holds whether the objects that targetRefs name exist, as far as Weir can read them. Its start is in the status, as
// the time of the condition ResolvedRefs, so that the next leader continues it.
type resolution struct {
	// status is Unknown once a target is missing, and False once it is missing for targetDelay; "" while none is.
	status  metav1.ConditionStatus
	message string
	since   time.Time // of the status Unknown, in whole seconds as the API server stores it
	// wasReady is true if the status reported this generation as Ready before: it stays Ready while status is Unknown.
	wasReady bool

	pendingSince time.Time // zero once the objects are read
}

// follow returns the resolution of the policy, whose generation was the earlier one.
func (r *resolution) follow(policy *v1alpha1.RateLimitPolicy, earlier int64) resolution {
	if len(policy.Spec.TargetRefs) == 0 {
		return resolution{}
	}
	if earlier == policy.Generation {
		return *r
	}
	reported := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionResolvedRefs)
	if reported == nil || reported.ObservedGeneration != policy.Generation {
		return resolution{pendingSince: r.pendingSince}
	}
	return resolution{
		status: reported.Status, message: reported.Message, since: reported.LastTransitionTime.Time,
		wasReady: isReady(policy.Status.Conditions, policy.Generation),
	}
}

// isReady reports whether the conditions report this generation as Ready.
func isReady(conditions []metav1.Condition, generation int64) bool {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == generation
}

// judgeTargets compares the targets with the objects, and reports whether the resolution has changed. wasReady is as in resolution. While
// objects of a kind are not read, only pendingSince changes.
func (r *resolution) judgeTargets(targets []plan.Target, objects *gatewayapi.Snapshot, wasReady bool, now time.Time) (changed bool) {
	was := *r
	missing, isKnown := objects.Missing(targets)
	switch {
	case !isKnown && r.pendingSince.IsZero():
		r.pendingSince = now
	case !isKnown:
	case missing == "":
		*r = resolution{}
	case r.status == "":
		*r = resolution{status: metav1.ConditionUnknown, message: missing, since: now.Truncate(time.Second), wasReady: wasReady}
	default:
		r.message, r.pendingSince = missing, time.Time{}
		if r.isOverdue(now) {
			r.status, r.wasReady = metav1.ConditionFalse, false
		}
	}
	return *r != was
}

// isOverdue reports whether a target has been missing for targetDelay, and the status does not report that yet.
func (r *resolution) isOverdue(now time.Time) bool {
	return r.status == metav1.ConditionUnknown && !now.Before(r.since.Add(targetDelay))
}

// isUnmet reports whether the policy is not Ready because a target is missing.
func (r *resolution) isUnmet() bool { return r.status != "" && !r.wasReady }

// heldUntil returns how long a status that would report Ready first waits for the objects; the zero time if it does not.
func (r *resolution) heldUntil() time.Time {
	if r.pendingSince.IsZero() || r.status != "" {
		return time.Time{}
	}
	return r.pendingSince.Add(maxTargetHold)
}

// condition returns the condition ResolvedRefs, nil while no target is missing. Its time is the start of targetDelay.
func (r *resolution) condition() *metav1.Condition {
	if r.status == "" {
		return nil
	}
	c := condition(v1alpha1.ConditionResolvedRefs, r.status, v1alpha1.ReasonTargetNotFound, r.message)
	if r.status == metav1.ConditionUnknown {
		c.LastTransitionTime = metav1.NewTime(r.since)
	}
	return &c
}

// endTargetDelays judges the policies again whose targets have been missing for targetDelay.
func (q *statusQueue) endTargetDelays() {
	q.judgeWhere(func(s *statusRecord) bool { return s.resolution.isOverdue(q.now()) })
}
