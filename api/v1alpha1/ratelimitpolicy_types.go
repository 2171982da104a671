// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

// Duration is a length of time as GEP-2257 writes it: one to four whole numbers,
// each with a unit of h, m, s or ms, such as "1h30m" or "500ms".
//
// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
// +kubebuilder:validation:MaxLength=24
type Duration string

// RateLimitPolicySpec is the desired behaviour of a RateLimitPolicy.
//
// +kubebuilder:validation:XValidation:rule="self.counting != 'Attempts' || self.limits.all(l, l.algorithm in ['FixedWindow', 'SlidingLog', 'SlidingWindow'])",fieldPath=".counting",message="counting Attempts needs every limit to use FixedWindow, SlidingLog or SlidingWindow"
// +kubebuilder:validation:XValidation:rule="self.denyWhen != 'ThresholdReached' || self.limits.all(l, l.algorithm in ['FixedWindow', 'SlidingLog', 'SlidingWindow'])",fieldPath=".denyWhen",message="denyWhen ThresholdReached needs every limit to use FixedWindow, SlidingLog or SlidingWindow"
// +kubebuilder:validation:XValidation:rule="self.denyWhen != 'ThresholdReached' || self.limits.all(l, l.threshold >= 2)",fieldPath=".limits",message="threshold of every limit must be at least 2 when denyWhen is ThresholdReached"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.keys)) || has(self.key) && self.key.size() == 1",fieldPath=".overrides",message="keys of an override need a key of exactly one part"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.limits) || o.limits.all(l, self.limits.exists(b, b.name == l.name)))",fieldPath=".overrides",message="limits of an override must name entries of the policy's limits"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.limits) || o.limits.all(l, !has(l.burst) || self.limits.all(b, b.name != l.name || b.algorithm in ['TokenBucket', 'GCRA'])))",fieldPath=".overrides",message="burst of an override needs a limit that uses TokenBucket or GCRA"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.limits) || o.limits.all(l, !has(l.threshold) || l.threshold <= 100000 || self.limits.all(b, b.name != l.name || b.algorithm != 'SlidingLog')))",fieldPath=".overrides",message="threshold of an override must be at most 100000 for a limit that uses SlidingLog"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.denyWhen != 'ThresholdReached' || self.overrides.all(o, !has(o.limits) || o.limits.all(l, !has(l.threshold) || l.threshold >= 2))",fieldPath=".overrides",message="threshold of an override must be at least 2 when denyWhen is ThresholdReached"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.limits) || o.limits.all(l, !has(l.window) || self.limits.all(b, b.name != l.name || !(b.algorithm in ['SlidingWindow', 'Suppressed']) || duration(l.window) >= duration('2ms'))))",fieldPath=".overrides",message="window of an override must be at least 2ms for a limit that uses SlidingWindow or Suppressed"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.limits) || o.limits.all(l, !has(l.window) || self.limits.all(b, b.name != l.name || !has(b.bucket) || duration(l.window).getMilliseconds() <= 1000 * duration(b.bucket).getMilliseconds() && 2 * duration(b.bucket).getMilliseconds() <= duration(l.window).getMilliseconds())))",fieldPath=".overrides",message="window of an override must be between 2 and 1000 times the bucket of the limit"
type RateLimitPolicySpec struct {
	// mode is what the policy does to the requests it applies to. Enforce refuses
	// those over a limit. Shadow evaluates and counts exactly as Enforce would but
	// never refuses, to try a policy out. Disabled matches nothing and counts
	// nothing. Defaults to Enforce.
	//
	// +optional
	// +kubebuilder:default=Enforce
	Mode Mode `json:"mode,omitempty"`

	// matches selects the requests the policy applies to: those for which at least
	// one entry holds. At most 16 entries. Without entries the policy applies only
	// to checks that name it. A check that names the policy skips matches.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Matches []Match `json:"matches,omitempty"`

	// key says whose budget a request spends from: requests with the same values in
	// all parts, in order, share one budget. At most 8 parts. Without a key all
	// requests share one budget.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Key []KeyPart `json:"key,omitempty"`

	// onMissingKey is what happens to a request for which a part of the key is
	// absent or empty. Share counts all of them in one common budget, which no
	// value can name. Skip exempts them from the policy. Deny refuses them.
	// Defaults to Share.
	//
	// +optional
	// +kubebuilder:default=Share
	OnMissingKey OnMissingKey `json:"onMissingKey,omitempty"`

	// limits are what each key may spend, decided together in one atomic step: a
	// request passes only if it fits all of them. 1 to 16 entries with distinct
	// names. Their order decides which of several refusing limits is reported.
	//
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Limits []Limit `json:"limits"`

	// counting is which checks spend from the limits. With Admitted a refused
	// check spends nothing. With Attempts every check counts unless it meets a live
	// block; this needs limits that use FixedWindow, SlidingLog or SlidingWindow.
	// Defaults to Admitted.
	//
	// +optional
	// +kubebuilder:default=Admitted
	Counting Counting `json:"counting,omitempty"`

	// denyWhen is where refusals begin. With ThresholdExceeded as many units pass
	// as the threshold says. With ThresholdReached the unit that reaches the
	// threshold is refused; this needs limits that use FixedWindow, SlidingLog or
	// SlidingWindow, with thresholds of at least 2. Defaults to ThresholdExceeded.
	//
	// +optional
	// +kubebuilder:default=ThresholdExceeded
	DenyWhen DenyWhen `json:"denyWhen,omitempty"`

	// overrides treat some callers differently. The first entry whose selectors all
	// hold is used, the others are ignored. At most 64 entries with distinct names.
	// Without entries every caller has the same limits.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(o, self.exists_one(p, p.name == o.name))",message="name of every override must be unique"
	Overrides []Override `json:"overrides,omitempty"`

	// failureMode is how the policy decides while Redis cannot answer in time. Open
	// admits. Closed refuses. Local limits inside each replica, with the thresholds
	// shared out among the replicas and counts that start empty. Defaults to Open.
	//
	// +optional
	// +kubebuilder:default=Open
	FailureMode FailureMode `json:"failureMode,omitempty"`

	// denial shapes the answer to a refused request. Without it the code is
	// RateLimited and the message a general one.
	//
	// +optional
	Denial Denial `json:"denial,omitzero"`
}

