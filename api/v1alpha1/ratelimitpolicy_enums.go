// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Mode is what a policy does to the requests it applies to.
//
// +kubebuilder:validation:Enum=Enforce;Shadow;Disabled
type Mode string

const (
	// ModeEnforce denies requests over a limit.
	ModeEnforce Mode = "Enforce"

	// ModeShadow evaluates and counts like ModeEnforce but never denies.
	ModeShadow Mode = "Shadow"

	// ModeDisabled matches nothing and counts nothing.
	ModeDisabled Mode = "Disabled"
)

// ValueMatchType is how a match compares a value of the request.
//
// +kubebuilder:validation:Enum=Exact;Present
type ValueMatchType string

const (
	// ValueMatchExact requires one value.
	ValueMatchExact ValueMatchType = "Exact"

	// ValueMatchPresent accepts any value.
	ValueMatchPresent ValueMatchType = "Present"
)

// EntryMatchType is how a match compares the value of an entry of a descriptor.
//
// +kubebuilder:validation:Enum=Exact;Present;Prefix
type EntryMatchType string

const (
	// EntryMatchExact requires one value.
	EntryMatchExact EntryMatchType = "Exact"

	// EntryMatchPresent accepts any value.
	EntryMatchPresent EntryMatchType = "Present"

	// EntryMatchPrefix requires the beginning of the value.
	EntryMatchPrefix EntryMatchType = "Prefix"
)

// OtherEntries is whether a descriptor may have entries that a match does not name.
//
// +kubebuilder:validation:Enum=Allowed;Forbidden
type OtherEntries string

const (
	// OtherEntriesAllowed accepts descriptors with other entries.
	OtherEntriesAllowed OtherEntries = "Allowed"

	// OtherEntriesForbidden requires that each entry of the descriptor is one that the
	// match names, and that there are as many.
	OtherEntriesForbidden OtherEntries = "Forbidden"
)

// KeyPartType is the source of one part of the key.
//
// +kubebuilder:validation:Enum=Header;Cookie;QueryParameter;Claim;RemoteAddress;Descriptor;Principal;Expression
type KeyPartType string

const (
	// KeyPartHeader takes the value of a request header.
	KeyPartHeader KeyPartType = "Header"

	// KeyPartCookie takes the value of a cookie.
	KeyPartCookie KeyPartType = "Cookie"

	// KeyPartQueryParameter takes the value of a parameter of the query.
	KeyPartQueryParameter KeyPartType = "QueryParameter"

	// KeyPartClaim takes the value of a claim of a JSON Web Token.
	KeyPartClaim KeyPartType = "Claim"

	// KeyPartRemoteAddress takes the network of the client address.
	KeyPartRemoteAddress KeyPartType = "RemoteAddress"

	// KeyPartDescriptor takes the value of an Envoy rate limit descriptor entry.
	KeyPartDescriptor KeyPartType = "Descriptor"

	// KeyPartPrincipal takes the identity of the authenticated caller.
	KeyPartPrincipal KeyPartType = "Principal"

	// KeyPartExpression takes the result of a CEL expression.
	KeyPartExpression KeyPartType = "Expression"
)

// BlockOn is what starts the block of a limit.
//
// +kubebuilder:validation:Enum=Refusal;Commit
type BlockOn string

const (
	// BlockOnRefusal starts a block when the limit denies a check.
	BlockOnRefusal BlockOn = "Refusal"

	// BlockOnCommit starts a block when a commit fills the limit.
	BlockOnCommit BlockOn = "Commit"
)

// OnMissingKey is what happens to a request without a part of the key.
//
// +kubebuilder:validation:Enum=Share;Skip;Deny
type OnMissingKey string

const (
	// OnMissingKeyShare counts all requests without a part in one shared budget.
	OnMissingKeyShare OnMissingKey = "Share"

	// OnMissingKeySkip exempts such a request from the policy.
	OnMissingKeySkip OnMissingKey = "Skip"

	// OnMissingKeyDeny denies such a request.
	OnMissingKeyDeny OnMissingKey = "Deny"
)

// Algorithm is how one limit counts.
//
// +kubebuilder:validation:Enum=FixedWindow;SlidingLog;SlidingWindow;TokenBucket;GCRA;Suppressed;Concurrency
type Algorithm string

