// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of the group ratelimit.weir.dev: the kinds
// RateLimitPolicy, RateLimitKeyGroup and RateLimitException with their conditions.
//
// It holds types and constants only. The markers generate the schema of the
// CustomResourceDefinition, which rejects everything that a schema can reject;
// internal/compile reports the rest.
//
// Read the files in this order:
//
//	ratelimitpolicy_types.go        RateLimitPolicy, its spec and status
//	ratelimitpolicy_match_types.go  which requests, and whose budget
//	ratelimitpolicy_limit_types.go  limits, overrides and the denial
//	ratelimitpolicy_enums.go        enumerations
//	ratelimitpolicy_conditions.go   types and reasons of the conditions of every kind
//	ratelimitkeygroup_types.go      RateLimitKeyGroup: keys that overrides select by the name of a group
//	ratelimitexception_types.go     RateLimitException: other numbers for one key until a time
//	unsupported.go                  fields and values of a later release
//	groupversion_info.go            the group, and registering its types
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
	scheme.AddKnownTypes(GroupVersion, &RateLimitPolicy{}, &RateLimitPolicyList{},
		&RateLimitKeyGroup{}, &RateLimitKeyGroupList{},
		&RateLimitException{}, &RateLimitExceptionList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
