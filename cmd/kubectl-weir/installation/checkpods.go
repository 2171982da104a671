// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
)

const (
	// controllersLabel selects the pods of which one leads. Most installations have no others.
	controllersLabel = "ratelimit.weir.dev/controllers=true"
	// startLimit is how long a pod may take to become ready, or to end after its grace period.
	startLimit = 2 * time.Minute
	// settleTime is how long a rollout is under way after its last pod became ready: until then another
	// leader may be elected, which sends its first heartbeat.
	settleTime = 30 * time.Second
	// untilDone is what to do about a rollout that is under way.
	untilDone = "wait until the rollout is done: kubectl weir check --wait 2m"
)

// inspectPods checks the pods that are to stay, and finds out whether a rollout is under way.
func inspectPods(ctx context.Context, c *connect.Connection, kube kubernetes.Interface, r *report) {
	pods, err := kube.CoreV1().Pods(c.WeirNamespace).List(ctx, metav1.ListOptions{LabelSelector: connect.PodLabel})
	if err != nil {
		r.skip("pods", err)
		return
	}
	now := time.Now()
	r.rollout = isRollout(pods.Items, now)
	leaders, err := kube.CoreV1().Pods(c.WeirNamespace).List(ctx, metav1.ListOptions{LabelSelector: controllersLabel})
	if err == nil && isRollout(leaders.Items, now) {
		r.rollout = true
	}
	live := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !isLive(&p) })
	ready, starting := 0, 0
	for i := range live {
		switch {
		case connect.IsReady(&live[i]):
			ready++
		case isStarting(&live[i], now):
			starting++
		}
	}
	detail := fmt.Sprintf("%d of %d that decide are ready in %s", ready, len(live), c.WeirNamespace)
	switch {
	case len(live) == 0:
		r.add("pods", outcomeFailed, detail, "if Weir runs elsewhere, set --weir-namespace")
	case ready+starting < len(live):
		r.add("pods", outcomeFailed, detail, "kubectl -n "+c.WeirNamespace+" describe pods -l "+connect.PodLabel)
	case starting > 0:
		r.add("pods", outcomeUnderWay, fmt.Sprintf("%s, %d start", detail, starting), untilDone)
	case ready == 1:
		r.add("pods", outcomeWarning, detail, "run at least 2 replicas, so that a restart leaves one")
	default:
		r.add("pods", outcomeOK, detail, "")
	}
}

// isLive reports whether the pod is to stay: it neither terminates nor has ended.
func isLive(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// isRollout reports whether a pod terminates in time or starts, or became ready less than settleTime ago.
func isRollout(pods []corev1.Pod, now time.Time) bool {
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		isRecent := func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && now.Sub(c.LastTransitionTime.Time) < settleTime
		}
		isEnding := p.DeletionTimestamp != nil && now.Sub(p.DeletionTimestamp.Time) < startLimit // it is when the grace period ends
		return isEnding || isStarting(&p, now) || isLive(&p) && connect.IsReady(&p) && slices.ContainsFunc(p.Status.Conditions, isRecent)
	})
}

// isStarting reports whether the pod is new and not ready yet, and nothing has failed so far.
func isStarting(p *corev1.Pod, now time.Time) bool {
	hasFailed := func(s corev1.ContainerStatus) bool {
		waiting := s.State.Waiting
		return s.RestartCount > 0 || s.State.Terminated != nil ||
			waiting != nil && waiting.Reason != "" && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing"
	}
	return isLive(p) && !connect.IsReady(p) && now.Sub(p.CreationTimestamp.Time) < startLimit &&
		!slices.ContainsFunc(p.Status.ContainerStatuses, hasFailed)
}
