// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"
	"unique"

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
		DefaultTransform: compact,
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.RateLimitPolicy{}:    {Transform: compactPolicy},
			&v1alpha1.RateLimitKeyGroup{}:  {Transform: compactKeys},
			&v1alpha1.RateLimitException{}: {},
		},
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
		for object, kind := range options.ByObject {
			kind.Field = fields.AndSelectors(excluded...)
			options.ByObject[object] = kind
		}
	}
	return options
}

// compact removes what repeats the fields of an object: managed fields and the annotation of kubectl apply.
func compact(object any) (any, error) {
	metadata, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // not an object, such as the key of a deleted one
	}
	metadata.SetManagedFields(nil)
	if annotations := metadata.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		metadata.SetAnnotations(annotations)
	}
	return object, nil
}

// compactPolicy is compact, and returns a policy whose lists have no room at their ends, which decoding leaves, and whose
// conditions share their texts with other policies. All that takes as much memory as the policy itself.
func compactPolicy(object any) (any, error) {
	object, err := compact(object)
	policy, ok := object.(*v1alpha1.RateLimitPolicy)
	if !ok {
		return object, err
	}
	policy = policy.DeepCopy()
	for i := range policy.Status.Conditions {
		c := &policy.Status.Conditions[i]
		c.Type, c.Reason, c.Message = unique.Make(c.Type).Value(), unique.Make(c.Reason).Value(), unique.Make(c.Message).Value()
		c.Status = unique.Make(c.Status).Value()
	}
	return policy, err
}

// compactKeys is compact, and gives the keys of a key group one string to share: one for each would take a third more
// memory.
func compactKeys(object any) (any, error) {
	object, err := compact(object)
	if group, ok := object.(*v1alpha1.RateLimitKeyGroup); ok {
		shared := plan.NewKeyList(group.Spec.Keys...)
		group.Spec.Keys = slices.AppendSeq(make([]string, 0, shared.Len()), shared.All())
	}
	return object, err
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