// Match selects requests: every field given must hold, and at least one is given.
//
// +kubebuilder:validation:XValidation:rule="has(self.hosts) || has(self.methods) || has(self.paths) || has(self.when) || has(self.domain) || has(self.descriptors)",message="matches must give at least one of hosts, methods, paths, when, domain and descriptors in every entry"
type Match struct {
	// hosts are the hosts of the request, without port: a lower-case name such as
	// "shop.example", or "*." and a name, which holds for every name below it but
	// not for the name itself. One of them must hold. At most 32 entries of at most
	// 253 characters. Without entries any host holds.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')",message="hosts must be lower-case DNS names, with *. in front to mean every name below"
	Hosts []string `json:"hosts,omitempty"`

	// methods are the HTTP methods of the request, in upper case. One of them must
	// hold. At most 16 entries of at most 32 characters. Without entries any method
	// holds.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[A-Z][-_A-Z0-9]*$')",message="methods must be HTTP methods in upper case"
	Methods []string `json:"methods,omitempty"`

	// paths are the paths of the request after normalisation (no query, no dot
	// segments, no double slashes): an exact path such as "/login", or a prefix
	// followed by "*". One of them must hold. At most 32 entries of at most 255
	// characters. Without entries any path holds.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^/[^*]*[*]?$')",message="paths must start with / and have * at most once, as the last character"
	Paths []string `json:"paths,omitempty"`

	// when is a CEL expression over the request that must yield true. An absent
	// header reads as the empty string. An expression that fails at run time counts
	// as true, so that no request can talk its way out of a limit. At most 1024
	// characters. Without it nothing more is asked.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	When string `json:"when,omitempty"`

	// domain is the Envoy rate limit domain of the request. At most 255 characters.
	// Without it any domain holds, and none at all.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Domain string `json:"domain,omitempty"`

	// descriptors are Envoy descriptor entries that must all be present in one
	// descriptor of the request. At most 16 entries. Without entries any request
	// holds, also one without descriptors.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Descriptors []DescriptorMatch `json:"descriptors,omitempty"`
}

