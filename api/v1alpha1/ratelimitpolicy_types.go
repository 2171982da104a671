// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// RateLimitPolicySpec is the desired behavior of a RateLimitPolicy.
//
// +kubebuilder:validation:XValidation:rule="self.counting != 'Attempts' || self.limits.all(l, l.algorithm in ['FixedWindow', 'SlidingLog', 'SlidingWindow'])",fieldPath=".counting",message="counting Attempts needs every limit to use FixedWindow, SlidingLog or SlidingWindow"
// +kubebuilder:validation:XValidation:rule="self.denyWhen != 'ThresholdReached' || self.limits.all(l, l.algorithm in ['FixedWindow', 'SlidingLog', 'SlidingWindow'])",fieldPath=".denyWhen",message="denyWhen ThresholdReached needs every limit to use FixedWindow, SlidingLog or SlidingWindow"
// +kubebuilder:validation:XValidation:rule="self.denyWhen != 'ThresholdReached' || self.limits.all(l, l.threshold >= 2)",fieldPath=".limits",message="threshold of every limit must be at least 2 when denyWhen is ThresholdReached"
// +kubebuilder:validation:XValidation:rule="self.denyWhen != 'ThresholdReached' || self.limits.all(l, !has(l.candidate) || !has(l.candidate.threshold) || l.candidate.threshold >= 2)",fieldPath=".limits",message="threshold of every candidate must be at least 2 when denyWhen is ThresholdReached"
// +kubebuilder:validation:XValidation:rule="!has(self.reservations) || self.counting == 'Admitted'",fieldPath=".reservations",message="reservations need counting Admitted"
// +kubebuilder:validation:XValidation:rule="!has(self.reservations) || !self.limits.exists(l, l.algorithm == 'Suppressed')",fieldPath=".reservations",message="reservations need limits that do not use Suppressed"
// +kubebuilder:validation:XValidation:rule="has(self.reservations) || !self.limits.exists(l, l.algorithm == 'Concurrency')",fieldPath=".reservations",message="reservations must be set when a limit uses Concurrency"
// +kubebuilder:validation:XValidation:rule="!has(self.slices) || !has(self.reservations)",fieldPath=".slices",message="slices must not be set together with reservations"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.keys)) || has(self.key) && self.key.size() == 1",fieldPath=".overrides",message="keys of an override need a key of exactly one part"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.groups)) || has(self.key) && self.key.size() == 1",fieldPath=".overrides",message="groups of an override need a key of exactly one part"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.limits) || o.limits.all(l, self.limits.exists(b, b.name == l.name)))",fieldPath=".overrides",message="limits of an override must name entries of the policy's limits",messageExpression="'limits of an override must name entries of the policy\\'s limits, but overrides[%d].limits[%d] names %s'.format([self.overrides.map(o, has(o.limits) && !o.limits.all(l, self.limits.exists(b, b.name == l.name))).indexOf(true), self.overrides.map(o, has(o.limits) ? o.limits.map(l, self.limits.exists(b, b.name == l.name)).indexOf(false) : -1).filter(i, i >= 0)[0], self.overrides.map(o, has(o.limits) ? o.limits.filter(l, !self.limits.exists(b, b.name == l.name)).map(l, l.name) : []).filter(n, n.size() > 0)[0][0]])"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.limits) || o.limits.all(l, !has(l.burst) || self.limits.all(b, b.name != l.name || b.algorithm in ['TokenBucket', 'GCRA'])))",fieldPath=".overrides",message="burst of an override needs a limit that uses TokenBucket or GCRA"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.limits) || o.limits.all(l, !has(l.threshold) || l.threshold <= 100000 || self.limits.all(b, b.name != l.name || b.algorithm != 'SlidingLog')))",fieldPath=".overrides",message="threshold of an override must be at most 100000 for a limit that uses SlidingLog"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.limits) || o.limits.all(l, !has(l.threshold) || l.threshold <= 2147483647 || self.limits.all(b, b.name != l.name || b.algorithm == 'FixedWindow')))",fieldPath=".overrides",message="threshold of an override must be at most 2147483647 unless the limit uses FixedWindow"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.denyWhen != 'ThresholdReached' || self.overrides.all(o, !has(o.limits) || o.limits.all(l, !has(l.threshold) || l.threshold >= 2))",fieldPath=".overrides",message="threshold of an override must be at least 2 when denyWhen is ThresholdReached"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.limits) || o.limits.all(l, !has(l.window) || self.limits.all(b, b.name != l.name || has(b.window))))",fieldPath=".overrides",message="window of an override needs a limit with a window"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.limits) || o.limits.all(l, !has(l.window) || self.limits.all(b, b.name != l.name || !(b.algorithm in ['SlidingWindow', 'Suppressed']) || duration(l.window) >= duration('2ms'))))",fieldPath=".overrides",message="window of an override must be at least 2ms for a limit that uses SlidingWindow or Suppressed"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.limits) || o.limits.all(l, !has(l.window) || duration(l.window) <= duration('720h') || self.limits.all(b, b.name != l.name || b.algorithm == 'FixedWindow')))",fieldPath=".overrides",message="window of an override must be at most 720h unless the limit uses FixedWindow"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.limits) || o.limits.all(l, !has(l.window) || self.limits.all(b, b.name != l.name || !has(b.bucket) || duration(l.window).getMilliseconds() <= 1000 * duration(b.bucket).getMilliseconds() && 2 * duration(b.bucket).getMilliseconds() <= duration(l.window).getMilliseconds())))",fieldPath=".overrides",message="window of an override must be between 2 and 1000 times the bucket of the limit"
// +kubebuilder:validation:XValidation:rule="!has(self.overrides) || self.overrides.all(o, !has(o.limits) || o.limits.all(l, !has(l.blockDuration) || self.limits.all(b, b.name != l.name || b.algorithm != 'Concurrency')))",fieldPath=".overrides",message="blockDuration of an override needs a limit that does not use Concurrency"
type RateLimitPolicySpec struct {
	// mode is what the policy does to the requests it applies to. Enforce denies those
	// over a limit. Shadow evaluates and counts exactly like Enforce but never denies,
	// to try out a policy. Disabled matches nothing and counts nothing. Defaults to
	// Enforce.
	//
	// +optional
	// +kubebuilder:default=Enforce
	Mode Mode `json:"mode,omitempty"`

	// targetRefs are Gateways and routes of the Gateway API in the Namespace of the policy: it
	// applies to requests that came through one of them. With sectionName a reference
	// selects one listener of the Gateway, or one named rule of the route. If matches
	// are given too, both must hold, and hosts and domains need no grant. Several policies
	// that name a route, or its Gateway, all apply. At most 16 distinct
	// entries. Without entries only matches select. A check that names the policy ignores
	// targetRefs.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.group == 'gateway.networking.k8s.io' && r.kind in ['Gateway', 'HTTPRoute', 'GRPCRoute'])",message="targetRefs must have the group gateway.networking.k8s.io and the kind Gateway, HTTPRoute or GRPCRoute"
	// +kubebuilder:validation:XValidation:rule="self.all(r, self.exists_one(o, o.kind == r.kind && o.name == r.name && (has(o.sectionName) ? o.sectionName : '') == (has(r.sectionName) ? r.sectionName : '')))",message="every entry of targetRefs must be unique"
	TargetRefs []gatewayv1.LocalPolicyTargetReferenceWithSectionName `json:"targetRefs,omitempty"`

	// matches selects the requests that the policy applies to: at least one entry must
	// match. At most 16 entries. Without entries, and without targetRefs, the policy applies only to
	// checks that name it. A check that names the policy ignores matches.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Matches []Match `json:"matches,omitempty"`

	// key is whose budget a request spends from: requests with the same values in all
	// parts, in order, share one budget. At most 8 parts. Without a key all requests
	// share one budget.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Key []KeyPart `json:"key,omitempty"`

	// onMissingKey is what happens to a request with an absent or empty part of the
	// key. Share counts all such requests in one common budget, separate from the budget of
	// every value. Skip exempts them from the policy. Deny denies them. Defaults to
	// Share.
	//
	// +optional
	// +kubebuilder:default=Share
	OnMissingKey OnMissingKey `json:"onMissingKey,omitempty"`

	// limits are the limits of each key, decided together in one atomic step: a request
	// is allowed only if it fits all of them. 1 to 16 entries with distinct names. If
	// several limits deny a request, the first is reported.
	//
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Limits []Limit `json:"limits"`

	// counting is which checks spend from the limits. With Admitted a denied check
	// spends nothing. With Attempts every check counts unless its key is blocked; this
	// requires limits that use FixedWindow, SlidingLog or SlidingWindow. Defaults to
	// Admitted.
	//
	// +optional
	// +kubebuilder:default=Admitted
	Counting Counting `json:"counting,omitempty"`

	// denyWhen is which unit is the first denied. With ThresholdExceeded, threshold
	// units are admitted. With ThresholdReached the unit that reaches the threshold is
	// denied; this requires limits that use FixedWindow, SlidingLog or SlidingWindow,
	// with thresholds of at least 2. Defaults to ThresholdExceeded.
	//
	// +optional
	// +kubebuilder:default=ThresholdExceeded
	DenyWhen DenyWhen `json:"denyWhen,omitempty"`

	// reservations lets callers reserve units before a request whose cost is known only when it
	// ends, and commit the actual cost then. It requires counting Admitted and limits that do
	// not use Suppressed. Without it reserve calls spend one unit of the policy.
	//
	// +optional
	Reservations Reservations `json:"reservations,omitzero"`

	// slices lets each replica of Weir take units of a key from Redis in advance and spend them by
	// itself. Such checks do not wait for Redis, and admissions still never exceed a limit. The
	// price: units in the slices of other replicas may deny a check early, for about maxAge. For
	// large shared quotas, not for limits against abuse. It requires counting Admitted, limits
	// that start no blocks and do not use Suppressed or Concurrency, and no reservations. Without it
	// Redis decides every check.
	//
	// +optional
	Slices Slices `json:"slices,omitzero"`

	// lateCharges makes large hits of Envoy's rate limit service charges: they are spent whatever
	// the limits admit, because the request they belong to has been served already. Without it all
	// hits are checks. It has no effect on calls over HTTP.
	//
	// +optional
	LateCharges LateCharges `json:"lateCharges,omitzero"`

	// overrides change how the policy treats some callers. The first entry whose selectors all
	// match is used, the others are ignored. At most 64 entries with distinct names.
	// Without entries every caller has the same limits.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(o, self.exists_one(p, p.name == o.name))",message="name of every override must be unique"
	Overrides []Override `json:"overrides,omitempty"`

	// exceptions are the RateLimitExceptions that the policy accepts. Without it they may change
	// thresholds and bursts up to 10 times, and may not exempt keys.
	//
	// +optional
	Exceptions ExceptionBounds `json:"exceptions,omitzero"`

	// failureMode is how the policy decides while Redis does not answer in time. Open
	// allows every request. Closed denies every request. Local limits inside each
	// replica: thresholds and bursts are divided by the number of live replicas and
	// rounded up, and counters start empty. Where several policies apply, any Closed
	// denies, then Local decides, then Open allows. Defaults to Open.
	//
	// +optional
	// +kubebuilder:default=Open
	FailureMode FailureMode `json:"failureMode,omitempty"`

	// denial configures the response to a denied request. Without it the code is
	// RateLimited and the message a general one.
	//
	// +optional
	Denial Denial `json:"denial,omitzero"`

	// Unsupported names the fields of the decoded object that this release does not know, or whose value it
	// does not know, as "limits[0].x: unknown field": a later release stored them. Such an object is not
	// accepted. It is not part of the resource.
	Unsupported []string `json:"-"`
}

