// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RateLimitExceptionSpec is the desired behavior of a RateLimitException.
//
// +kubebuilder:validation:XValidation:rule="has(self.action) && self.action == 'Allow' || has(self.limits)",fieldPath=".limits",message="limits must be set when action is Limit"
// +kubebuilder:validation:XValidation:rule="!has(self.action) || self.action != 'Allow' || !has(self.limits)",fieldPath=".limits",message="limits must not be set when action is Allow"
type RateLimitExceptionSpec struct {
	// policy is the name of a RateLimitPolicy in the same Namespace. 1 to 253 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="policy must be the name of a RateLimitPolicy: lower-case letters, digits, dots and dashes"
	Policy string `json:"policy"`

	// key is the key that the exception is for: one value for each part of the policy's key, in its order,
	// as in calls on the state of a key. An address stands for the network that the policy counts as one
	// client. At most 8 entries of 1 to 255 bytes, none of them a control character. Without
	// entries it is the shared budget: of all requests if the policy has no key, else of the
	// requests without a key.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.matches('\\\\p{Cc}'))",message="key must not contain control characters"
	Key []string `json:"key,omitempty"`

	// until is when the exception ends, by the clock of Redis: a time in RFC 3339, at most 90 days ahead. The
	// object stays; kubectl weir exceptions prune deletes it.
	//
	// +required
	Until metav1.Time `json:"until"`

	// action is what the exception does. Limit replaces the numbers of limits. Allow exempts the key from
	// the policy; the policy must list it in spec.exceptions.actions. An override with action Deny or
	// Allow that selects the key comes first. Defaults to Limit.
	//
	// +optional
	Action ExceptionAction `json:"action,omitempty"`

	// limits are the limits that change while the action is Limit: 1 to 16 entries that name limits of
	// the policy. A number that is not set stays the one of the policy or its override.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Limits []ExceptionLimit `json:"limits,omitempty"`

	// reason is why, for people, such as the number of a ticket. At most 1024 bytes.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// Unsupported names the fields of the decoded object that this release does not know, or whose value it
	// does not know, as "limits[0].x: unknown field": a later release stored them. Such an object is not
	// accepted. It is not part of the resource.
	Unsupported []string `json:"-"`
}

// ExceptionLimit is other numbers of one limit. The threshold, the burst or both must be set.
//
// +kubebuilder:validation:XValidation:rule="has(self.threshold) || has(self.burst)",message="threshold or burst must be set"
type ExceptionLimit struct {
	// name of a limit of the policy. 1 to 63 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// threshold in place of the limit's, up or down: 1 to 1000000000000, within the bounds of the algorithm
	// and of spec.exceptions.maxFactor of the policy. Units that are spent stay spent. A TokenBucket
	// or GCRA counts in a state of its own, which all exceptions of the key share.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000000
	Threshold *int64 `json:"threshold,omitempty"`

	// burst in place of the burst of a limit that uses TokenBucket or GCRA, 1 to 2147483647, within
	// the bounds of spec.exceptions.maxFactor of the policy. Defaults to the burst of the limit; a
	// TokenBucket without a burst follows the threshold of the exception.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Burst *int64 `json:"burst,omitempty"`
}

// ExceptionAction is what an exception does to the key that it is for.
//
// +kubebuilder:validation:Enum=Limit;Allow
type ExceptionAction string

const (
	// ExceptionActionLimit replaces numbers of limits.
	ExceptionActionLimit ExceptionAction = "Limit"

	// ExceptionActionAllow exempts the key from the policy.
	ExceptionActionAllow ExceptionAction = "Allow"
)

// ExceptionBounds are the exceptions that a policy accepts.
type ExceptionBounds struct {
	// maxFactor bounds the numbers of exceptions: a threshold, or a burst, is at most maxFactor times the
	// largest one of that limit in the policy and its overrides. 1 to 1000. Defaults to 10.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxFactor *int32 `json:"maxFactor,omitempty"`

	// actions are the actions of exceptions that the policy accepts: 1 or 2, of Limit and Allow; or None
	// alone, which accepts no exceptions. Defaults to Limit alone.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="!('None' in self) || self.size() == 1",message="None must be alone"
	Actions []AcceptedAction `json:"actions,omitzero"`
}

// AcceptedAction is an action of exceptions that a policy accepts.
//
// +kubebuilder:validation:Enum=Limit;Allow;None
type AcceptedAction string

const (
	// AcceptedActionLimit accepts exceptions that replace numbers of limits.
	AcceptedActionLimit AcceptedAction = "Limit"

	// AcceptedActionAllow accepts exceptions that exempt a key from the policy.
	AcceptedActionAllow AcceptedAction = "Allow"

	// AcceptedActionNone accepts no exceptions. An empty list, which older schemas accept, means the same; tools
	// that drop empty lists would turn it into the default.
	AcceptedActionNone AcceptedAction = "None"
)

// RequestedByAnnotation is the user who requested an exception, for people. The webhook accepts it only if it is the
// name of the user who sets it, or of a user that this one may impersonate.
const RequestedByAnnotation = "ratelimit.weir.dev/requested-by"

// RateLimitExceptionStatus is the observed state of a RateLimitException.
type RateLimitExceptionStatus struct {
	// conditions report whether the exception is valid, within the bounds of its policy and has room
	// (Accepted), is in the registry (Programmed), is loaded by every live replica (Enforced), and
	// all three (Ready), and whether it has not ended (Active). Stalled, Reconciling and Warnings
	// are present only while they are true. At most 8.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that the conditions apply to. Defaults to
	// -1: the controller has not processed the exception yet.
	//
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// RateLimitException is other numbers, or an exemption, for one key of a policy until a time.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ratelimitexceptions,scope=Namespaced,shortName=rlex,categories=weir
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.policy`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.spec.until`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.conditions[?(@.type=="Active")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Key",type=string,priority=1,JSONPath=`.spec.key`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="Why the exception is Ready or not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RateLimitException struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired behavior of the exception.
	//
	// +required
	Spec RateLimitExceptionSpec `json:"spec"`

	// status is the observed state. Defaults to an observedGeneration of -1, so that
	// tools do not take an exception that was not processed yet for a current one.
	//
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status RateLimitExceptionStatus `json:"status,omitzero"`
}

// RateLimitExceptionList is a list of RateLimitException objects.
//
// +kubebuilder:object:root=true
type RateLimitExceptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// Items are the exceptions of the list.
	Items []RateLimitException `json:"items"`
}