// DescriptorMatch selects one entry of an Envoy rate limit descriptor.
type DescriptorMatch struct {
	// key is the key the entry must have. 1 to 255 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Key string `json:"key"`

	// value is the value the entry must have. At most 255 characters. Without it
	// any value holds.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Value string `json:"value,omitempty"`
}

// KeyPart is one part of the key. Exactly the member that type names is set.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'Header') == has(self.header)",message="header must be set when type is Header, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'RemoteAddress') == has(self.remoteAddress)",message="remoteAddress must be set when type is RemoteAddress, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Descriptor') == has(self.descriptor)",message="descriptor must be set when type is Descriptor, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Principal') == has(self.principal)",message="principal must be set when type is Principal, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Expression') == has(self.expression)",message="expression must be set when type is Expression, and only then"
type KeyPart struct {
	// type is where the value of this part comes from: Header, RemoteAddress,
	// Descriptor, Principal or Expression. The member of that name must be set.
	//
	// +required
	Type KeyPartType `json:"type"`

	// header takes the value of a request header. Only with type Header.
	//
	// +optional
	Header *HeaderKey `json:"header,omitempty"`

	// remoteAddress takes the network of the client address. Only with type
	// RemoteAddress.
	//
	// +optional
	RemoteAddress *RemoteAddressKey `json:"remoteAddress,omitempty"`

	// descriptor takes the value of an entry of the matched Envoy descriptor. Only
	// with type Descriptor.
	//
	// +optional
	Descriptor *DescriptorKey `json:"descriptor,omitempty"`

	// principal takes the authenticated user, the SPIFFE identity or the name in
	// the client certificate. Only with type Principal.
	//
	// +optional
	Principal *PrincipalKey `json:"principal,omitempty"`

	// expression takes the result of a CEL expression. Only with type Expression.
	//
	// +optional
	Expression *ExpressionKey `json:"expression,omitempty"`
}

// HeaderKey takes the value of a request header.
type HeaderKey struct {
	// name is the name of the header, in any case. 1 to 255 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[-!#$%&\x27*+.^_\x60|~0-9A-Za-z]+$')`,message="name must be an HTTP header name"
	Name string `json:"name"`
}

// RemoteAddressKey takes the network of the client address, so that one client
// cannot multiply its budget with the addresses it owns.
type RemoteAddressKey struct {
	// ipv4PrefixLength is how many leading bits of an IPv4 address count, 0 to 32.
	// 0 makes all IPv4 clients one. Defaults to 32, the whole address.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=32
	IPv4PrefixLength *int32 `json:"ipv4PrefixLength,omitempty"`

	// ipv6PrefixLength is how many leading bits of an IPv6 address count, 0 to 128.
	// 0 makes all IPv6 clients one. Defaults to 64, the network a client usually
	// owns.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=128
	IPv6PrefixLength *int32 `json:"ipv6PrefixLength,omitempty"`
}

// DescriptorKey takes the value of a descriptor entry.
type DescriptorKey struct {
	// key is the key of the entry whose value is taken. 1 to 255 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Key string `json:"key"`
}

// PrincipalKey takes the authenticated identity. It has no settings.
type PrincipalKey struct{}

// ExpressionKey takes the result of a CEL expression.
type ExpressionKey struct {
	// cel is the expression over the request; it must yield a string. One that
	// fails at run time is a missing part. 1 to 1024 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	CEL string `json:"cel"`
}

