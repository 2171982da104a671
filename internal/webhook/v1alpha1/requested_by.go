// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/kubeauth"
)

// requestedByProblems returns why the caller may not leave or set the name in RequestedByAnnotation: it names another user,
// and the caller may not impersonate that user. A missing annotation is valid.
func (v *exceptionValidator) requestedByProblems(ctx context.Context, e *v1alpha1.RateLimitException) field.ErrorList {
	given, found := e.Annotations[v1alpha1.RequestedByAnnotation]
	request, err := admission.RequestFromContext(ctx)
	if !found || err != nil || given == request.UserInfo.Username {
		return nil
	}
	path := field.NewPath("metadata", "annotations").Key(v1alpha1.RequestedByAnnotation)
	if v.Access != nil {
		allowed, err := kubeauth.MayImpersonate(ctx, v.Access, &request.UserInfo, given)
		if err != nil {
			return field.ErrorList{field.InternalError(path, fmt.Errorf("failed to check whether %q may impersonate %q: %w", request.UserInfo.Username, given, err))}
		}
		if allowed {
			return nil
		}
	}
	return field.ErrorList{field.Forbidden(path, fmt.Sprintf("names %q, and you, %q, may not impersonate that user: set it to your name, or remove it",
		given, request.UserInfo.Username))}
}

// onlyLowers reports whether the edit does at most two things: it ends the exception earlier and lowers numbers.
func onlyLowers(was, is *v1alpha1.RateLimitExceptionSpec) bool {
	restored := is.DeepCopy()
	if restored.Until.Before(&was.Until) {
		restored.Until = was.Until
	}
	for i := range restored.Limits {
		limit := &restored.Limits[i]
		at := slices.IndexFunc(was.Limits, func(l v1alpha1.ExceptionLimit) bool { return l.Name == limit.Name })
		if at >= 0 {
			limit.Threshold = higher(was.Limits[at].Threshold, limit.Threshold)
			limit.Burst = higher(was.Limits[at].Burst, limit.Burst)
		}
	}
	return equality.Semantic.DeepEqual(was, restored)
}

// higher returns was if both numbers are set and was is the higher one, else is.
func higher(was, is *int64) *int64 {
	if was != nil && is != nil && *was > *is {
		return was
	}
	return is
}
