// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"errors"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/warning"
)

// Follow keeps the indexes of the validator up to date with a cache. It must be called before the cache starts.
func (v *Validator) Follow(ctx context.Context, objects cache.Informers) error {
	v.Matches, v.Exceptions = &warning.MatchIndex{}, &warning.ExceptionIndex{}
	return errors.Join(
		FollowObjects(ctx, objects, v.Matches.Replace),
		FollowObjects(ctx, objects, func(was, is *v1alpha1.RateLimitException) { v.Exceptions.Replace(was, is) }),
	)
}

// FollowObjects calls replace for each change of an object; nil stands for one that is not there. It must be called before the cache starts.
func FollowObjects[T any, O interface {
	*T
	client.Object
}](ctx context.Context, objects cache.Informers, replace func(was, is O)) error {
	informer, err := objects.GetInformer(ctx, O(new(T)), cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	objectOf := func(object any) O {
		if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		typed, _ := object.(O)
		return typed
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { replace(nil, objectOf(object)) },
		UpdateFunc: func(old, changed any) { replace(objectOf(old), objectOf(changed)) },
		DeleteFunc: func(object any) { replace(objectOf(object), nil) },
	})
	return err
}
