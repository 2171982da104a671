// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Duration is a length of time in the format of GEP-2257: one to four whole numbers,
// each with the unit h, m, s or ms, such as "1h30m" or "500ms".
//
// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,4}[dw]|[0-9]{0,4}[.][0-9]{1,3}[hms])$')",message="durations have no days, weeks and fractions: write 168h for 7d",messageExpression="self.contains('.') ? '%s: write %d%s'.format([self, self.endsWith('h') ? duration(self).getMinutes() : self.endsWith('m') ? duration(self).getSeconds() : duration(self).getMilliseconds(), self.endsWith('h') ? 'm' : self.endsWith('m') ? 's' : 'ms']) : '%s: write %dh'.format([self, int(self.substring(0, self.size() - 1)) * (self.endsWith('d') ? 24 : 168)])"
// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
// +kubebuilder:validation:MaxLength=24
type Duration string

// Limit is one algorithm with its numbers.
//
// +kubebuilder:validation:XValidation:rule="self.algorithm == 'FixedWindow' || self.threshold <= 2147483647",fieldPath=".threshold",message="threshold must be at most 2147483647 unless algorithm is FixedWindow"
// +kubebuilder:validation:XValidation:rule="self.algorithm != 'SlidingLog' || self.threshold <= 100000",fieldPath=".threshold",message="threshold must be at most 100000 when algorithm is SlidingLog"
// +kubebuilder:validation:XValidation:rule="self.algorithm == 'Concurrency' || has(self.window) != has(self.calendar)",message="exactly one of window and calendar must be set"
// +kubebuilder:validation:XValidation:rule="self.algorithm != 'Concurrency' || !has(self.window)",fieldPath=".window",message="window must not be set when algorithm is Concurrency"
// +kubebuilder:validation:XValidation:rule="!has(self.calendar) || self.algorithm == 'FixedWindow'",fieldPath=".calendar",message="calendar needs algorithm FixedWindow"
// +kubebuilder:validation:XValidation:rule="!(self.algorithm in ['SlidingWindow', 'Suppressed']) || !has(self.window) || duration(self.window) >= duration('2ms')",fieldPath=".window",message="window must be at least 2ms when algorithm is SlidingWindow or Suppressed"
// +kubebuilder:validation:XValidation:rule="self.algorithm == 'FixedWindow' || !has(self.window) || self.window.matches('[dw]$') || duration(self.window) <= duration('720h')",fieldPath=".window",message="window must be at most 720h unless algorithm is FixedWindow"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || self.algorithm in ['TokenBucket', 'GCRA']",fieldPath=".burst",message="burst needs algorithm TokenBucket or GCRA"
// +kubebuilder:validation:XValidation:rule="!has(self.bucket) || self.algorithm in ['SlidingWindow', 'Suppressed']",fieldPath=".bucket",message="bucket needs algorithm SlidingWindow or Suppressed"
// +kubebuilder:validation:XValidation:rule="!has(self.bucket) || !has(self.window) || duration(self.window).getMilliseconds() <= 1000 * duration(self.bucket).getMilliseconds() && 2 * duration(self.bucket).getMilliseconds() <= duration(self.window).getMilliseconds()",fieldPath=".bucket",message="bucket must be between a thousandth and a half of window"
// +kubebuilder:validation:XValidation:rule="!has(self.hardLimitPercent) || self.algorithm == 'Suppressed'",fieldPath=".hardLimitPercent",message="hardLimitPercent needs algorithm Suppressed"
// +kubebuilder:validation:XValidation:rule="!has(self.blockDurations) || !has(self.blockDuration)",fieldPath=".blockDurations",message="blockDurations and blockDuration must not both be set"
// +kubebuilder:validation:XValidation:rule="has(self.blockDurations) == has(self.escalationWindow)",fieldPath=".escalationWindow",message="escalationWindow must be set with blockDurations, and only then"
// +kubebuilder:validation:XValidation:rule="self.algorithm != 'Concurrency' || !has(self.blockDuration)",fieldPath=".blockDuration",message="blockDuration must not be set when algorithm is Concurrency"
// +kubebuilder:validation:XValidation:rule="self.algorithm != 'Concurrency' || !has(self.blockDurations)",fieldPath=".blockDurations",message="blockDurations must not be set when algorithm is Concurrency"
// +kubebuilder:validation:XValidation:rule="!has(self.candidate) || !has(self.candidate.threshold) || self.algorithm == 'FixedWindow' || self.candidate.threshold <= 2147483647",fieldPath=".candidate.threshold",message="threshold of the candidate must be at most 2147483647 unless algorithm is FixedWindow"
// +kubebuilder:validation:XValidation:rule="!has(self.candidate) || !has(self.candidate.threshold) || self.algorithm != 'SlidingLog' || self.candidate.threshold <= 100000",fieldPath=".candidate.threshold",message="threshold of the candidate must be at most 100000 when algorithm is SlidingLog"
// +kubebuilder:validation:XValidation:rule="!has(self.candidate) || !has(self.candidate.burst) || self.algorithm in ['TokenBucket', 'GCRA']",fieldPath=".candidate.burst",message="burst of the candidate needs algorithm TokenBucket or GCRA"
// +kubebuilder:validation:XValidation:rule="!has(self.candidate) || !has(self.candidate.window) || has(self.window)",fieldPath=".candidate.window",message="window of the candidate needs a limit with a window"
// +kubebuilder:validation:XValidation:rule="!has(self.candidate) || !has(self.candidate.window) || !(self.algorithm in ['SlidingWindow', 'Suppressed']) || duration(self.candidate.window) >= duration('2ms')",fieldPath=".candidate.window",message="window of the candidate must be at least 2ms when algorithm is SlidingWindow or Suppressed"
// +kubebuilder:validation:XValidation:rule="self.algorithm == 'FixedWindow' || !has(self.candidate) || !has(self.candidate.window) || duration(self.candidate.window) <= duration('720h')",fieldPath=".candidate.window",message="window of the candidate must be at most 720h unless algorithm is FixedWindow"
// +kubebuilder:validation:XValidation:rule="!has(self.candidate) || !has(self.candidate.window) || !has(self.bucket) || duration(self.candidate.window).getMilliseconds() <= 1000 * duration(self.bucket).getMilliseconds() && 2 * duration(self.bucket).getMilliseconds() <= duration(self.candidate.window).getMilliseconds()",fieldPath=".candidate.window",message="window of the candidate must be between 2 and 1000 times bucket"
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
	// Suppressed denies a random share of the load above the threshold. Concurrency
	// admits threshold units at once, which reservations hold; it needs reservations.
	//
	// +required
	Algorithm Algorithm `json:"algorithm"`

	// threshold is the number of units that one key may spend per window or period, or
	// hold at once with Concurrency: 1 to 2147483647; at most 1000000000000 with FixedWindow, so that a unit can be a
	// millionth of a dollar, and at most 100000 with SlidingLog. A change applies to the
	// next decision and keeps the counters.
	//
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000000
	Threshold int64 `json:"threshold"`

	// window is the length of time that the threshold applies to, 1ms to 720h, or to 8784h (366
	// days) with FixedWindow; at least 2ms with SlidingWindow and Suppressed. Required without calendar, not allowed
	// with it or with Concurrency. A change resets the counters of the limit, except with SlidingLog.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('[dw]$') || duration(self) >= duration('1ms') && duration(self) <= duration('8784h')",message="window must be between 1ms and 8784h"
	Window Duration `json:"window,omitempty"`

	// calendar applies the threshold to every hour, day, week or month of a time zone, in
	// place of window. Only with FixedWindow. A change resets the counters of the limit.
	//
	// +optional
	Calendar *Calendar `json:"calendar,omitempty"`

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
	// Without it a denial starts no block. Not allowed with Concurrency.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('[dw]$') || duration(self) >= duration('1ms') && duration(self) <= duration('720h')",message="blockDuration must be between 1ms and 720h"
	BlockDuration Duration `json:"blockDuration,omitempty"`

	// blockDurations are the lengths of the first, second and further blocks that this limit
	// starts for a key, in place of blockDuration: 1 to 8 entries of 1ms to 720h, none shorter
	// than the one before. Further blocks have the last length. If several limits deny a
	// request, the longest of their current lengths applies and each counts the block.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(d, duration(d) >= duration('1ms') && duration(d) <= duration('720h'))",message="blockDurations must be between 1ms and 720h"
	// +kubebuilder:validation:XValidation:rule="self.map(d, duration(d)).isSorted()",message="blockDurations must not become shorter"
	BlockDurations []Duration `json:"blockDurations,omitempty"`

	// escalationWindow is how long after the end of its last block the limit forgets how many
	// it has started, 1ms to 720h. Required with blockDurations, not allowed without.
	// Unblocking or resetting a key forgets them, too.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('[dw]$') || duration(self) >= duration('1ms') && duration(self) <= duration('720h')",message="escalationWindow must be between 1ms and 720h"
	EscalationWindow Duration `json:"escalationWindow,omitempty"`

	// candidate is other numbers for this limit, to try them out. Requests are judged by them
	// too, with counters of their own, and a metric compares the verdicts. The candidate denies
	// nothing. A change applies to the next decision and keeps its counters; a change of window
	// resets them, except with SlidingLog.
	//
	// +optional
	Candidate *Candidate `json:"candidate,omitempty"`
}

