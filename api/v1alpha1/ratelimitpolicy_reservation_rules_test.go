// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import "strings"

// reservationRules are the rules of reservations, late charges and Concurrency.
var reservationRules = map[string]rule{
	"reservations with counting Attempts": {
		good:    reservations(`{maxTTL: 1m}`, `counting: Admitted`, aLimit),
		bad:     reservations(`{maxTTL: 1m}`, `counting: Attempts`, aLimit),
		field:   "spec.reservations",
		message: "reservations need counting Admitted",
	},
	"reservations with Suppressed": {
		good: reservations(`{maxTTL: 1m}`, `mode: Enforce`,
			`{name: a, algorithm: GCRA, threshold: 5, window: 1m}`, `{name: b, algorithm: SlidingWindow, threshold: 5, window: 1m}`),
		bad: reservations(`{maxTTL: 1m}`, `mode: Enforce`,
			aLimit, `{name: b, algorithm: Suppressed, threshold: 5, window: 1m}`),
		field:   "spec.reservations",
		message: "reservations need limits that do not use Suppressed",
	},
	"Concurrency without reservations": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     limits(`{name: a, algorithm: Concurrency, threshold: 5}`),
		field:   "spec.reservations",
		message: "reservations must be set when a limit uses Concurrency",
	},
	"Concurrency with a window": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5, window: 1s}`),
		field:   "spec.limits[0].window",
		message: "window must not be set when algorithm is Concurrency",
	},
	"Concurrency with a calendar": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5, calendar: {period: Day}}`),
		field:   "spec.limits[0].calendar",
		message: "calendar needs algorithm FixedWindow",
	},
	"Concurrency with a burst": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5, burst: 2}`),
		field:   "spec.limits[0].burst",
		message: "burst needs algorithm TokenBucket or GCRA",
	},
	"Concurrency with a bucket": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5, bucket: 1s}`),
		field:   "spec.limits[0].bucket",
		message: "bucket needs algorithm SlidingWindow or Suppressed",
	},
	"Concurrency with a blockDuration": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5, blockDuration: 1m}`),
		field:   "spec.limits[0].blockDuration",
		message: "blockDuration must not be set when algorithm is Concurrency",
	},
	"Concurrency with a blockDurations": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 5, blockDurations: [1m], escalationWindow: 1h}`),
		field:   "spec.limits[0].blockDurations",
		message: "blockDurations must not be set when algorithm is Concurrency",
	},
	"a window of an override for Concurrency": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce, overrides: [{name: o, when: "true", limits: [{name: a, threshold: 9}]}]`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce, overrides: [{name: o, when: "true", limits: [{name: a, window: 1s}]}]`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		field:   "spec.overrides",
		message: "window of an override needs a limit with a window",
	},
	"a blockDuration of an override for Concurrency": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce, overrides: [{name: o, when: "true", limits: [{name: a, threshold: 9}]}]`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce, overrides: [{name: o, when: "true", limits: [{name: a, blockDuration: 1s}]}]`, `{name: a, algorithm: Concurrency, threshold: 5}`),
		field:   "spec.overrides",
		message: "blockDuration of an override needs a limit that does not use Concurrency",
	},
	"a threshold of Concurrency above 2147483647": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 2147483647}`),
		bad:     reservations(`{maxTTL: 1m}`, `mode: Enforce`, `{name: a, algorithm: Concurrency, threshold: 2147483648}`),
		field:   "spec.limits[0].threshold",
		message: "threshold must be at most 2147483647 unless algorithm is FixedWindow",
	},
	"reservations without maxTTL": {
		good:    reservations(`{maxTTL: 1m}`, `mode: Enforce`, aLimit),
		bad:     reservations(`{maxOpen: 5}`, `mode: Enforce`, aLimit),
		field:   "spec.reservations.maxTTL",
		message: "Required value",
	},
	"a maxTTL below 1s": {
		good:    reservations(`{maxTTL: 1s}`, `mode: Enforce`, aLimit),
		bad:     reservations(`{maxTTL: 999ms}`, `mode: Enforce`, aLimit),
		field:   "spec.reservations.maxTTL",
		message: "maxTTL must be between 1s and 24h",
	},
	"a maxTTL above 24h": {
		good:    reservations(`{maxTTL: 24h}`, `mode: Enforce`, aLimit),
		bad:     reservations(`{maxTTL: 24h1ms}`, `mode: Enforce`, aLimit),
		field:   "spec.reservations.maxTTL",
		message: "maxTTL must be between 1s and 24h",
	},
	"a maxOpen of 0": {
		good:    reservations(`{maxTTL: 1m, maxOpen: 1}`, `mode: Enforce`, aLimit),
		bad:     reservations(`{maxTTL: 1m, maxOpen: 0}`, `mode: Enforce`, aLimit),
		field:   "spec.reservations.maxOpen",
		message: "should be greater than or equal to 1",
	},
	"a maxOpen above 100000": {
		good:    reservations(`{maxTTL: 1m, maxOpen: 100000}`, `mode: Enforce`, aLimit),
		bad:     reservations(`{maxTTL: 1m, maxOpen: 100001}`, `mode: Enforce`, aLimit),
		field:   "spec.reservations.maxOpen",
		message: "should be less than or equal to 100000",
	},
	"a cost without an expression": {
		good:    reservations(`{maxTTL: 1m, cost: {cel: response.code}}`, `mode: Enforce`, aLimit),
		bad:     reservations(`{maxTTL: 1m, cost: {}}`, `mode: Enforce`, aLimit),
		field:   "spec.reservations.cost.cel",
		message: "Required value",
	},
	"a cost with an empty expression": {
		good:    reservations(`{maxTTL: 1m, cost: {cel: "1"}}`, `mode: Enforce`, aLimit),
		bad:     reservations(`{maxTTL: 1m, cost: {cel: ""}}`, `mode: Enforce`, aLimit),
		field:   "spec.reservations.cost.cel",
		message: "should be at least 1 chars long",
	},
	"a cost with a long expression": {
		good:    reservations(`{maxTTL: 1m, cost: {cel: "`+strings.Repeat("1", 1024)+`"}}`, `mode: Enforce`, aLimit),
		bad:     reservations(`{maxTTL: 1m, cost: {cel: "`+strings.Repeat("1", 1025)+`"}}`, `mode: Enforce`, aLimit),
		field:   "spec.reservations.cost.cel",
		message: "may not be more than 1024 bytes",
	},
	"a blockOn of another kind": {
		good:    reservations(`{maxTTL: 1m, blockOn: Commit}`, `mode: Enforce`, aLimit),
		bad:     reservations(`{maxTTL: 1m, blockOn: Denial}`, `mode: Enforce`, aLimit),
		field:   "spec.reservations.blockOn",
		message: `supported values: "Refusal", "Commit"`,
	},
	"lateCharges from 1": {
		good:    `{lateCharges: {from: 2}, ` + limits(aLimit)[1:],
		bad:     `{lateCharges: {from: 1}, ` + limits(aLimit)[1:],
		field:   "spec.lateCharges.from",
		message: "should be greater than or equal to 2",
	},
	"lateCharges from 2147483648": {
		good:    `{lateCharges: {from: 2147483647}, ` + limits(aLimit)[1:],
		bad:     `{lateCharges: {from: 2147483648}, ` + limits(aLimit)[1:],
		field:   "spec.lateCharges.from",
		message: "should be less than or equal to 2147483647",
	},
	"lateCharges without from": {
		good:    `{lateCharges: {from: 1000}, ` + limits(aLimit)[1:],
		bad:     `{lateCharges: {}, ` + limits(aLimit)[1:],
		field:   "spec.lateCharges.from",
		message: "Required value",
	},
}