const (
	// AlgorithmFixedWindow admits the quota once per window, which starts at the
	// first hit.
	AlgorithmFixedWindow Algorithm = "FixedWindow"

	// AlgorithmSlidingLog admits exactly the quota in any interval of the length of the
	// window.
	AlgorithmSlidingLog Algorithm = "SlidingLog"

	// AlgorithmSlidingWindow is AlgorithmSlidingLog counted in buckets: it takes less
	// memory and is up to one bucket too strict.
	AlgorithmSlidingWindow Algorithm = "SlidingWindow"

	// AlgorithmTokenBucket admits bursts from a bucket that refills continuously.
	AlgorithmTokenBucket Algorithm = "TokenBucket"

	// AlgorithmGCRA spaces admissions evenly.
	AlgorithmGCRA Algorithm = "GCRA"

	// AlgorithmSuppressed sheds a random share of the load above the threshold.
	AlgorithmSuppressed Algorithm = "Suppressed"

	// AlgorithmConcurrency admits a number of units at once: those that reservations hold.
	AlgorithmConcurrency Algorithm = "Concurrency"
)

// Counting is which checks spend from the limits.
//
// +kubebuilder:validation:Enum=Admitted;Attempts
type Counting string

const (
	// CountingAdmitted spends only for requests that are admitted.
	CountingAdmitted Counting = "Admitted"

	// CountingAttempts spends for every request that is not blocked.
	CountingAttempts Counting = "Attempts"
)

// DenyWhen is whether the unit that reaches the threshold is admitted or denied.
//
// +kubebuilder:validation:Enum=ThresholdExceeded;ThresholdReached
type DenyWhen string

const (
	// DenyWhenThresholdExceeded admits threshold units.
	DenyWhenThresholdExceeded DenyWhen = "ThresholdExceeded"

	// DenyWhenThresholdReached denies the unit that reaches the threshold.
	DenyWhenThresholdReached DenyWhen = "ThresholdReached"
)

// OverrideAction is what an override does to the requests it selects.
//
// +kubebuilder:validation:Enum=Limit;Allow;Deny
type OverrideAction string

const (
	// OverrideActionLimit applies the limits with the numbers of the override.
	OverrideActionLimit OverrideAction = "Limit"

	// OverrideActionAllow exempts the requests from the policy, even during a block.
	OverrideActionAllow OverrideAction = "Allow"

	// OverrideActionDeny denies the requests.
	OverrideActionDeny OverrideAction = "Deny"
)

// FailureMode is how a policy decides while Redis does not answer in time.
//
// +kubebuilder:validation:Enum=Open;Closed;Local
type FailureMode string

const (
	// FailureModeOpen allows every request.
	FailureModeOpen FailureMode = "Open"

	// FailureModeClosed denies every request.
	FailureModeClosed FailureMode = "Closed"

	// FailureModeLocal limits in each replica with its share of the thresholds.
	FailureModeLocal FailureMode = "Local"
)

// DenialContentType is the type of the body of a denied response.
//
// +kubebuilder:validation:Enum=text/html;text/plain;application/json;application/problem+json
type DenialContentType string

// The values of DenialContentType.
const (
	DenialContentTypeHTML    DenialContentType = "text/html"
	DenialContentTypeText    DenialContentType = "text/plain"
	DenialContentTypeJSON    DenialContentType = "application/json"
	DenialContentTypeProblem DenialContentType = "application/problem+json"
)

// DenialCode is the machine-readable code of a denial.
//
// +kubebuilder:validation:Enum=RateLimited;TooManyAttempts
type DenialCode string

const (
	// DenialCodeRateLimited is the code of ordinary rate limits.
	DenialCodeRateLimited DenialCode = "RateLimited"

	// DenialCodeTooManyAttempts is the code for authentication and verification.
	DenialCodeTooManyAttempts DenialCode = "TooManyAttempts"
)

// CalendarPeriod is the unit of a calendar.
//
// +kubebuilder:validation:Enum=Hour;Day;Week;Month
type CalendarPeriod string

const (
	// CalendarPeriodHour begins when the clock shows a full hour.
	CalendarPeriodHour CalendarPeriod = "Hour"

	// CalendarPeriodDay begins with a date.
	CalendarPeriodDay CalendarPeriod = "Day"

	// CalendarPeriodWeek begins with its first day.
	CalendarPeriodWeek CalendarPeriod = "Week"

	// CalendarPeriodMonth begins with its first day.
	CalendarPeriodMonth CalendarPeriod = "Month"
)

// Weekday is a day of the week.
//
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type Weekday string
