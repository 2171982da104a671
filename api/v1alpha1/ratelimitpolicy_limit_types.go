// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Duration is a length of time in the format of GEP-2257: one to four whole numbers,
// each with the unit h, m, s or ms, such as "1h30m" or "500ms".
//
// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
// +kubebuilder:validation:MaxLength=24
type Duration string

// Limit is one algorithm with its numbers.
//
// +kubebuilder:validation:XValidation:rule="self.algorithm != 'SlidingLog' || self.threshold <= 100000",fieldPath=".threshold",message="threshold must be at most 100000 when algorithm is SlidingLog"
// +kubebuilder:validation:XValidation:rule="!(self.algorithm in ['SlidingWindow', 'Suppressed']) || duration(self.window) >= duration('2ms')",fieldPath=".window",message="window must be at least 2ms when algorithm is SlidingWindow or Suppressed"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || self.algorithm in ['TokenBucket', 'GCRA']",fieldPath=".burst",message="burst needs algorithm TokenBucket or GCRA"
// +kubebuilder:validation:XValidation:rule="!has(self.bucket) || self.algorithm in ['SlidingWindow', 'Suppressed']",fieldPath=".bucket",message="bucket needs algorithm SlidingWindow or Suppressed"
// +kubebuilder:validation:XValidation:rule="!has(self.bucket) || duration(self.window).getMilliseconds() <= 1000 * duration(self.bucket).getMilliseconds() && 2 * duration(self.bucket).getMilliseconds() <= duration(self.window).getMilliseconds()",fieldPath=".bucket",message="bucket must be between a thousandth and a half of window"
// +kubebuilder:validation:XValidation:rule="!has(self.hardLimitPercent) || self.algorithm == 'Suppressed'",fieldPath=".hardLimitPercent",message="hardLimitPercent needs algorithm Suppressed"
type Limit struct {
	// name identifies the limit in responses, metrics and overrides. A DNS label of 1
	// to 63 lower-case letters, digits and dashes, unique in the policy. Renaming a
	// limit resets its counters, except with SlidingLog.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must be a DNS label: lower-case letters, digits and inner dashes"
	Name string `json:"name"`

	// algorithm is how the limit counts. FixedWindow admits threshold units per
	// window. SlidingLog admits them in any interval of the length of the window.
	// SlidingWindow does the same approximately, with buckets. TokenBucket refills
	// threshold units per window and holds up to burst. GCRA spaces units evenly.
	// Suppressed denies a random share of the load above the threshold.
	//
	// +required
	Algorithm Algorithm `json:"algorithm"`

	// threshold is the number of units that one key may spend per window, 1 to
	// 2147483647; at most 100000 with SlidingLog. A change applies to the next
	// decision and keeps the counters.
	//
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Threshold int64 `json:"threshold"`

	// window is the length of time that the threshold applies to, 1ms to 720h; at
	// least 2ms with SlidingWindow and Suppressed. A change resets the counters of the
	// limit, except with SlidingLog.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('720h')",message="window must be between 1ms and 720h"
	Window Duration `json:"window"`

	// burst is the number of units that are admitted at once, 1 to 2147483647. Only
	// with TokenBucket, where it defaults to threshold, and GCRA, where it defaults
	// to 1.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Burst *int64 `json:"burst,omitempty"`

	// bucket is the length of the intervals that are counted together, from a
	// thousandth to a half of window. Smaller buckets are more exact and take more
	// memory. Only with SlidingWindow and Suppressed. Defaults to a sixtieth of
	// window. A change resets the counters of the limit.
	//
	// +optional
	Bucket Duration `json:"bucket,omitempty"`

	// hardLimitPercent is the most that is ever admitted per window, in percent of
	// threshold, 101 to 1000. Only with Suppressed. Defaults to 150.
	//
	// +optional
	// +kubebuilder:validation:Minimum=101
	// +kubebuilder:validation:Maximum=1000
	HardLimitPercent *int32 `json:"hardLimitPercent,omitempty"`

	// warnAt is the share of the quota, in percent from 1 to 100, from which on answers
	// report the limit as near, and a metric counts that a key gets there. It denies
	// nothing. A change keeps the counters.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	WarnAt *int32 `json:"warnAt,omitempty"`

	// blockDuration is how long the policy denies every request of a key after this
	// limit denied one, 1ms to 720h. A later denial never shortens or restarts a block.
	// Without it a denial starts no block.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('720h')",message="blockDuration must be between 1ms and 720h"
	BlockDuration Duration `json:"blockDuration,omitempty"`
}