// Limit is one algorithm with its numbers.
//
// +kubebuilder:validation:XValidation:rule="self.algorithm != 'SlidingLog' || self.threshold <= 100000",fieldPath=".threshold",message="threshold must be at most 100000 when algorithm is SlidingLog"
// +kubebuilder:validation:XValidation:rule="!(self.algorithm in ['SlidingWindow', 'Suppressed']) || duration(self.window) >= duration('2ms')",fieldPath=".window",message="window must be at least 2ms when algorithm is SlidingWindow or Suppressed"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || self.algorithm in ['TokenBucket', 'GCRA']",fieldPath=".burst",message="burst needs algorithm TokenBucket or GCRA"
// +kubebuilder:validation:XValidation:rule="!has(self.bucket) || self.algorithm in ['SlidingWindow', 'Suppressed']",fieldPath=".bucket",message="bucket needs algorithm SlidingWindow or Suppressed"
// +kubebuilder:validation:XValidation:rule="!has(self.bucket) || duration(self.window).getMilliseconds() <= 1000 * duration(self.bucket).getMilliseconds() && 2 * duration(self.bucket).getMilliseconds() <= duration(self.window).getMilliseconds()",fieldPath=".bucket",message="bucket must be between a thousandth and a half of window"
// +kubebuilder:validation:XValidation:rule="!has(self.hardLimitPercent) || self.algorithm == 'Suppressed'",fieldPath=".hardLimitPercent",message="hardLimitPercent needs algorithm Suppressed"
type Limit struct {
	// name identifies the limit in answers, metrics and overrides. A DNS label of 1
	// to 63 lower-case letters, digits and dashes, unique in the policy. Renaming a
	// limit starts its counts afresh.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must be a DNS label: lower-case letters, digits and inner dashes"
	Name string `json:"name"`

	// algorithm is how the limit counts. FixedWindow admits threshold units per
	// window. SlidingLog admits them in any interval as long as the window.
	// SlidingWindow does the same from buckets. TokenBucket refills threshold units
	// per window and saves up to burst. GCRA spaces units evenly. Suppressed sheds
	// a random share of the load above the threshold.
	//
	// +required
	Algorithm Algorithm `json:"algorithm"`

	// threshold is how many units one key may spend per window, 1 to 2147483647; at
	// most 100000 with SlidingLog. A change applies to the next decision and keeps
	// what has been counted.
	//
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Threshold int64 `json:"threshold"`

	// window is the length of time the threshold speaks of, 1ms to 720h; at least
	// 2ms with SlidingWindow and Suppressed. A change starts the limit afresh.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('720h')",message="window must be between 1ms and 720h"
	Window Duration `json:"window"`

	// burst is how many units may pass at once, 1 to 2147483647. Only with
	// TokenBucket, where it defaults to threshold, and GCRA, where it defaults to 1.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Burst *int64 `json:"burst,omitempty"`

	// bucket is how finely time is counted, from a thousandth to a half of window.
	// Smaller is more exact and takes more memory. Only with SlidingWindow and
	// Suppressed. Defaults to a sixtieth of window.
	//
	// +optional
	Bucket Duration `json:"bucket,omitempty"`

	// hardLimitPercent bounds what is ever admitted in a window, in percent of
	// threshold, 101 to 1000. Only with Suppressed. Defaults to 150.
	//
	// +optional
	// +kubebuilder:validation:Minimum=101
	// +kubebuilder:validation:Maximum=1000
	HardLimitPercent *int32 `json:"hardLimitPercent,omitempty"`

	// blockDuration is how long a key is refused everything by this policy once
	// this limit has refused it, 1ms to 720h. A later refusal never shortens or
	// restarts a block. Without it a refusal starts no block.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('720h')",message="blockDuration must be between 1ms and 720h"
	BlockDuration Duration `json:"blockDuration,omitempty"`
}

