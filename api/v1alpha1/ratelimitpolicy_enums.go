// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Mode says what a policy does to the requests it applies to.
//
// +kubebuilder:validation:Enum=Enforce;Shadow;Disabled
type Mode string

const (
	// ModeEnforce refuses requests over a limit.
	ModeEnforce Mode = "Enforce"

	// ModeShadow evaluates and counts as ModeEnforce would, and never refuses.
	ModeShadow Mode = "Shadow"

	// ModeDisabled matches nothing and counts nothing.
	ModeDisabled Mode = "Disabled"
)

// KeyPartType names the source of one part of the key.
//
// +kubebuilder:validation:Enum=Header;RemoteAddress;Descriptor;Principal;Expression
type KeyPartType string

const (
	// KeyPartHeader takes the value of a request header.
	KeyPartHeader KeyPartType = "Header"

	// KeyPartRemoteAddress takes the network of the client address.
	KeyPartRemoteAddress KeyPartType = "RemoteAddress"

	// KeyPartDescriptor takes the value of an Envoy rate limit descriptor entry.
	KeyPartDescriptor KeyPartType = "Descriptor"

	// KeyPartPrincipal takes the identity of the authenticated caller.
	KeyPartPrincipal KeyPartType = "Principal"

	// KeyPartExpression takes the result of a CEL expression.
	KeyPartExpression KeyPartType = "Expression"
)

// OnMissingKey says what happens to a request that lacks a part of the key.
//
// +kubebuilder:validation:Enum=Share;Skip;Deny
type OnMissingKey string

const (
	// OnMissingKeyShare lets all requests that lack a part share one budget.
	OnMissingKeyShare OnMissingKey = "Share"

	// OnMissingKeySkip exempts such a request from the policy.
	OnMissingKeySkip OnMissingKey = "Skip"

	// OnMissingKeyDeny refuses such a request.
	OnMissingKeyDeny OnMissingKey = "Deny"
)

// Algorithm names how one limit counts.
//
// +kubebuilder:validation:Enum=FixedWindow;SlidingLog;SlidingWindow;TokenBucket;GCRA;Suppressed
type Algorithm string

const (
	// AlgorithmFixedWindow admits the quota once per window, which starts at the
	// first hit.
	AlgorithmFixedWindow Algorithm = "FixedWindow"

	// AlgorithmSlidingLog admits the quota in any interval as long as the window,
	// exactly.
	AlgorithmSlidingLog Algorithm = "SlidingLog"

	// AlgorithmSlidingWindow is AlgorithmSlidingLog counted in buckets: less
	// memory, and up to one bucket too strict.
	AlgorithmSlidingWindow Algorithm = "SlidingWindow"

	// AlgorithmTokenBucket lets bursts pass from a bucket that refills
	// continuously.
	AlgorithmTokenBucket Algorithm = "TokenBucket"

	// AlgorithmGCRA spaces admissions evenly.
	AlgorithmGCRA Algorithm = "GCRA"

	// AlgorithmSuppressed sheds a random share of the load above the threshold.
	AlgorithmSuppressed Algorithm = "Suppressed"
)

// Counting says which checks spend from the limits.
//
// +kubebuilder:validation:Enum=Admitted;Attempts
type Counting string

const (
	// CountingAdmitted spends only for requests that are admitted.
	CountingAdmitted Counting = "Admitted"

	// CountingAttempts spends for every request that meets no live block.
	CountingAttempts Counting = "Attempts"
)

// DenyWhen says whether the request that reaches the threshold still passes.
//
// +kubebuilder:validation:Enum=ThresholdExceeded;ThresholdReached
type DenyWhen string

const (
	// DenyWhenThresholdExceeded lets as many units pass as the threshold says.
	DenyWhenThresholdExceeded DenyWhen = "ThresholdExceeded"

	// DenyWhenThresholdReached refuses the unit that reaches the threshold.
	DenyWhenThresholdReached DenyWhen = "ThresholdReached"
)

// OverrideAction says what an override does to the requests it selects.
//
// +kubebuilder:validation:Enum=Limit;Allow;Deny
type OverrideAction string

const (
	// OverrideActionLimit applies the limits with other numbers.
	OverrideActionLimit OverrideAction = "Limit"

	// OverrideActionAllow exempts from the policy, even under a live block.
	OverrideActionAllow OverrideAction = "Allow"

	// OverrideActionDeny refuses.
	OverrideActionDeny OverrideAction = "Deny"
)

// FailureMode says how a policy decides while Redis cannot answer in time.
//
// +kubebuilder:validation:Enum=Open;Closed;Local
type FailureMode string

const (
	// FailureModeOpen admits.
	FailureModeOpen FailureMode = "Open"

	// FailureModeClosed refuses.
	FailureModeClosed FailureMode = "Closed"

	// FailureModeLocal limits in each replica with its share of the threshold.
	FailureModeLocal FailureMode = "Local"
)

// DenialCode is the machine-readable code of a refusal.
//
// +kubebuilder:validation:Enum=RateLimited;TooManyAttempts
type DenialCode string

const (
	// DenialCodeRateLimited is the code of ordinary rate limits.
	DenialCodeRateLimited DenialCode = "RateLimited"

	// DenialCodeTooManyAttempts is the code for authentication and verification.
	DenialCodeTooManyAttempts DenialCode = "TooManyAttempts"
)
