// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

// overrideRules are the rules of overrides.
var overrideRules = map[string]rule{
	"an override without selectors": {
		good:    overrides(`{name: o, when: 'true', action: Allow}`),
		bad:     overrides(`{name: o, action: Allow}`),
		field:   "spec.overrides[0]",
		message: "every override must set at least one of keys, groups, cidrs and when",
	},
	"two overrides of one name": {
		good:    overrides(`{name: o, when: a, action: Allow}`, `{name: p, when: b, action: Allow}`),
		bad:     overrides(`{name: o, when: a, action: Allow}`, `{name: o, when: b, action: Allow}`),
		field:   "spec.overrides",
		message: "name of every override must be unique",
	},
	"a name of an override that is no DNS label": {
		good:    overrides(`{name: a-1, when: a, action: Allow}`),
		bad:     overrides(`{name: a-, when: a, action: Allow}`),
		field:   "spec.overrides[0].name",
		message: "name must be a DNS label: lower-case letters, digits and inner dashes",
	},
	"more than 64 overrides": {
		good:    overrides(repeat(64, `{name: o%d, when: a, action: Allow}`)),
		bad:     overrides(repeat(65, `{name: o%d, when: a, action: Allow}`)),
		field:   "spec.overrides",
		message: "must have at most 64 items",
	},
	"an override that limits with no limits, by default": {
		good:    overrides(`{name: o, when: a, limits: [{name: log, threshold: 9}]}`),
		bad:     overrides(`{name: o, when: a}`),
		field:   "spec.overrides[0].limits",
		message: "limits must be set when action is Limit",
	},
	"an override that limits with no limits, as said": {
		good:    overrides(`{name: o, when: a, action: Limit, limits: [{name: log, threshold: 9}]}`),
		bad:     overrides(`{name: o, when: a, action: Limit}`),
		field:   "spec.overrides[0].limits",
		message: "limits must be set when action is Limit",
	},
	"an override that allows with limits": {
		good:    overrides(`{name: o, when: a, action: Deny}`),
		bad:     overrides(`{name: o, when: a, action: Deny, limits: [{name: log, threshold: 9}]}`),
		field:   "spec.overrides[0].limits",
		message: "limits must not be set when action is Allow or Deny",
	},
	"an override of a limit that is not there": {
		good:    overrides(`{name: o, when: a, limits: [{name: log}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: other}]}`),
		field:   "spec.overrides",
		message: "limits of an override must name entries of the policy's limits",
	},
	"an override with one limit twice": {
		good:    overrides(`{name: o, when: a, limits: [{name: log}, {name: gcra}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: log}, {name: log}]}`),
		field:   "spec.overrides[0].limits[1]",
		message: "Duplicate value",
	},
	"keys without a key": {
		good:    `{key: [{type: Principal, principal: {}}], ` + overrides(`{name: o, keys: [acme], action: Allow}`)[1:],
		bad:     overrides(`{name: o, keys: [acme], action: Allow}`),
		field:   "spec.overrides",
		message: "keys of an override need a key of exactly one part",
	},
	"keys with a key of two parts": {
		good: `{key: [{type: Principal, principal: {}}], ` + overrides(`{name: o, keys: [acme], action: Allow}`)[1:],
		bad: `{key: [{type: Principal, principal: {}}, {type: RemoteAddress, remoteAddress: {}}], ` +
			overrides(`{name: o, keys: [acme], action: Allow}`)[1:],
		field:   "spec.overrides",
		message: "keys of an override need a key of exactly one part",
	},
	"groups without a key": {
		good:    ofOneKey(`{name: o, groups: [gold], action: Allow}`),
		bad:     overrides(`{name: o, groups: [gold], action: Allow}`),
		field:   "spec.overrides",
		message: "groups of an override need a key of exactly one part",
	},
	"groups beside keys": {
		good:    ofOneKey(`{name: o, groups: [gold, silver], action: Allow}`, `{name: p, keys: [acme], action: Allow}`),
		bad:     ofOneKey(`{name: o, groups: [gold, silver], keys: [acme], action: Allow}`),
		field:   "spec.overrides[0].groups",
		message: "groups must be the only selector of an override",
	},
	"groups beside networks": {
		good:    ofOneKey(`{name: o, groups: [gold], action: Allow}`),
		bad:     ofOneKey(`{name: o, groups: [gold], cidrs: [10.0.0.0/8], action: Allow}`),
		field:   "spec.overrides[0].groups",
		message: "groups must be the only selector of an override",
	},
	"groups beside an expression": {
		good:    ofOneKey(`{name: o, groups: [gold], action: Allow}`),
		bad:     ofOneKey(`{name: o, groups: [gold], when: a, action: Allow}`),
		field:   "spec.overrides[0].groups",
		message: "groups must be the only selector of an override",
	},
	"one group twice": {
		good:    ofOneKey(`{name: o, groups: [gold, silver], action: Allow}`),
		bad:     ofOneKey(`{name: o, groups: [gold, silver, gold], action: Allow}`),
		field:   "spec.overrides[0].groups",
		message: "every entry of groups must be unique",
	},
	"no group": {
		good:    ofOneKey(`{name: o, groups: [gold], action: Allow}`),
		bad:     ofOneKey(`{name: o, groups: [], action: Allow}`),
		field:   "spec.overrides[0].groups",
		message: "should have at least 1 items",
	},
	"more than 16 groups": {
		good:    ofOneKey(`{name: o, groups: [` + repeat(16, `g%d`) + `], action: Allow}`),
		bad:     ofOneKey(`{name: o, groups: [` + repeat(17, `g%d`) + `], action: Allow}`),
		field:   "spec.overrides[0].groups",
		message: "must have at most 16 items",
	},
	"a group that is no DNS label": {
		good:    ofOneKey(`{name: o, groups: [gold-1], action: Allow}`),
		bad:     ofOneKey(`{name: o, groups: [Gold], action: Allow}`),
		field:   "spec.overrides[0].groups[0]",
		message: "should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
	},
	"a network that is an address": {
		good:    overrides(`{name: o, cidrs: [10.0.0.0/8, "2001:db8::/32"], action: Allow}`),
		bad:     overrides(`{name: o, cidrs: [10.0.0.0/8, 10.0.0.1], action: Allow}`),
		field:   "spec.overrides[0].cidrs[1]",
		message: "cidrs must be networks in CIDR form, such as 10.0.0.0/8 or 2001:db8::/32",
	},
	"more than 256 networks": {
		good:    overrides(`{name: o, action: Allow, cidrs: [` + repeat(256, `10.0.%d.0/24`) + `]}`),
		bad:     overrides(`{name: o, action: Allow, cidrs: [` + repeat(257, `10.0.%d.0/24`) + `]}`),
		field:   "spec.overrides[0].cidrs",
		message: "must have at most 256 items",
	},
	"a burst for a limit without one": {
		good:    overrides(`{name: o, when: a, limits: [{name: gcra, burst: 9}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: log, burst: 9}]}`),
		field:   "spec.overrides",
		message: "burst of an override needs a limit that uses TokenBucket or GCRA",
	},
	"an override threshold too large for a log": {
		good:    overrides(`{name: o, when: a, limits: [{name: log, threshold: 100000}, {name: gcra, threshold: 100001}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: log, threshold: 100001}]}`),
		field:   "spec.overrides",
		message: "threshold of an override must be at most 100000 for a limit that uses SlidingLog",
	},
	"an override threshold of 2^31 for another algorithm": {
		good: `{overrides: [{name: o, when: a, limits: [{name: fixed, threshold: 2147483648}, {name: gcra, threshold: 2147483647}]}], ` + limits(
			`{name: fixed, algorithm: FixedWindow, threshold: 5, window: 1m}`,
			`{name: gcra, algorithm: GCRA, threshold: 5, window: 1m}`)[1:],
		bad:     overrides(`{name: o, when: a, limits: [{name: gcra, threshold: 2147483648}]}`),
		field:   "spec.overrides",
		message: "threshold of an override must be at most 2147483647 unless the limit uses FixedWindow",
	},
	"an override threshold of 1 that would deny everything": {
		good: `{denyWhen: ThresholdReached, limits: [` + aLimit + `], overrides: [
			{name: o, when: a, limits: [{name: a, threshold: 2}]}]}`,
		bad: `{denyWhen: ThresholdReached, limits: [` + aLimit + `], overrides: [
			{name: o, when: a, limits: [{name: a, threshold: 1}]}]}`,
		field:   "spec.overrides",
		message: "threshold of an override must be at least 2 when denyWhen is ThresholdReached",
	},
	"an override threshold of 0": {
		good:    overrides(`{name: o, when: a, limits: [{name: log, threshold: 1}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: log, threshold: 0}]}`),
		field:   "spec.overrides[0].limits[0].threshold",
		message: "should be greater than or equal to 1",
	},
	"an override window above 366 days": {
		good:    overrides(`{name: o, when: a, limits: [{name: fixed, window: 8784h}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: fixed, window: 8784h1s}]}`),
		field:   "spec.overrides[0].limits[0].window",
		message: "window must be between 1ms and 8784h",
	},
	"an override window above 720h for another algorithm": {
		good:    overrides(`{name: o, when: a, limits: [{name: log, window: 720h}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: log, window: 720h1s}]}`),
		field:   "spec.overrides",
		message: "window of an override must be at most 720h unless the limit uses FixedWindow",
	},
	"an override block below 1ms": {
		good:    overrides(`{name: o, when: a, limits: [{name: log, blockDuration: 1ms}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: log, blockDuration: 0s}]}`),
		field:   "spec.overrides[0].limits[0].blockDuration",
		message: "blockDuration must be between 1ms and 720h",
	},
	"an override window too short for buckets": {
		good:    overrides(`{name: o, when: a, limits: [{name: suppressed, window: 2ms}, {name: log, window: 1ms}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: suppressed, window: 1ms}]}`),
		field:   "spec.overrides",
		message: "window of an override must be at least 2ms for a limit that uses SlidingWindow or Suppressed",
	},
	"an override window too short for the bucket": {
		good:    overrides(`{name: o, when: a, limits: [{name: bucketed, window: 2s}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: bucketed, window: 1999ms}]}`),
		field:   "spec.overrides",
		message: "window of an override must be between 2 and 1000 times the bucket of the limit",
	},
	"an override window too long for the bucket": {
		good:    overrides(`{name: o, when: a, limits: [{name: bucketed, window: 1000s}]}`),
		bad:     overrides(`{name: o, when: a, limits: [{name: bucketed, window: 1000s1ms}]}`),
		field:   "spec.overrides",
		message: "window of an override must be between 2 and 1000 times the bucket of the limit",
	},
}

// ofOneKey returns a spec with a key of one part, these overrides and the limits that they may change.
func ofOneKey(entries ...string) string {
	return `{key: [{type: Principal, principal: {}}], ` + overrides(entries...)[1:]
}
