// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Namespaces are the Namespaces whose policies are enforced.
type Namespaces = controller.Namespaces

// cacheOptions limits the caches to the Namespaces.
func cacheOptions(n Namespaces) cache.Options {
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&v1alpha1.RateLimitKeyGroup{}: {Transform: compactKeys}},
	}
	if len(n.Watched) > 0 {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range n.Watched {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	if len(n.Excluded) > 0 {
		var excluded []fields.Selector
		for _, namespace := range n.Excluded {
			excluded = append(excluded, fields.OneTermNotEqualSelector("metadata.namespace", namespace))
		}
		included := fields.AndSelectors(excluded...)
		options.ByObject = map[client.Object]cache.ByObject{
			&v1alpha1.RateLimitPolicy{}:    {Field: included},
			&v1alpha1.RateLimitKeyGroup{}:  {Field: included, Transform: compactKeys},
			&v1alpha1.RateLimitException{}: {Field: included},
		}
	}
	return options
}

// compactKeys removes what repeats the keys of a key group, which are managed fields and the annotation of kubectl apply,
// and gives its keys one string to share: one for each would take a third more memory.
func compactKeys(object any) (any, error) {
	if metadata, err := meta.Accessor(object); err == nil {
		metadata.SetManagedFields(nil)
		annotations := metadata.GetAnnotations()
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		metadata.SetAnnotations(annotations)
	}
	if group, ok := object.(*v1alpha1.RateLimitKeyGroup); ok {
		shared := plan.NewKeyList(group.Spec.Keys...)
		group.Spec.Keys = slices.AppendSeq(make([]string, 0, shared.Len()), shared.All())
	}
	return object, nil
}

// clientOptions lets the client read Namespaces from the API server if Roles are all that
// the process has: a Role permits to get a Namespace, but not to watch it.
func clientOptions(n Namespaces) client.Options {
	options := client.Options{Cache: &client.CacheOptions{}}
	if len(n.Watched) > 0 {
		options.Cache.DisableFor = []client.Object{&corev1.Namespace{}}
	}
	return options
}
