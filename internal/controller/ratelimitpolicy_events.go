// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// eventContent is the content of an event on a policy. The zero eventContent records
// none.
type eventContent struct{ eventType, reason, message string }

// eventOf returns the event for these conditions. Publishing and
// ReplicasBehind, which pass by themselves, have none.
func eventOf(conditions []metav1.Condition) eventContent {
	if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) {
		return eventContent{corev1.EventTypeNormal, v1alpha1.ReasonReady, "Every live replica enforces this generation."}
	}
	for _, t := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionEnforced} {
		c := meta.FindStatusCondition(conditions, t)
		if c == nil || c.Status == metav1.ConditionTrue {
			continue
		}
		if c.Reason == v1alpha1.ReasonPublishing || c.Reason == v1alpha1.ReasonReplicasBehind {
			break
		}
		return eventContent{corev1.EventTypeWarning, c.Reason, c.Message}
	}
	return eventContent{}
}

// recordEvent records the event for the new conditions, unless the status before had
// the same event for the same generation.
func (r *Reconciler) recordEvent(policy, before *v1alpha1.RateLimitPolicy) {
	event := eventOf(policy.Status.Conditions)
	if event == (eventContent{}) ||
		event == eventOf(before.Status.Conditions) && policy.Status.ObservedGeneration == before.Status.ObservedGeneration {
		return
	}
	r.recorder.Eventf(policy, nil, event.eventType, event.reason, "Reconcile", "%s", event.message)
}
