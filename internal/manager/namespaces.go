// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Namespaces are the Namespaces whose policies are enforced.
type Namespaces = controller.Namespaces

// cacheOptions limits the caches to the Namespaces, and their keys to the room.
func cacheOptions(n Namespaces, room *keyRoom) cache.Options {
	options := cache.Options{
		DefaultTransform: compact,
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.RateLimitPolicy{}:    {Transform: compactPolicy},
			&v1alpha1.RateLimitKeyGroup{}:  {Transform: room.transform},
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

// keptAnnotations are the annotations that are read from the caches, each with the longest value that has an effect, in bytes.
var keptAnnotations = map[string]int{
	v1alpha1.ReconcileRequestedAtAnnotation: utf8.UTFMax * v1alpha1.MaxLastHandledReconcileAt,
	v1alpha1.ShadowUntilAnnotation:          255, // a time has at most 35
	compile.OmittedKeysAnnotation:           255,
	compile.HostsAnnotation:                 math.MaxInt, // of Namespaces, by owners of the cluster
	compile.DomainsAnnotation:               math.MaxInt,
}

// compact removes the metadata that are not read, which may be larger than the object: 256 KiB of annotations, labels, and what
// repeats its fields.
func compact(object any) (any, error) {
	metadata, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // not an object, such as the key of a deleted one
	}
	metadata.SetManagedFields(nil)
	metadata.SetLabels(nil)
	metadata.SetFinalizers(nil)
	metadata.SetOwnerReferences(nil)
	var kept map[string]string
	for name, value := range metadata.GetAnnotations() {
		if longest, found := keptAnnotations[name]; found {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[name] = strings.Clone(value[:min(len(value), longest)])
		}
	}
	metadata.SetAnnotations(kept)
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