// SelectsRequests reports whether the policy applies to requests. Otherwise it applies only to checks that name it.
func (s *RateLimitPolicySpec) SelectsRequests() bool { return len(s.Matches)+len(s.TargetRefs) > 0 }

// RateLimitPolicyStatus is the observed state of a RateLimitPolicy.
type RateLimitPolicyStatus struct {
	// conditions report whether the policy compiles (Accepted), is in the registry
	// (Programmed), is enforced by every live replica (Enforced), and all three, with
	// targets that exist (Ready). Wired reports whether requests reach a policy with matches
	// or targetRefs. Stalled, Reconciling and Warnings are present only while they are true,
	// ResolvedRefs only while it is not. At most 8.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that the conditions apply to. Defaults to
	// -1: the controller has not processed the policy yet.
	//
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// enforcedGeneration is the generation in force: the last one that every live replica
	// enforced. It is lower than observedGeneration while an edit is not accepted or not
	// enforced yet. 0 after the plan was removed because the policy is not accepted. Absent
	// until a generation was enforced. It is written only together with another change of
	// the status.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	EnforcedGeneration *int64 `json:"enforcedGeneration,omitempty"`

	// summary is the limits of the generation in force in one line, such as "burst 5/1m,
	// daily 20/24h", and until when the policy is in Shadow by an annotation. While no
	// generation is in force, it shows the limits of the spec. At most 2048 characters. Empty until
	// the controller has processed the policy.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Summary string `json:"summary,omitempty"`

	// lastHandledReconcileAt is the value of the annotation
	// ratelimit.weir.dev/reconcile-requested-at that the conditions take into account:
	// a changed value forces a pass. At most 255 characters; of a longer value the
	// first 255. Empty until a pass was requested.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=255
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// wiredSelectors is a hash of the matches and targetRefs under which a check has applied to
	// the policy: Wired stays true until they change. At most 64 characters. Empty after a bypass,
	// absent until the first check.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	WiredSelectors *string `json:"wiredSelectors,omitempty"`
}

