// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// keyGroupKind returns the kind of RateLimitKeyGroups.
func keyGroupKind() *recordKind {
	return &recordKind{
		kind: kind{
			record: plan.KindKeyGroup, name: "RateLimitKeyGroup", plural: "key groups",
			newObject: func() client.Object { return &v1alpha1.RateLimitKeyGroup{} },
			newList:   func() client.ObjectList { return &v1alpha1.RateLimitKeyGroupList{} },
			earlier: func(object client.Object) earlierStatus {
				status := &object.(*v1alpha1.RateLimitKeyGroup).Status //nolint:forcetypeassert // of newObject
				return earlierStatus{conditions: status.Conditions, observedGeneration: status.ObservedGeneration}
			},
			status: keyGroupStatus,
		},
		compile: func(_ context.Context, _ *Reconciler, object client.Object) (*compiledRecord, error) {
			record, problems := compile.KeyGroup(object.(*v1alpha1.RateLimitKeyGroup)) //nolint:forcetypeassert // of newObject
			if len(problems) > 0 {
				return &compiledRecord{problems: problems}, nil
			}
			return &compiledRecord{record: record}, nil
		},
	}
}

// keyGroupStatus returns the status of the key group.
func keyGroupStatus(object client.Object, f *facts) newStatus {
	group := object.(*v1alpha1.RateLimitKeyGroup) //nolint:forcetypeassert // of newObject
	distinct := slices.Compact(slices.Sorted(slices.Values(group.Spec.Keys)))
	status := v1alpha1.RateLimitKeyGroupStatus{
		Conditions:         keepTransitionTimes(group.Status.Conditions, f.allConditions()),
		ObservedGeneration: f.generation,
		KeyCount:           new(int32(len(distinct))), //nolint:gosec // at most 1,000
	}
	return newStatus{&status, status.Conditions, !equality.Semantic.DeepEqual(withoutWarnings(&group.Status), withoutWarnings(&status))}
}

// withoutWarnings returns the status without the condition Warnings, as needsWrite compares it.
func withoutWarnings(status *v1alpha1.RateLimitKeyGroupStatus) *v1alpha1.RateLimitKeyGroupStatus {
	rest := *status
	rest.Conditions = exceptWarnings(status.Conditions)
	return &rest
}
