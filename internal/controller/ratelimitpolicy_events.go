// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// eventContent is the content of an event on an object. The zero eventContent records
// none.
type eventContent struct{ eventType, reason, message string }

// eventOf returns the event for these conditions: that the policy is ready, not accepted,
// more than an earlier release can enforce, or without a target. A state of the registry or of its replicas has none
// here, because it concerns thousands of policies together: see outage.
func eventOf(conditions []metav1.Condition) eventContent {
	if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) {
		return readyEvent
	}
	accepted := meta.FindStatusCondition(conditions, v1alpha1.ConditionAccepted)
	enforced := meta.FindStatusCondition(conditions, v1alpha1.ConditionEnforced)
	switch {
	case accepted != nil && accepted.Status != metav1.ConditionTrue:
		return eventContent{corev1.EventTypeWarning, accepted.Reason, accepted.Message}
	case enforced != nil && enforced.Reason == v1alpha1.ReasonReplicasTooOld:
		return eventContent{corev1.EventTypeWarning, enforced.Reason, enforced.Message}
	case meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionResolvedRefs):
		resolved := meta.FindStatusCondition(conditions, v1alpha1.ConditionResolvedRefs)
		return eventContent{corev1.EventTypeWarning, resolved.Reason, resolved.Message}
	default:
		return eventContent{}
	}
}

var readyEvent = eventContent{corev1.EventTypeNormal, v1alpha1.ReasonReady, "Every live replica enforces this generation."}

// announcedBy returns the event that needs no announcement any more for this generation.
//   - An accepted policy counts as announced ready: an outage may have hidden that since.
//   - So does a policy that had no leader yet: when a first leader makes thousands ready, their
//     events would cost as much as their statuses.
func announcedBy(object client.Object, status *earlierStatus, isEdited bool) eventContent {
	switch {
	case status.observedGeneration != object.GetGeneration() && isEdited:
		return eventContent{}
	case status.observedGeneration != object.GetGeneration():
		return readyEvent
	case meta.IsStatusConditionTrue(status.conditions, v1alpha1.ConditionAccepted):
		return readyEvent
	default:
		return eventOf(status.conditions)
	}
}

// recordEvent records the event for the new status, unless it was the last one of that
// generation.
func (r *Reconciler) recordEvent(object client.Object, conditions []metav1.Condition, s *statusRecord) {
	event := eventOf(conditions)
	if event == (eventContent{}) || event == s.announced {
		return
	}
	s.announced = event
	r.recorder.Eventf(object, nil, event.eventType, event.reason, "Reconcile", "%s", event.message)
}

// recordBypass records an event if the new status reports a bypass that the earlier one did not.
func (r *Reconciler) recordBypass(object client.Object, earlier, conditions []metav1.Condition) {
	was := meta.FindStatusCondition(earlier, v1alpha1.ConditionWired)
	is := meta.FindStatusCondition(conditions, v1alpha1.ConditionWired)
	if is == nil || is.Reason != v1alpha1.ReasonBypassed || was != nil && was.Reason == is.Reason && was.Message == is.Message {
		return
	}
	r.recorder.Eventf(object, nil, corev1.EventTypeWarning, is.Reason, "Reconcile", "%s", is.Message)
}