// ReconcileRequestedAtAnnotation forces a pass over the policy whenever its value changes,
// usually to the current time. The status echoes it in lastHandledReconcileAt.
const ReconcileRequestedAtAnnotation = "ratelimit.weir.dev/reconcile-requested-at"

// ShadowUntilAnnotation makes a policy in mode Enforce behave as in mode Shadow until the time in
// RFC 3339 that is its value, at most 24 hours ahead. Unlike an edit of spec.mode it ends by
// itself, and GitOps tools do not revert it.
const ShadowUntilAnnotation = "ratelimit.weir.dev/shadow-until"

// MaxLastHandledReconcileAt is the length of status.lastHandledReconcileAt, in characters.
const MaxLastHandledReconcileAt = 255

// RateLimitPolicy is a rate limit: it selects requests, the key whose budget each of
// them spends from, and the limits of that budget.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="gateway.networking.k8s.io/policy=Inherited"
// +kubebuilder:resource:path=ratelimitpolicies,scope=Namespaced,shortName=rlpol,categories=weir
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Limits",type=string,JSONPath=`.status.summary`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Enforced",type=string,JSONPath=`.status.conditions[?(@.type=="Enforced")].status`
// +kubebuilder:printcolumn:name="Wired",type=string,JSONPath=`.status.conditions[?(@.type=="Wired")].status`
// +kubebuilder:printcolumn:name="In Force",type=integer,priority=1,JSONPath=`.status.enforcedGeneration`,description="Generation in force"
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="Why the policy is Ready or not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RateLimitPolicy struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired behavior of the policy.
	//
	// +required
	Spec RateLimitPolicySpec `json:"spec"`

	// status is the observed state. Defaults to an observedGeneration of -1, so that
	// tools do not take a policy that was not processed yet for a current one.
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
