// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of the group ratelimit.weir.dev: the kind
// RateLimitPolicy with its conditions.
//
// It holds types and constants only. Whatever a schema can refuse is refused by
// the markers here, which the generated CustomResourceDefinition carries to the
// API server; the rest is the business of the packages that read the types.
//
// +kubebuilder:object:generate=true
// +groupName=ratelimit.weir.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of every type in this package.
	GroupVersion = schema.GroupVersion{Group: "ratelimit.weir.dev", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the types of this package with a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &RateLimitPolicy{}, &RateLimitPolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
