// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/warning"
)

// policiesPage is how many policies one call of the API server returns.
const policiesPage = 500

// inspectWarnings reports policies that are probably a mistake: each alone, by its condition, and several with
// the same match, which no status reports.
func inspectWarnings(ctx context.Context, kube dynamic.Interface, r *report) {
	policies, err := listPolicies(ctx, kube)
	if err != nil {
		r.skip("warnings", err)
		r.skip("overlaps", err)
		return
	}
	index := &warning.MatchIndex{}
	for i := range policies {
		index.Replace(nil, &policies[i])
	}
	var warned, overlapping []string
	for i := range policies {
		p := &policies[i]
		id := p.Namespace + "/" + p.Name
		if meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionWarnings) {
			warned = append(warned, id)
		}
		if p.Spec.Mode == v1alpha1.ModeDisabled {
			continue
		}
		if found := warning.Overlaps(p, index, true); len(found) > 0 {
			overlapping = append(overlapping, id+" ("+found[0]+")")
		}
	}
	if len(warned) > 0 {
		r.add("warnings", outcomeWarning, fmt.Sprintf("%d policies are probably a mistake: %s", len(warned), firstOf(warned)),
			"kubectl describe them; the condition Warnings has the reason")
	} else {
		r.add("warnings", outcomeOK, "no policy has the condition Warnings", "")
	}
	if len(overlapping) > 0 {
		r.add("overlaps", outcomeWarning, fmt.Sprintf("%d policies: %s", len(overlapping), firstOf(overlapping)),
			"if that is not intended, give them other matches, or merge them")
	} else {
		r.add("overlaps", outcomeOK, "no two policies have the same match", "")
	}
}

// listPolicies returns the policies of all Namespaces.
func listPolicies(ctx context.Context, kube dynamic.Interface) (policies []v1alpha1.RateLimitPolicy, err error) {
	resource := kube.Resource(v1alpha1.GroupVersion.WithResource("ratelimitpolicies"))
	for next := ""; ; {
		page, err := resource.List(ctx, metav1.ListOptions{Limit: policiesPage, Continue: next})
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			policy := v1alpha1.RateLimitPolicy{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(page.Items[i].Object, &policy); err != nil {
				return nil, err
			}
			policies = append(policies, policy)
		}
		if next = page.GetContinue(); next == "" {
			return policies, nil
		}
	}
}