// Override treats the callers it selects differently. Every selector given
// (keys, cidrs, when) must hold, and at least one is given.
//
// +kubebuilder:validation:XValidation:rule="has(self.keys) || has(self.cidrs) || has(self.when)",message="overrides must give at least one of keys, cidrs and when in every entry"
// +kubebuilder:validation:XValidation:rule="has(self.action) && self.action != 'Limit' || has(self.limits)",fieldPath=".limits",message="limits must be set when action is Limit"
// +kubebuilder:validation:XValidation:rule="!has(self.action) || self.action == 'Limit' || !has(self.limits)",fieldPath=".limits",message="limits must not be set when action is Allow or Deny"
type Override struct {
	// name identifies the override in answers and logs. A DNS label of 1 to 63
	// lower-case letters, digits and dashes, unique in the policy.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="name must be a DNS label: lower-case letters, digits and inner dashes"
	Name string `json:"name"`

	// keys are the values of the key this override is for, compared exactly. Only
	// in a policy whose key has one part. At most 256 entries of 1 to 255
	// characters. Without entries any key holds.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Keys []string `json:"keys,omitempty"`

	// cidrs are networks, IPv4 or IPv6; the client address must be in one of them.
	// At most 256 entries. Without entries any address holds.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=49
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="cidrs must be networks in CIDR form, such as 10.0.0.0/8 or 2001:db8::/32"
	CIDRs []string `json:"cidrs,omitempty"`

	// when is a CEL expression over the request that must yield true. One that
	// fails at run time counts as false. At most 1024 characters. Without it
	// nothing more is asked.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	When string `json:"when,omitempty"`

	// action is what happens to the selected callers. Limit applies the policy with
	// the numbers in limits. Allow exempts them from this policy, even under a live
	// block. Deny refuses them. Defaults to Limit.
	//
	// +optional
	Action OverrideAction `json:"action,omitempty"`

	// limits are other numbers for limits of the policy, by name. Needed when
	// action is Limit, not allowed otherwise. At most 16 entries. A limit that is
	// not named keeps its numbers.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Limits []LimitOverride `json:"limits,omitempty"`
}

// LimitOverride gives one limit other numbers. What is not given stays as in the
// limit itself.
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

// Denial shapes the answer to a refused request.
type Denial struct {
	// code is the machine-readable code of the refusal: RateLimited, or
	// TooManyAttempts for authentication and verification. Defaults to RateLimited.
	//
	// +optional
	Code DenialCode `json:"code,omitempty"`

	// message is the sentence people see; the time to wait is added behind it. At
	// most 255 characters. Defaults to a general sentence that fits the code.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Message string `json:"message,omitempty"`
}

// RateLimitPolicyStatus is what the controller has observed of a RateLimitPolicy.
type RateLimitPolicyStatus struct {
	// conditions say whether the policy compiles (Accepted), is in the registry
	// (Programmed), is used by every replica (Enforced) and all three (Ready);
	// Stalled and Reconciling are present only while they are true. At most 8.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation the conditions speak of. Defaults to -1:
	// the policy has not been seen yet.
	//
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// summary is the limits in one line, such as "burst 5/1m, daily 20/24h". At most
	// 2048 characters. Empty until the policy has been seen.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Summary string `json:"summary,omitempty"`
}

// RateLimitPolicy limits how often something may be done: it selects requests,
// says whose budget each spends from, and how much of it there is.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ratelimitpolicies,scope=Namespaced,shortName=rlpol,categories=weir
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Limits",type=string,JSONPath=`.status.summary`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RateLimitPolicy struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired behaviour of the policy.
	//
	// +required
	Spec RateLimitPolicySpec `json:"spec"`

	// status is what the controller has observed. Defaults to an observedGeneration
	// of -1, so that nothing takes a policy nobody has seen for a current one.
	//
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status RateLimitPolicyStatus `json:"status,omitzero"`
}

// RateLimitPolicyList is a list of RateLimitPolicy objects.
//
// +kubebuilder:object:root=true
type RateLimitPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// Items are the policies of the list.
	Items []RateLimitPolicy `json:"items"`
}
