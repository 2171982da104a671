// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

var (
	policiesDesc = prometheus.NewDesc("weir_policies",
		"Leader: policies by the status of a condition of their current generation.", []string{"namespace", "condition", "status"}, nil)
	shadowedDesc = prometheus.NewDesc("weir_policies_shadowed",
		"Leader: policies in mode Enforce that deny no request because of the annotation shadow-until.", []string{"namespace"}, nil)

	countedConditions = []string{
		v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionEnforced, v1alpha1.ConditionReady,
		v1alpha1.ConditionWired,
	}
)

// PolicyMetrics counts the policies by their conditions while this process leads.
type PolicyMetrics struct {
	source atomic.Pointer[policySource]
}

// policySource is what a running manager provides.
type policySource struct {
	ctx      context.Context //nolint:containedctx // Collect has none
	term     func() context.Context
	policies client.Reader
}

// NewPolicyMetrics registers the metrics. They are empty until the manager runs.
func NewPolicyMetrics(r prometheus.Registerer) *PolicyMetrics {
	m := &PolicyMetrics{}
	r.MustRegister(m)
	return m
}

// Describe implements prometheus.Collector.
func (*PolicyMetrics) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- policiesDesc
	descriptions <- shadowedDesc
}

// Collect implements prometheus.Collector.
func (m *PolicyMetrics) Collect(metrics chan<- prometheus.Metric) {
	source := m.source.Load()
	if source == nil || !source.leads() {
		return
	}
	list := &v1alpha1.RateLimitPolicyList{}
	if err := source.policies.List(source.ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		metrics <- prometheus.NewInvalidMetric(policiesDesc, err)
		return
	}
	for labels, count := range countPolicies(list) {
		metrics <- prometheus.MustNewConstMetric(policiesDesc, prometheus.GaugeValue, float64(count), labels.namespace, labels.condition, labels.status)
	}
	for namespace, count := range countShadowed(list) {
		metrics <- prometheus.MustNewConstMetric(shadowedDesc, prometheus.GaugeValue, float64(count), namespace)
	}
}

func (s *policySource) leads() bool {
	term := s.term()
	return term != nil && term.Err() == nil && s.ctx.Err() == nil
}

type policyLabels struct{ namespace, condition, status string }

// countShadowed counts the policies of each Namespace that are in Shadow until some time.
func countShadowed(list *v1alpha1.RateLimitPolicyList) map[string]int {
	counts := map[string]int{}
	now := time.Now() //nolint:forbidigo // the annotation names a time
	for i := range list.Items {
		if !compile.ShadowOf(&list.Items[i], now).Until.IsZero() {
			counts[list.Items[i].Namespace]++
		}
	}
	return counts
}

// countPolicies counts the policies of each Namespace by the status of each condition. A
// condition that is missing, or of an earlier generation, is Unknown. Policies that need no condition Wired
// are not counted by it.
func countPolicies(list *v1alpha1.RateLimitPolicyList) map[policyLabels]int {
	counts := map[policyLabels]int{}
	for i := range list.Items {
		policy := &list.Items[i]
		for _, condition := range countedConditions {
			status := metav1.ConditionUnknown
			if condition == v1alpha1.ConditionWired && !policy.Spec.SelectsRequests() {
				continue
			}
			if found := meta.FindStatusCondition(policy.Status.Conditions, condition); found != nil && found.ObservedGeneration == policy.Generation {
				status = found.Status
			}
			counts[policyLabels{policy.Namespace, condition, string(status)}]++
		}
	}
	return counts
}
