// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

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
			status:    keyGroupStatus,
		},
		compile: func(ctx context.Context, r *Reconciler, object client.Object) (*compiledRecord, error) {
			return r.compileKeyGroup(ctx, object.(*v1alpha1.RateLimitKeyGroup)) //nolint:forcetypeassert // of newObject
		},
	}
}

// compileKeyGroup returns the record of the key group. Omitted keys are read from the API server, one key group at a time: there are
// as many workers as would take more memory than the cache saves.
func (r *Reconciler) compileKeyGroup(ctx context.Context, group *v1alpha1.RateLimitKeyGroup) (*compiledRecord, error) {
	if !compile.HasKeys(group) {
		r.readingKeys.Lock()
		defer r.readingKeys.Unlock()
		whole := &v1alpha1.RateLimitKeyGroup{}
		if err := r.uncached.Get(ctx, client.ObjectKeyFromObject(group), whole); err != nil {
			return nil, fmt.Errorf("read the keys of the key group: %w", err)
		}
		if whole.UID != group.UID || whole.Generation != group.Generation {
			return nil, errCacheBehind
		}
		group = whole
	}
	record, problems := compile.KeyGroup(group)
	if len(problems) > 0 {
		return &compiledRecord{judgement: judgement{problems: problems}}, nil
	}
	return &compiledRecord{record: record}, nil
}

// keyGroupStatus returns the status of the key group.
func keyGroupStatus(object client.Object, f *facts) newStatus {
	group := object.(*v1alpha1.RateLimitKeyGroup) //nolint:forcetypeassert // of newObject
	status := v1alpha1.RateLimitKeyGroupStatus{
		Conditions:         keepTransitionTimes(group.Status.Conditions, f.allConditions()),
		ObservedGeneration: f.generation,
		KeyCount:           new(int32(compile.DistinctKeys(group))), //nolint:gosec // at most 1,000
	}
	return newStatus{&status, status.Conditions, !equality.Semantic.DeepEqual(withoutWarnings(&group.Status), withoutWarnings(&status))}
}

// withoutWarnings returns the status without the condition Warnings, as needsWrite compares it.
func withoutWarnings(status *v1alpha1.RateLimitKeyGroupStatus) *v1alpha1.RateLimitKeyGroupStatus {
	rest := *status
	rest.Conditions = exceptWarnings(status.Conditions)
	return &rest
}