// Candidate is the numbers of a limit that are to be tried out. At least one must be set.
//
// +kubebuilder:validation:MinProperties=1
type Candidate struct {
	// threshold is tried in place of the threshold of the limit, with the same bounds: 1 to
	// 2147483647; at most 1000000000000 with FixedWindow and 100000 with SlidingLog. Defaults to
	// the value of the limit.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000000
	Threshold *int64 `json:"threshold,omitempty"`

	// burst is tried in place of the burst of a limit that uses TokenBucket or GCRA, 1 to
	// 2147483647. Defaults to the value of the limit; a TokenBucket without a burst follows the
	// threshold of the candidate.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Burst *int64 `json:"burst,omitempty"`

	// window is tried in place of the window of the limit, within the same bounds; a bucket the limit sets
	// must lie between a thousandth and a half of it. Not allowed for a limit with a calendar or
	// with Concurrency. Defaults to the value of the limit.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('[dw]$') || duration(self) >= duration('1ms') && duration(self) <= duration('8784h')",message="window must be between 1ms and 8784h"
	Window Duration `json:"window,omitempty"`
}

// Calendar is the hours, days, weeks or months of a time zone.
//
// +kubebuilder:validation:XValidation:rule="!has(self.startWeekday) || self.period == 'Week'",fieldPath=".startWeekday",message="startWeekday needs period Week"
// +kubebuilder:validation:XValidation:rule="!has(self.startDay) || self.period == 'Month'",fieldPath=".startDay",message="startDay needs period Month"
type Calendar struct {
	// period is the unit: Hour, Day, Week or Month. A day has 23 or 25 hours when the
	// clocks change. Every period ends at its boundary, whenever its first unit is spent.
	//
	// +required
	Period CalendarPeriod `json:"period"`

	// timeZone is the name of the zone in the tz database whose clock divides time, such as
	// Europe/Berlin. 1 to 36 characters. Defaults to UTC.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=36
	TimeZone string `json:"timeZone,omitempty"`

	// startWeekday is the first day of a week: Monday to Sunday. Only with period Week.
	// Defaults to Monday.
	//
	// +optional
	StartWeekday Weekday `json:"startWeekday,omitempty"`

	// startDay is the first day of a month, 1 to 28, so that every month has it. Only with
	// period Month. Defaults to 1.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=28
	StartDay *int32 `json:"startDay,omitempty"`
}

