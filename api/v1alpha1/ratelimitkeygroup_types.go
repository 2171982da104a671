// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RateLimitKeyGroupSpec is the desired content of a RateLimitKeyGroup.
type RateLimitKeyGroupSpec struct {
	// group is the name by which overrides of policies in the same Namespace select the keys. Several
	// objects may feed one group. A DNS label of 1 to 63 lower-case letters, digits and dashes.
	// It cannot be changed.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="group must be a DNS label: lower-case letters, digits and inner dashes"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="group is immutable: create another RateLimitKeyGroup and delete this one"
	Group string `json:"group"`

	// keys are values of keys with one part, compared exactly. For a policy whose key is
	// the client address, an address in any spelling stands for the network that the policy
	// counts as one client. 1 to 1000 entries of 1 to 255 bytes, in any order. Duplicates
	// are ignored.
	//
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Keys []string `json:"keys"`

	// Unsupported names the fields of the decoded object that this release does not know, or whose value it
	// does not know, as "limits[0].x: unknown field": a later release stored them. Such an object is not
	// accepted. It is not part of the resource.
	Unsupported []string `json:"-"`
}

// RateLimitKeyGroupStatus is the observed state of a RateLimitKeyGroup.
type RateLimitKeyGroupStatus struct {
	// conditions report whether the key group is valid and has room (Accepted), is in the registry
	// (Programmed), is loaded by every live replica (Enforced), and all three (Ready). Stalled,
	// Reconciling and Warnings are present only while they are true. At most 8.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that the conditions apply to. Defaults to
	// -1: the controller has not processed the key group yet.
	//
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// keyCount is the number of distinct keys of that generation. Absent until the controller has
	// processed the key group.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	KeyCount *int32 `json:"keyCount,omitempty"`
}

// RateLimitKeyGroup is some of the keys of a group: callers that overrides of policies in the same
// Namespace select by the name of the group.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ratelimitkeygroups,scope=Namespaced,shortName=rlkeys,categories=weir
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.group`
// +kubebuilder:printcolumn:name="Keys",type=integer,JSONPath=`.status.keyCount`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="Why the key group is Ready or not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RateLimitKeyGroup struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired content of the key group.
	//
	// +required
	Spec RateLimitKeyGroupSpec `json:"spec"`

	// status is the observed state. Defaults to an observedGeneration of -1, so that
	// tools do not take a key group that was not processed yet for a current one.
	//
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status RateLimitKeyGroupStatus `json:"status,omitzero"`
}

// RateLimitKeyGroupList is a list of RateLimitKeyGroup objects.
//
// +kubebuilder:object:root=true
type RateLimitKeyGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// Items are the key groups of the list.
	Items []RateLimitKeyGroup `json:"items"`
}
