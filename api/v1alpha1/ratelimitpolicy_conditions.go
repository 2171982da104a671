// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Types of the conditions of a RateLimitPolicy. All carry the generation they
// speak of.
const (
	// ConditionAccepted is true when the policy compiles to a plan.
	ConditionAccepted = "Accepted"

	// ConditionProgrammed is true when the plan of this generation is in the
	// registry.
	ConditionProgrammed = "Programmed"

	// ConditionEnforced is true when every live replica decides by the plan of this
	// generation.
	ConditionEnforced = "Enforced"

	// ConditionReady is true when Accepted, Programmed and Enforced all are.
	ConditionReady = "Ready"

	// ConditionStalled is present, and true, only while nothing but a change of the
	// policy or of its Namespace can help.
	ConditionStalled = "Stalled"

	// ConditionReconciling is present, and true, only while the controller is still
	// working towards this generation.
	ConditionReconciling = "Reconciling"
)

// Reasons of ConditionAccepted.
const (
	// ReasonAccepted: the policy compiles.
	ReasonAccepted = "Accepted"

	// ReasonInvalidSpec: the policy says something that cannot work, such as a CEL
	// expression that does not compile. The last plan that compiled stays enforced.
	ReasonInvalidSpec = "InvalidSpec"

	// ReasonNotSupported: the policy asks for something this version of Weir
	// cannot do. The last plan that compiled stays enforced.
	ReasonNotSupported = "NotSupported"

	// ReasonMatchNotPermitted: the policy matches domains or hosts that its
	// Namespace has not been granted. Its plan is withdrawn.
	ReasonMatchNotPermitted = "MatchNotPermitted"
)

// Reasons of ConditionProgrammed.
const (
	// ReasonProgrammed: the plan of this generation is in the registry.
	ReasonProgrammed = "Programmed"

	// ReasonNotAccepted: there is no plan of this generation, because the policy is
	// not accepted.
	ReasonNotAccepted = "NotAccepted"

	// ReasonPublishing: the plan is on its way to the registry.
	ReasonPublishing = "Publishing"

	// ReasonRegistryUnreachable: Redis does not answer, so what it holds is
	// unknown. Also a reason of ConditionEnforced.
	ReasonRegistryUnreachable = "RegistryUnreachable"

	// ReasonRegistryOwnedElsewhere: another installation owns the registry and is
	// alive, so nothing is written to it.
	ReasonRegistryOwnedElsewhere = "RegistryOwnedElsewhere"
)

// Reasons of ConditionEnforced.
const (
	// ReasonEnforced: every live replica decides by the plan of this generation.
	ReasonEnforced = "Enforced"

	// ReasonNoReplicas: no replica is alive, so nothing is decided at all.
	ReasonNoReplicas = "NoReplicas"

	// ReasonReplicasBehind: at least one live replica has not loaded the plan yet.
	ReasonReplicasBehind = "ReplicasBehind"

	// ReasonNotProgrammed: the plan of this generation is not in the registry, so no
	// replica can have it.
	ReasonNotProgrammed = "NotProgrammed"
)

// Reasons of ConditionReady. When it is not true, the reason of the first
// condition that holds it back is in its message.
const (
	// ReasonReady: the policy is accepted, programmed and enforced.
	ReasonReady = "Ready"

	// ReasonNotReady: one of those three is false.
	ReasonNotReady = "NotReady"

	// ReasonPending: none of those three is false, but at least one is not yet
	// known.
	ReasonPending = "Pending"
)
