// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/warning"
)

// Follow keeps the index up to date with a cache. It must be called before the cache starts.
func Follow(ctx context.Context, x *warning.MatchIndex, policies cache.Informers) error {
	informer, err := policies.GetInformer(ctx, &v1alpha1.RateLimitPolicy{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { x.Replace(nil, policyOf(object)) },
		UpdateFunc: func(old, changed any) { x.Replace(policyOf(old), policyOf(changed)) },
		DeleteFunc: func(object any) { x.Replace(policyOf(object), nil) },
	})
	return err
}

// policyOf returns the policy of an event, or nil.
func policyOf(object any) *v1alpha1.RateLimitPolicy {
	if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	policy, _ := object.(*v1alpha1.RateLimitPolicy)
	return policy
}