// Override changes how the policy treats the callers that it selects. All selectors
// that are set (keys, cidrs, when) must match, and at least one must be set.
//
// +kubebuilder:validation:XValidation:rule="has(self.keys) || has(self.cidrs) || has(self.when)",message="every override must set at least one of keys, cidrs and when"
// +kubebuilder:validation:XValidation:rule="has(self.action) && self.action != 'Limit' || has(self.limits)",fieldPath=".limits",message="limits must be set when action is Limit"
// +kubebuilder:validation:XValidation:rule="!has(self.action) || self.action == 'Limit' || !has(self.limits)",fieldPath=".limits",message="limits must not be set when action is Allow or Deny"
type Override struct {
	// name identifies the override in responses and logs. A DNS label of 1 to 63
	// lower-case letters, digits and dashes, unique in the policy.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must be a DNS label: lower-case letters, digits and inner dashes"
	Name string `json:"name"`

	// keys are the values of the key that the override selects, compared exactly. Only
	// in a policy whose key has one part. At most 256 entries of 1 to 255 characters.
	// Without entries any key matches.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Keys []string `json:"keys,omitempty"`

	// cidrs are IPv4 or IPv6 networks; the client address must be in one of them. At
	// most 256 entries. Without entries any address matches.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=49
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="cidrs must be networks in CIDR form, such as 10.0.0.0/8 or 2001:db8::/32"
	CIDRs []string `json:"cidrs,omitempty"`

	// when is a CEL expression over the request that must yield true. An expression
	// that fails at run time counts as false. At most 1024 characters. Without it any
	// caller matches.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	When string `json:"when,omitempty"`

	// action is what happens to the selected callers. Limit applies the policy with the
	// numbers in limits. Allow exempts them from this policy, even during a block. Deny
	// denies all their requests. Defaults to Limit.
	//
	// +optional
	Action OverrideAction `json:"action,omitempty"`

	// limits are the changed numbers of limits of the policy, by name. Required when
	// action is Limit, not allowed otherwise. At most 16 entries. A limit that is not
	// named keeps its numbers.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Limits []LimitOverride `json:"limits,omitempty"`
}

// LimitOverride changes the numbers of one limit. Fields that are not set keep the
// value of the limit.
type LimitOverride struct {
	// name is the name of the limit in the policy. 1 to 63 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// threshold replaces the threshold of the limit, with the same bounds: 1 to
	// 2147483647; at most 100000 with SlidingLog. Defaults to that of the limit.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Threshold *int64 `json:"threshold,omitempty"`

	// burst replaces the burst of a limit that uses TokenBucket or GCRA, 1 to
	// 2147483647. Defaults to that of the limit.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Burst *int64 `json:"burst,omitempty"`

	// window replaces the window of the limit, 1ms to 720h; a bucket the limit sets
	// must lie between a thousandth and a half of it. Defaults to that of the limit.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('720h')",message="window must be between 1ms and 720h"
	Window Duration `json:"window,omitempty"`

	// blockDuration replaces the blockDuration of the limit, 1ms to 720h. Defaults
	// to that of the limit.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('720h')",message="blockDuration must be between 1ms and 720h"
	BlockDuration Duration `json:"blockDuration,omitempty"`
}

// Denial configures the response to a denied request.
type Denial struct {
	// code is the machine-readable code of the denial: RateLimited, or TooManyAttempts
	// for authentication and verification. Defaults to RateLimited.
	//
	// +optional
	Code DenialCode `json:"code,omitempty"`

	// message is the text for users; the time to wait is appended. At most 255
	// characters. Defaults to a general message for the code.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Message string `json:"message,omitempty"`
}
