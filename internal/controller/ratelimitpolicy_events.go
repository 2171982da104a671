// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// transition is what an event tells of a policy.
type transition struct{ eventType, reason, message string }

// transitionOf returns what is worth telling of these conditions. That a plan is on its
// way is not.
func transitionOf(conditions []metav1.Condition) transition {
	if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) {
		return transition{corev1.EventTypeNormal, v1alpha1.ReasonReady, "Every live replica decides by this generation."}
	}
	for _, t := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionEnforced} {
		c := meta.FindStatusCondition(conditions, t)
		if c == nil || c.Status == metav1.ConditionTrue {
			continue
		}
		if c.Reason == v1alpha1.ReasonPublishing || c.Reason == v1alpha1.ReasonReplicasBehind {
			break
		}
		return transition{corev1.EventTypeWarning, c.Reason, c.Message}
	}
	return transition{}
}

// recordEvent tells the news that were none before.
func (r *Reconciler) recordEvent(policy, before *v1alpha1.RateLimitPolicy) {
	event := transitionOf(policy.Status.Conditions)
	if event == (transition{}) ||
		event == transitionOf(before.Status.Conditions) && policy.Status.ObservedGeneration == before.Status.ObservedGeneration {
		return
	}
	r.recorder.Eventf(policy, nil, event.eventType, event.reason, "Reconcile", "%s", event.message)
}