// Override changes how the policy treats the callers that it selects. All selectors
// that are set (keys, groups, cidrs, when) must match, and at least one must be set.
//
// +kubebuilder:validation:XValidation:rule="has(self.keys) || has(self.groups) || has(self.cidrs) || has(self.when)",message="every override must set at least one of keys, groups, cidrs and when"
// +kubebuilder:validation:XValidation:rule="!has(self.groups) || !has(self.keys) && !has(self.cidrs) && !has(self.when)",fieldPath=".groups",message="groups must be the only selector of an override"
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

	// keys are the values of the key that the override selects, compared exactly. Where
	// the key is the client address, an address in any spelling stands for the network
	// that the policy counts as one client. Only in a policy whose key has one part. At
	// most 256 entries of 1 to 255 characters. Without entries any key matches.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Keys []string `json:"keys,omitempty"`

	// groups are names of groups of keys, which RateLimitKeyGroups of the Namespace hold; the key must be
	// in one of them. Only in a policy whose key has one part, and without other selectors. At most 16
	// distinct DNS labels of 1 to 63 lower-case letters, digits and dashes. A group without a
	// RateLimitKeyGroup has no keys. Without entries any key matches.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self.all(g, self.exists_one(o, o == g))",message="every entry of groups must be unique"
	Groups []string `json:"groups,omitempty"`

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
	// 2147483647; at most 1000000000000 with FixedWindow and 100000 with SlidingLog.
	// Defaults to the value of the limit.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000000
	Threshold *int64 `json:"threshold,omitempty"`

	// burst replaces the burst of a limit that uses TokenBucket or GCRA, 1 to
	// 2147483647. Defaults to the value of the limit.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Burst *int64 `json:"burst,omitempty"`

	// window replaces the window of the limit, within the same bounds; a bucket the limit sets
	// must lie between a thousandth and a half of it. Not allowed for a limit with a
	// calendar. Defaults to the value of the limit.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('[dw]$') || duration(self) >= duration('1ms') && duration(self) <= duration('8784h')",message="window must be between 1ms and 8784h"
	Window Duration `json:"window,omitempty"`

	// blockDuration replaces the blockDuration or the blockDurations of the limit, 1ms to
	// 720h. Defaults to the values of the limit.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('[dw]$') || duration(self) >= duration('1ms') && duration(self) <= duration('720h')",message="blockDuration must be between 1ms and 720h"
	BlockDuration Duration `json:"blockDuration,omitempty"`
}

