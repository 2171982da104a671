// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// OmittedKeysAnnotation is the number of distinct keys of a key group in a cache that has no room for them. Objects of the API
// server do not have it.
const OmittedKeysAnnotation = "ratelimit.weir.dev/omitted-keys"

// OmitKeys removes the keys of a key group in a cache, and notes their number.
func OmitKeys(group *v1alpha1.RateLimitKeyGroup) {
	if len(group.Spec.Keys) == 0 {
		return // they are omitted already: an object of the API server has keys
	}
	metav1.SetMetaDataAnnotation(&group.ObjectMeta, OmittedKeysAnnotation, strconv.Itoa(DistinctKeys(group)))
	group.Spec.Keys = nil
}

// HasKeys reports whether the key group has its keys: they are not omitted.
func HasKeys(group *v1alpha1.RateLimitKeyGroup) bool { return len(group.Spec.Keys) > 0 }

// DistinctKeys returns the number of distinct keys of the key group, also if they are omitted.
func DistinctKeys(group *v1alpha1.RateLimitKeyGroup) int {
	if HasKeys(group) {
		return len(slices.Compact(slices.Sorted(slices.Values(group.Spec.Keys))))
	}
	n, _ := strconv.Atoi(group.Annotations[OmittedKeysAnnotation]) // 0 without the annotation
	return n
}

// KeyGroup returns the record of the key group, with its keys sorted and without duplicates, or every problem that
// prevents one. Key groups that differ in the order of their keys give equal records.
func KeyGroup(group *v1alpha1.RateLimitKeyGroup) (*plan.KeyGroup, field.ErrorList) {
	if unsupported := withUnsupported(nil, group.Spec.Unsupported); len(unsupported) > 0 {
		return nil, unsupported
	}
	compiled := &plan.KeyGroup{
		Namespace:  group.Namespace,
		Name:       group.Name,
		UID:        string(group.UID),
		Generation: group.Generation,
		Group:      group.Spec.Group,
		Keys:       plan.NewKeyList(slices.Compact(slices.Sorted(slices.Values(group.Spec.Keys)))...),
	}
	if err := compiled.Validate(); err != nil { // the schema should have rejected it
		return nil, field.ErrorList{field.Invalid(field.NewPath("spec"), field.OmitValueType{}, strings.ReplaceAll(err.Error(), "\n", "; "))}
	}
	for i, key := range group.Spec.Keys {
		if len(key) > plan.MaxGroupKey { // the schema counts characters
			return nil, field.ErrorList{field.TooLong(field.NewPath("spec", "keys").Index(i), field.OmitValueType{}, plan.MaxGroupKey)}
		}
	}
	return compiled, nil
}
