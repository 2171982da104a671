// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Types of the conditions of a RateLimitPolicy and of a RateLimitKeyGroup, whose keys take the place of the plan.
// Each has the observedGeneration that it
// applies to.
const (
	// ConditionAccepted is true when the policy compiles to a plan.
	ConditionAccepted = "Accepted"

	// ConditionProgrammed is true when the plan of this generation is in the
	// registry.
	ConditionProgrammed = "Programmed"

	// ConditionEnforced is true when every live replica enforces the plan of this
	// generation.
	ConditionEnforced = "Enforced"

	// ConditionReady is true when Accepted, Programmed and Enforced are all true and ResolvedRefs is absent.
	// A generation that was Ready stays so while ResolvedRefs is Unknown.
	ConditionReady = "Ready"

	// ConditionStalled is present, and true, only while the policy needs a change of its
	// spec or of its Namespace.
	ConditionStalled = "Stalled"

	// ConditionReconciling is present, and true, only while the rollout of this
	// generation is in progress.
	ConditionReconciling = "Reconciling"

	// ConditionWired reports whether requests reach the policy. It is present only on policies that
	// select requests by matches or targetRefs, and does not count for Ready.
	ConditionWired = "Wired"

	// ConditionResolvedRefs is present only while an object that targetRefs name is missing: Unknown for a
	// minute, from its lastTransitionTime on, then False.
	ConditionResolvedRefs = "ResolvedRefs"

	// ConditionActive reports whether a RateLimitException has not ended. It does not count for Ready.
	ConditionActive = "Active"

	// ConditionWarnings is present, and true, only while the policy is valid and probably a
	// mistake. The message has the warnings about the policy alone; those about several policies
	// are in the report of kubectl weir check.
	ConditionWarnings = "Warnings"
)

// ReasonProbableMistake is the reason of ConditionWarnings.
const ReasonProbableMistake = "ProbableMistake"

// Reasons of ConditionAccepted.
const (
	// ReasonAccepted: the policy compiles.
	ReasonAccepted = "Accepted"

	// ReasonInvalidSpec: the spec is invalid, for example a CEL expression that does
	// not compile. The last plan that compiled stays enforced.
	ReasonInvalidSpec = "InvalidSpec"

	// ReasonNotSupported: this version of Weir does not support a feature that the
	// policy uses. The last plan that compiled stays enforced.
	ReasonNotSupported = "NotSupported"

	// ReasonOverBudget: the policy needs more of the budget of its Namespace, or of all, than
	// is left. Its last accepted plan, if any, stays enforced.
	ReasonOverBudget = "OverBudget"

	// ReasonMatchNotPermitted: the policy matches domains or hosts outside the grant of
	// its Namespace. Its plan is removed.
	ReasonMatchNotPermitted = "MatchNotPermitted"

	// ReasonPolicyNotFound: the RateLimitPolicy that an exception names does not exist, or is not in the
	// Namespaces of this installation. The exception is accepted once it does.
	ReasonPolicyNotFound = "PolicyNotFound"

	// ReasonPolicyNotAccepted: the RateLimitPolicy that an exception names is not accepted, so
	// the exception cannot be judged. What runs stays.
	ReasonPolicyNotAccepted = "PolicyNotAccepted"

	// ReasonNotPermitted: the exception is outside spec.exceptions of its policy. It is removed.
	ReasonNotPermitted = "NotPermitted"
)

// Reasons of ConditionActive.
const (
	// ReasonActive: the exception has not ended.
	ReasonActive = "Active"

	// ReasonExpired: the exception has ended.
	ReasonExpired = "Expired"
)

// Reasons of ConditionProgrammed.
const (
	// ReasonProgrammed: the plan of this generation is in the registry.
	ReasonProgrammed = "Programmed"

	// ReasonNotAccepted: this generation has no plan because the policy is not
	// accepted.
	ReasonNotAccepted = "NotAccepted"

	// ReasonPublishing: the plan is being written to the registry.
	ReasonPublishing = "Publishing"

	// ReasonRegistryUnreachable: Redis does not answer, so the content of the registry
	// is unknown. Also a reason of ConditionEnforced.
	ReasonRegistryUnreachable = "RegistryUnreachable"

	// ReasonRegistryOwnedElsewhere: another installation owns the registry and is
	// alive, so nothing is written to it.
	ReasonRegistryOwnedElsewhere = "RegistryOwnedElsewhere"
)

// Reasons of ConditionEnforced.
const (
	// ReasonEnforced: every live replica enforces the plan of this generation.
	ReasonEnforced = "Enforced"

	// ReasonNoReplicas: no replica is alive, so no request is decided.
	ReasonNoReplicas = "NoReplicas"

	// ReasonReplicasBehind: at least one live replica has not loaded the plan yet.
	ReasonReplicasBehind = "ReplicasBehind"

	// ReasonReplicasTooOld: a live replica belongs to an earlier release that cannot read the plan of
	// the policy. The other replicas enforce it.
	ReasonReplicasTooOld = "ReplicasTooOld"

	// ReasonNotProgrammed: the plan of this generation is not in the registry, so no
	// replica can enforce it.
	ReasonNotProgrammed = "NotProgrammed"
)

// Reasons of ConditionReady. When it is not true, its message starts with the reason of
// the first other condition that is not true.
const (
	// ReasonReady: the policy is accepted, programmed and enforced.
	ReasonReady = "Ready"

	// ReasonNotReady: at least one of these three is not true, and one of the conditions is false.
	ReasonNotReady = "NotReady"

	// ReasonPending: at least one of these three is unknown, and none of the conditions is false. If the three
	// are true and a target is missing, the reason is ReasonTargetNotFound.
	ReasonPending = "Pending"
)

// Reasons of ConditionWired.
const (
	// ReasonTrafficSeen: a check has applied to the policy since its matches and targetRefs changed, and
	// since the last bypass.
	ReasonTrafficSeen = "TrafficSeen"

	// ReasonNoTraffic: no check has applied to the policy since then.
	ReasonNoTraffic = "NoTraffic"

	// ReasonTargetNotFound: a Gateway, route, listener or rule that targetRefs name does not exist. Also a
	// reason of ConditionResolvedRefs and ConditionReady, which do not count objects that Weir cannot read.
	ReasonTargetNotFound = "TargetNotFound"

	// ReasonBypassed: a SecurityPolicy of Envoy Gateway keeps requests of a target from Weir.
	ReasonBypassed = "Bypassed"
)