// Reservations bounds the reservations that the policy takes.
type Reservations struct {
	// maxTTL is the longest that a reservation stays open without being renewed, 1s to 24h.
	// One that is not committed in time is spent at its estimate.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="self.matches('[dw]$') || duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="maxTTL must be between 1s and 24h"
	MaxTTL Duration `json:"maxTTL"`

	// maxOpen is the largest number of open reservations of one key, 1 to 100000. Each takes
	// about 100 bytes in Redis. Defaults to 1000.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxOpen *int32 `json:"maxOpen,omitempty"`

	// cost makes the cost of a commit follow from the outcome of the request, such as 1 for a failed
	// login and else 0. Without it commits name their cost.
	//
	// +optional
	Cost OutcomeCost `json:"cost,omitzero"`

	// blockOn is what starts the block of a limit with blockDuration or blockDurations. With Refusal a
	// denial does. With Commit a commit above 0 does that leaves the limit without unspent units;
	// denials and reservations that end start none. Defaults to Refusal.
	//
	// +optional
	BlockOn BlockOn `json:"blockOn,omitempty"`
}

// Slices bounds the slices of a policy.
type Slices struct {
	// maxPercent is the most that all slices of one key hold together, in percent of the smallest
	// threshold or burst of the policy, 1 to 50.
	//
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	MaxPercent int32 `json:"maxPercent"`

	// maxAge is how long a replica spends from a slice, 500ms to 10s, and at most a twentieth of the
	// shortest window, or of the shortest time in which a burst refills. The rest of a slice then
	// returns to the quota; the slice of a replica that crashed counts as spent.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="self.matches('[dw]$') || duration(self) >= duration('500ms') && duration(self) <= duration('10s')",message="maxAge must be between 500ms and 10s"
	MaxAge Duration `json:"maxAge"`
}

// OutcomeCost is the cost of a request by its outcome.
type OutcomeCost struct {
	// cel is a CEL expression over response.code, the status of the response as an int, 0 if it is
	// unknown, up to 999. It must yield an int, for each code 0 to 1000000000000: the units to
	// spend. 1 to 1024 characters.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	CEL string `json:"cel"`
}

// LateCharges makes large hits of Envoy's rate limit service charges.
type LateCharges struct {
	// from is the smallest number of hits that is a charge, 2 to 2147483647. Fewer hits are
	// checks.
	//
	// +required
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=2147483647
	From int64 `json:"from"`
}

// DenialHeader is a header of a denied response.
type DenialHeader struct {
	// name of the header: 1 to 64 letters, digits, - and _. Names that Weir sets, such as
	// Retry-After and Content-Type, names that concern the connection, Set-Cookie and Location are
	// rejected.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
	Name string `json:"name"`

	// value of the header, at most 255 characters of printable ASCII.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[ -~]+$`
	Value string `json:"value"`
}

// DenialBody is the body of a denied response.
type DenialBody struct {
	// contentType of the body: text/html, text/plain, application/json or
	// application/problem+json. Texts are UTF-8.
	//
	// +required
	ContentType DenialContentType `json:"contentType"`

	// template of the body, at most 4096 characters. {{retryAfter}} is the time to wait in whole
	// seconds, {{policy}} the policy that denied, {{limit}} its limit, each escaped for the type;
	// at most 16 of them in all. For the types of JSON the result must be JSON.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Template string `json:"template"`
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

	// status of responses by forward-auth and ext_authz in place of 429: 403, 429 or 503. Like
	// headers and body, it concerns denials by limits and blocks.
	//
	// +optional
	// +kubebuilder:validation:Enum=403;429;503
	// +kubebuilder:validation:Minimum=403
	// +kubebuilder:validation:Maximum=503
	Status int32 `json:"status,omitempty"`

	// headers that responses by forward-auth, ext_authz and Envoy's rate limit service have beside
	// the headers of Weir. At most 8, each name once.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Headers []DenialHeader `json:"headers,omitempty"`

	// body of these responses in place of the problem document.
	//
	// +optional
	Body *DenialBody `json:"body,omitempty"`
}
